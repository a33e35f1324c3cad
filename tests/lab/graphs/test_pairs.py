import networkx as nx
import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_networkx

from fullrank.lab import PairSuite, load_suite, relabel
from shared_data import shared_data


def isomorphic(one, other):
    graphs = [to_networkx(data, node_attrs=["x"]) for data in (one, other)]
    return nx.is_isomorphic(*graphs, node_match=lambda a, b: a["x"] == b["x"])


def test_atlas_pairs_agree_in_size_and_are_told_apart_by_1wl_as_networkx_says():
    suite = load_suite("atlas")
    sizes = torch.tensor([[g.num_nodes, g.num_edges] for g in suite.graphs])
    assert torch.equal(sizes[suite.pairs[:, 0]], sizes[suite.pairs[:, 1]])
    alike = suite.pairs[~suite.wl_separated()]
    assert len(alike) == 26
    for i, j in alike.tolist():
        assert not isomorphic(suite.graphs[i], suite.graphs[j])


def test_csl_has_ten_classes_that_1wl_confuses():
    suite = load_suite("csl")
    assert len(suite) == 45
    assert not suite.wl_separated().any()
    first, second = suite.pairs[0]
    assert not isomorphic(suite.graphs[first], suite.graphs[second])


@pytest.mark.parametrize(
    ("name", "num_graphs", "num_pairs"),
    # graph8c: 312 is the count that Balcilar et al. (2021) report for 1-WL.
    [
        ("brec", 800, 400),
        ("exp", 1200, 600),
        ("sr25", 15, 105),
        ("graph8c", 395, 312),
    ],
)
def test_suites_read_from_files_hold_only_pairs_that_1wl_confuses(
    name, num_graphs, num_pairs
):
    suite = load_suite(name, shared_data() / "expressiveness")
    assert len(suite.graphs) == num_graphs
    assert len(suite) == num_pairs
    assert not suite.wl_separated().any()


def test_exp_has_the_published_mean_number_of_nodes():
    graphs = load_suite("exp", shared_data() / "expressiveness").graphs
    mean = sum(graph.num_nodes for graph in graphs) / len(graphs)
    assert mean == pytest.approx(44.45, abs=0.01)
    assert all(graph.is_undirected() for graph in graphs)


def test_relabeling_a_batch_gives_isomorphic_graphs_with_their_attributes():
    graphs = []
    for skip in (2, 3):
        edges = torch.tensor(list(nx.circulant_graph(9, [1, skip]).edges)).T
        ends = edges.sum(dim=0) + edges.prod(dim=0)
        x = torch.arange(9.0).view(-1, 1)
        graphs.append(Data(x=x, edge_index=edges, edge_attr=ends))
    generator = torch.Generator().manual_seed(1)
    batch = relabel(Batch.from_data_list(graphs), generator)
    for before, after in zip(graphs, batch.to_data_list(), strict=True):
        assert not torch.equal(before.x, after.x)
        assert isomorphic(before, after)
        ends = after.x[after.edge_index, 0]
        assert torch.equal(after.edge_attr, (ends.sum(dim=0) + ends.prod(dim=0)).long())


def test_what_is_asked_wrongly_is_answered_with_a_sentence():
    with pytest.raises(ValueError, match="no suite 'brek'; choose one of atlas"):
        load_suite("brek")
    with pytest.raises(ValueError, match="'brec' is read from files"):
        load_suite("brec")
    with pytest.raises(ValueError, match="0 groups for pairs of shape"):
        PairSuite("odd", [], torch.zeros(1, 2), ())
