import networkx as nx
import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_networkx

from fullrank.lab import PairSuite, relabel
from fullrank.lab.graphs.pairs import as_data


def isomorphic(one, other):
    graphs = [to_networkx(data, node_attrs=["x"]) for data in (one, other)]
    return nx.is_isomorphic(*graphs, node_match=lambda a, b: a["x"] == b["x"])


def test_every_two_graphs_of_a_class_are_a_pair():
    typed = Data(x=torch.eye(2), edge_index=torch.tensor([[0, 1], [1, 0]]))
    named = nx.Graph([("b", "a"), ("a", "c")])
    classes = [
        ("one", [nx.cycle_graph(3), nx.cycle_graph(4), named]),
        ("two", [typed, typed]),
        ("alone", [nx.empty_graph(2)]),
    ]
    suite = PairSuite.from_classes("mine", classes)
    assert suite.pairs.tolist() == [[0, 1], [0, 2], [1, 2], [3, 4]]
    assert suite.groups == ("one", "one", "one", "two")
    assert suite.count_by_group(torch.tensor([1, 0, 1, 0]) > 0) == {"one": 2, "two": 0}
    assert suite.graphs[3] is typed
    assert (suite.graphs[5].num_nodes, suite.graphs[5].num_edges) == (2, 0)
    path = to_networkx(suite.graphs[2], to_undirected=True)
    assert nx.is_isomorphic(path, named)
    assert suite.graphs[2].x.tolist() == [[1.0]] * 3


def test_copies_are_isomorphic():
    suite = PairSuite.from_classes("mine", [("g", [nx.petersen_graph()])])
    copies = suite.isomorphic_copies()
    assert copies.pairs.tolist() == [[0, 1]]
    assert not torch.equal(copies.graphs[0].edge_index, copies.graphs[1].edge_index)
    assert isomorphic(*copies.graphs)


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


def test_each_pair_needs_a_group():
    with pytest.raises(ValueError, match="'odd'"):
        PairSuite("odd", [], torch.zeros(1, 2), ())


def test_a_loop_of_a_networkx_graph_is_one_edge():
    graph = as_data(nx.Graph([(0, 0), (0, 1)]))
    assert sorted(graph.edge_index.T.tolist()) == [[0, 0], [0, 1], [1, 0]]
