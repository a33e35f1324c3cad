import json

import networkx as nx
import pytest
from typer.testing import CliRunner

from fullrank.cli.expressiveness import app
from fullrank.errors import ConfigError, DataError
from fullrank.lab.graphs import families, suites


def run(*arguments):
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_writes_what_it_shows(tmp_path):
    out = tmp_path / "results" / "csl"
    models = ("--suite", "csl", "--model", "+ 2 hops")
    result = run(*models, "--relabelings", "2", "--out", str(out))
    assert result.exit_code == 0
    assert "ExpC-4 + 2 hops, v marked" in result.stdout
    table = out.with_suffix(".md").read_text()
    assert "| ExpC-4 + 2 hops | 30 | 0 |" in table
    rows = json.loads(out.with_suffix(".json").read_text())["rows"]
    assert [row["told_apart"] for row in rows] == [{"csl": 0}, {"csl": 30}, {"csl": 30}]


def test_processes_share_the_work(tmp_path):
    models = ("--suite", "csl", "--model", "+ 1 hop", "--relabelings", "2")
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


def test_a_full_name_is_one_model(tmp_path):
    rows = ("--suite", "csl", "--relabelings", "2")
    models = ("--model", "ExpC-4 + 2 hops", "--model", "gin-0")
    found = table((*rows, *models), tmp_path).split("\n\n")[0].splitlines()[2:]
    assert [line.split(" | ")[0] for line in found] == [
        "| 1-WL, exactly",
        "| GIN-0",
        "| ExpC-4 + 2 hops",
    ]


def test_rpc_is_run_by_a_command(tmp_path, brec_folder):
    models = ("--model", "GIN-0", "--model", "ExpC-4 + 2 hops")
    pairs = ("--protocol", "rpc", "--folder", str(brec_folder))
    written = table((*pairs, *models), tmp_path)
    counts = {
        line.split(" | ")[0]: line.split(" | ")[1:3]
        for line in written.splitlines()
        if "released rule" in line
    }
    assert counts == {
        "| GIN-0, released rule": ["0", "0"],
        "| ExpC-4 + 2 hops, released rule": ["1", "1"],
    }
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(line)["pairs"] for line in lines] == [{"basic": 1, "str": 1}] * 2
    with pytest.raises(ConfigError, match="'cpr'"):
        run("--protocol", "cpr")


@pytest.fixture
def brec_folder(tmp_path, monkeypatch):
    """Two pairs in the layout of BREC, with only two of its categories."""
    monkeypatch.setattr(suites, "BREC_CATEGORIES", ("basic", "str"))
    pairs = {
        "basic": (families.decalin(), families.bicyclopentyl()),
        "str": (families.rook_graph(4), families.shrikhande_graph()),
    }
    (tmp_path / "brec").mkdir()
    for name, pair in pairs.items():
        lines = [nx.to_graph6_bytes(graph, header=False) for graph in pair]
        (tmp_path / "brec" / f"{name}.g6").write_bytes(b"".join(lines))
    return tmp_path


def test_unknown_models_are_named():
    with pytest.raises(ConfigError, match="'transformer'"):
        run("--suite", "csl", "--model", "transformer")


def test_suites_from_files_need_a_folder(tmp_path):
    with pytest.raises(ConfigError, match="'brec'"):
        run()
    with pytest.raises(DataError, match="nowhere/EXP.txt"):
        run("--suite", "exp", "--folder", "nowhere")
