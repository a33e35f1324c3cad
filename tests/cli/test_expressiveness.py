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


def test_unknown_models_are_named():
    with pytest.raises(ConfigError, match="'transformer'"):
        run("--suite", "csl", "--model", "transformer")


def test_suites_from_files_need_a_folder(tmp_path):
    with pytest.raises(ConfigError, match="'brec'"):
        run()
    with pytest.raises(DataError, match="nowhere/EXP.txt"):
        run("--suite", "exp", "--folder", "nowhere")
