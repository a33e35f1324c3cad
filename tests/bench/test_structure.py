import json
from pathlib import Path

from fullrank.bench import structure
from fullrank.bench.provenance import Provenance
from fullrank.data import QM9, AddStructuralColors


def read_rows(file):
    written = json.loads(file.read_text(encoding="utf-8"))
    assert Provenance(**written["provenance"]).torch
    return [structure.Row(**row) for row in written["rows"]]


def test_larger_subgraphs_tell_more_edges_apart(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FULLRANK_ROOT", str(tmp_path))
    rows = structure.run(quick=True, json_file=tmp_path / "rows.json")
    assert read_rows(tmp_path / "rows.json") == rows
    assert "distinct colours" in capsys.readouterr().out
    found = {row.level: row.distinct for row in rows[:-1]}
    chain = ("degrees", "1 hop", "2 hops", "3 hops", "whole")
    assert sorted(chain, key=found.get) == list(chain)
    assert found["degrees"] < found["1 hop"] < found["2 hops"]
    for name in ("1 hop", "2 hops", "whole"):
        assert found[f"{name}, v marked"] <= found[name]


def test_a_row_counts_the_colours_of_all_edges(tmp_path):
    graphs = QM9(tmp_path, limit=100).graphs
    row = structure.measure("1 hop", "QM9", AddStructuralColors(1), graphs)
    colors = AddStructuralColors(1).pack(graphs).array("edge_color")
    assert (row.edges, row.distinct) == (len(colors), len(set(colors.tolist())))


def test_the_committed_rows_are_those_of_all_levels():
    file = Path(__file__).parents[2] / "docs" / "results" / "structure.json"
    levels = [row.level for row in read_rows(file)]
    assert levels == [*structure.structural_levels(), "2 hops"]


def test_the_random_graph():
    graph = structure.random_graph()[0]
    assert (graph.num_nodes, graph.num_edges) == (400, 2000)
    assert graph.is_undirected()
