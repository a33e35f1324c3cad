from collections import Counter

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.utils import to_networkx

from fullrank.errors import ConfigError, DataError
from fullrank.lab import SUITES, load_suite
from fullrank.lab.graphs.suites import BREC_CATEGORIES
from shared_data import shared_data


def as_networkx(data):
    return to_networkx(data, to_undirected=True)


def test_atlas_pairs_agree_in_size_and_are_told_apart_by_1wl_as_networkx_says():
    suite = load_suite("atlas")
    sizes = torch.tensor([[g.num_nodes, g.num_edges] for g in suite.graphs])
    assert torch.equal(sizes[suite.pairs[:, 0]], sizes[suite.pairs[:, 1]])
    alike = suite.pairs[~suite.wl_separated()]
    assert len(alike) == 26
    for i, j in alike.tolist():
        assert not nx.is_isomorphic(*map(as_networkx, suite.graphs[i : j + 1 : j - i]))


def test_csl_has_ten_regular_graphs_that_1wl_confuses():
    suite = load_suite("csl")
    assert len(suite) == 45
    assert not suite.wl_separated().any()
    graphs = [as_networkx(graph) for graph in suite.graphs]
    assert {degree for graph in graphs for _, degree in graph.degree} == {4}
    # Isomorphic graphs have the same spectrum.
    matrices = np.stack([nx.to_numpy_array(graph) for graph in graphs])
    spectra = np.linalg.eigvalsh(matrices)
    assert len(np.unique(spectra.round(6), axis=0)) == 10


def test_classic_pairs_agree_in_all_that_1wl_sees():
    suite = load_suite("classic")
    assert Counter(suite.groups) == {"cycles": 4, "molecules": 1, "srg": 10, "cfi": 5}
    assert not suite.wl_separated().any()
    for pair in suite.pairs.tolist():
        one, two = (as_networkx(suite.graphs[index]) for index in pair)
        assert sorted(d for _, d in one.degree) == sorted(d for _, d in two.degree)
        assert len(one) <= 40


def write_brec(folder, pairs):
    """The same pairs in each category."""
    (folder / "brec").mkdir()
    graphs = [graph for pair in pairs for graph in pair]
    text = b"".join(nx.to_graph6_bytes(graph, header=False) for graph in graphs)
    for category in BREC_CATEGORIES:
        (folder / "brec" / f"{category}.g6").write_bytes(text)


def test_graph6_files_are_read_line_by_line(tmp_path):
    pair = nx.petersen_graph(), nx.circular_ladder_graph(5)
    write_brec(tmp_path, [pair, pair])
    with (tmp_path / "brec" / "dr.g6").open("ab") as file:
        file.write(b"\n>>graph6<<" + 2 * nx.to_graph6_bytes(pair[0], header=False))
    suite = load_suite("brec", tmp_path)
    expected = dict.fromkeys(BREC_CATEGORIES, 2) | {"dr": 3}
    assert Counter(suite.groups) == expected
    for index, graph in zip(suite.pairs[0], pair, strict=True):
        assert nx.is_isomorphic(as_networkx(suite.graphs[index]), graph)
    (tmp_path / "sr251256.g6").write_bytes((tmp_path / "brec/str.g6").read_bytes())
    assert len(load_suite("sr25", tmp_path)) == 6


def test_graph8c_keeps_the_graphs_that_1wl_confuses(tmp_path):
    hexagon = nx.cycle_graph(6)
    triangles = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    graphs = [nx.path_graph(6), hexagon, nx.star_graph(5), triangles]
    text = b"".join(nx.to_graph6_bytes(graph, header=False) for graph in graphs)
    (tmp_path / "graph8c.g6").write_bytes(text)
    suite = load_suite("graph8c", tmp_path)
    assert suite.pairs.tolist() == [[0, 1]]
    assert nx.is_isomorphic(as_networkx(suite.graphs[0]), hexagon)


EXP = ["2", "3 1", "0 1 1", "1 2 0 2", "0 1 1", "1 0", "1 0"]


def test_typed_graphs(tmp_path):
    (tmp_path / "EXP.txt").write_text("\n".join(EXP) + "\n")
    suite = load_suite("exp", tmp_path)
    path, single = suite.graphs
    assert path.x.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert nx.is_isomorphic(as_networkx(path), nx.path_graph(3))
    assert single.x.tolist() == [[0, 1]]
    assert single.num_edges == 0


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (1, "many"),
        (1, "3"),  # one graph is missing
        (1, "1"),  # one graph too many
        (2, "4 1"),  # the next graph is read as a node
        (2, "3"),
        (2, "0 1"),
        (2, "-1 1"),
        (3, "2 1 1"),  # no such type
        (3, "0 2 1"),  # of two neighbours one is given
        (3, "0 1 7"),  # no such node
        (3, "0 1 2"),  # an edge in one direction
        (5, "0 1 x"),
        (5, ""),
        (7, "\xff"),
    ],
)
def test_a_damaged_exp_file_is_refused_with_its_line(tmp_path, line, text):
    lines = EXP.copy()
    lines[line - 1] = text
    (tmp_path / "EXP.txt").write_text("\n".join(lines), encoding="latin-1")
    with pytest.raises(DataError, match=r"EXP.txt, line \d"):
        load_suite("exp", tmp_path)


@pytest.mark.parametrize(
    "text", [b"", b"D?{\n", b"D?{\nD?\n", b"D?{\nD?{x\n", b"D?{\nD?\x01\n", b"~\nD?{\n"]
)
def test_damaged_graph6_files_are_refused_with_their_name(tmp_path, text):
    write_brec(tmp_path, [(nx.path_graph(3), nx.star_graph(2))])
    (tmp_path / "brec" / "cfi.g6").write_bytes(text)
    with pytest.raises(DataError, match="cfi.g6"):
        load_suite("brec", tmp_path)
    for name, file in [("sr25", "sr251256.g6"), ("graph8c", "graph8c.g6")]:
        (tmp_path / file).write_bytes(text)
        with pytest.raises(DataError, match=f"{file}|'{name}'"):
            load_suite(name, tmp_path)


def test_a_missing_or_unreadable_file_is_named(tmp_path):
    (tmp_path / "sr251256.g6").mkdir()
    for name, file in [("exp", "EXP.txt"), ("sr25", "sr251256.g6")]:
        with pytest.raises(DataError, match=file):
            load_suite(name, tmp_path)


def test_unknown_suites_and_those_without_a_folder_are_refused():
    with pytest.raises(ConfigError, match="'brek'.*'brec'"):
        load_suite("brek")
    with pytest.raises(ConfigError, match="'brec'"):
        load_suite("brec")
    assert {"classic", "brec"} < set(SUITES)


@pytest.mark.slow
def test_published_files_hold_only_pairs_that_1wl_confuses():
    folder = shared_data() / "expressiveness"
    # graph8c: 312 is the count that Balcilar et al. (2021) report for 1-WL.
    for name, num_graphs, num_pairs in [
        ("brec", 800, 400),
        ("exp", 1200, 600),
        ("sr25", 15, 105),
        ("graph8c", 395, 312),
    ]:
        suite = load_suite(name, folder)
        assert (len(suite.graphs), len(suite)) == (num_graphs, num_pairs)
        assert not suite.wl_separated().any()
        if name == "exp":  # as published
            mean = sum(graph.num_nodes for graph in suite.graphs) / num_graphs
            assert mean == pytest.approx(44.45, abs=0.01)
