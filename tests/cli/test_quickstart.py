"""``fullrank quickstart`` as a person runs it, on few molecules."""

import importlib
from pathlib import Path

import pytest
import typer

from fullrank.cli.main import VERBS, main
from fullrank.cli.quickstart import next_commands
from fullrank.train import RunFolder


def test_trains_compares_and_reports(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("FULLRANK_ROOT", str(tmp_path / "root"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["quickstart", "--molecules", "150", "--epochs", "1", "-q"])
    output = capsys.readouterr().out
    assert not ended.value.code
    results = [run.result for run in RunFolder.all_in(tmp_path / "runs")]
    assert len(results) == 4
    assert {result.conv for result in results} == {"gin0", "expc"}
    for result in results:
        assert f"{result.test['mae']:.5f}" in output
    page = (tmp_path / "runs" / "quickstart.html").read_text()
    assert str(tmp_path / "runs" / "quickstart.html") in output
    for name in ("GIN-0", "ExpC-1", "ExpC-4", "ExpC-16"):
        assert name in output
        assert f"{name}, valid" in page
    best = min(RunFolder.all_in(tmp_path / "runs"), key=lambda r: r.result.test["mae"])
    assert f"inspect {Path('runs') / best.path.name}" in output
    assert f"fullrank inspect runs/{best.path.name}" in page
    assert str(tmp_path) not in page


def test_the_next_commands_exist():
    commands = next_commands("fullrank", Path("runs/RUN"))
    assert len(commands) == 3
    for command in commands:
        _, verb, *arguments = command.split()
        assert verb in VERBS
        options = {flag for p in options_of(verb) for flag in p.opts}
        assert {a for a in arguments if a.startswith("-")} <= options


def options_of(verb):
    app = importlib.import_module(f"fullrank.cli.{verb}").app
    return typer.main.get_command(app).params
