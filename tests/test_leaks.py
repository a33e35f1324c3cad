"""What is passed on names neither the machine, nor its user, nor where files lie."""

import platform
import socket

import pytest
from typer.testing import CliRunner

from fullrank.paper.results import make_record
from fullrank.report.reproduction import write_reproduction
from fullrank.report.training import write_training_report
from fullrank.train import run_one
from paper.samples import runs_for, write_run
from train.samples import small_config

SECRET = "zzleak"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder whose path, like the names of host and user, is easily found again."""
    for name in ("USER", "LOGNAME", "USERNAME", "HOSTNAME"):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("HOME", str(tmp_path / SECRET))
    monkeypatch.setattr(socket, "gethostname", lambda: SECRET)
    monkeypatch.setattr(platform, "node", lambda: SECRET)
    folder = tmp_path / SECRET
    folder.mkdir()
    return folder


def assert_clean(*files):
    for file in files:
        content = file.read_bytes()
        assert content
        place = content.find(SECRET.encode())
        assert place < 0, f"{file.name}: {content[max(place - 200, 0) : place + 100]}"


def test_a_model_a_result_and_the_pages_of_a_run(home):
    from fullrank.cli.inspect import app

    run = run_one(small_config(home, training={"epochs": 1}))
    write_training_report(home / "page.html", "A run", {"ExpC": run})
    arguments = [str(run.path), "--graphs", "4", "--out", str(home / "lab.html")]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert_clean(
        run.model_file,
        run.path / "result.json",
        run.path / "environment.json",
        home / "page.html",
        home / "lab.html",
    )


def test_a_results_file_and_its_pages_also_of_damaged_runs(home):
    runs = runs_for("ablation-qm9", "small", home / "runs", ["ExpC-4", "mu"], 3)
    _, first, second = [write_run(run, "mae", 0.5, 0.6) for run in runs]
    (first.path / "result.json").write_text("{}")
    (second.path / "config.yaml").write_text("model: [")
    record = make_record(home / "runs")
    assert record.runs.unread.keys() == {first.id, second.id}
    write_reproduction(home / "out", record)
    assert_clean(*(home / "out" / f"results.{kind}" for kind in ("json", "html", "md")))
