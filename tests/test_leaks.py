"""What is passed on names neither the machine, nor its user, nor where files lie."""

import csv
import platform
import socket
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import fullrank
from fullrank import load
from fullrank.data.tables import open_table
from fullrank.paper.results import make_record
from fullrank.report.reproduction import write_reproduction
from fullrank.report.run_page import write_run_page
from fullrank.report.training import write_training_report
from fullrank.report.tune_page import write_tune_page
from fullrank.train import run_one
from fullrank.train.export import export_onnx
from fullrank.train.predict_file import predict_file
from fullrank.train.tune import tune
from paper.samples import runs_for, write_run
from train.samples import small_config, untrained

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
    """No names, and no folder of the package or of the libraries."""
    installed = [str(Path(module.__file__).parents[1]) for module in (fullrank, torch)]
    for file in files:
        content = file.read_bytes()
        assert content
        for secret in (SECRET, *installed):
            place = content.find(secret.encode())
            found = content[max(place - 200, 0) : place + 100]
            assert place < 0, f"{file.name}: {found!r}"


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
        write_run_page(run.path, run.config.load_data()),
    )


def test_what_is_made_with_a_model(home):
    from fullrank.cli.embed import app as embed
    from fullrank.cli.explain import app as explain

    model = untrained(small_config(home), home / "model.safetensors")
    table = home / "molecules.csv"
    made = [home / name for name in ("out.csv", "out.parquet", "out.html")]
    predict_file(load(model), table, made[0])
    for app, file in zip((embed, explain), made[1:], strict=True):
        arguments = map(str, (model, table, "-o", file))
        assert CliRunner().invoke(app, list(arguments)).exit_code == 0
    assert_clean(*made)


def test_a_search(home):
    space = {"model.hidden": [4, 8]}
    tuned = tune(small_config(home, training={"epochs": 1}), 1, space=space)
    assert_clean(write_tune_page(tuned))


def test_an_onnx_file(home):
    pytest.importorskip("onnxscript")
    model = untrained(small_config(home), home / "model.safetensors")
    export_onnx(load(model), home / "model.onnx")
    assert_clean(home / "model.onnx")


def test_no_cell_is_a_formula(home):
    table = home / "molecules.csv"
    model = untrained(small_config(home), home / "model.safetensors")
    formulas = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1"]
    table.write_text(
        "smiles,note\n" + "".join(f'{cell},"{cell}"\n' for cell in formulas)
    )
    predict_file(load(model), table, home / "out.csv")
    with (home / "out.csv").open(newline="") as stream:
        rows = list(csv.reader(stream))
    assert len(rows) == 1 + len(formulas)
    for cell in (cell for row in rows for cell in row):
        assert cell[:1] not in tuple("=+-@\t\r"), cell
    with open_table(home / "out.csv") as again:
        assert [row.cells[1] for row in again] == formulas


def test_a_results_file_and_its_pages_also_of_damaged_runs(home):
    runs = runs_for("ablation-qm9", "small", home / "runs", ["ExpC-4", "mu"], 3)
    _, first, second = [write_run(run, "mae", 0.5, 0.6) for run in runs]
    (first.path / "result.json").write_text("{}")
    (second.path / "config.yaml").write_text("model: [")
    record = make_record(home / "runs")
    assert record.runs.unread.keys() == {first.id, second.id}
    write_reproduction(home / "out", record)
    assert_clean(*(home / "out" / f"results.{kind}" for kind in ("json", "html", "md")))
