import json

import pytest
from typer.testing import CliRunner

from fullrank.cli.expressiveness import app
from fullrank.errors import ConfigError, DataError


def run(*arguments):
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_writes_what_it_shows(tmp_path):
    out = tmp_path / "results" / "csl"
    models = ("--suite", "csl", "--model", "ExpC-4 + 2 hops")
    result = run(*models, "--relabelings", "2", "--out", str(out))
    assert result.exit_code == 0
    assert "ExpC-4 + 2 hops, v marked" in result.stdout
    table = out.with_suffix(".md").read_text()
    assert "| ExpC-4 + 2 hops | 30 | 0 |" in table
    rows = json.loads(out.with_suffix(".json").read_text())["rows"]
    assert [row["told_apart"] for row in rows] == [{"csl": 0}, {"csl": 30}, {"csl": 30}]


def test_processes_share_the_work(tmp_path):
    models = ("--suite", "csl", "--model", "ExpC-4 + 1 hop", "--relabelings", "2")
    parts = ("--parts", str(tmp_path / "parts"))
    for share in ("1/2", "2/2"):
        assert run(*models, *parts, "--share", share).exit_code == 0
    files = sorted((tmp_path / "parts").iterdir())
    stamps = [file.stat().st_mtime_ns for file in files]
    assert len(files) == 2
    assert "| ExpC-4 + 1 hop | 9 | 0 |" in table((*models, *parts), tmp_path)
    assert [file.stat().st_mtime_ns for file in files] == stamps
    with pytest.raises(ConfigError, match="'3/2'"):
        run(*models, *parts, "--share", "3/2")


def test_rows_of_an_earlier_table_are_kept(tmp_path):
    rows = ("--suite", "csl", "--relabelings", "2", "--model")
    table((*rows, "1 hop, v"), tmp_path)
    joined = table((*rows, "GIN", "--join", str(tmp_path / "out.json")), tmp_path)
    assert "| ExpC-4 + 1 hop, v marked | 9 | 0 |" in joined
    assert "| GIN-0 | 0 | 0 |" in joined


def table(arguments, folder):
    assert run(*arguments, "--out", str(folder / "out")).exit_code == 0
    return (folder / "out.md").read_text()


def test_unknown_models_are_named():
    with pytest.raises(ConfigError, match="'transformer'"):
        run("--suite", "csl", "--model", "transformer")


def test_suites_from_files_need_a_folder(tmp_path):
    with pytest.raises(ConfigError, match="'brec'"):
        run()
    with pytest.raises(DataError, match="nowhere/EXP.txt"):
        run("--suite", "exp", "--folder", "nowhere")
