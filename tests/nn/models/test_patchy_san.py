import torch

from fullrank.nn.models.inputs import Graphs
from fullrank.nn.models.patchy_san import receptive_fields
from nn.models.graphs import undirected


def fields(graph, width, field):
    batch = torch.zeros(graph.x.size(0), dtype=torch.long)
    graphs = Graphs(graph.x, graph.edge_index, None, batch, 1)
    return receptive_fields(graphs, width, field).view(width, field).tolist()


def test_fields_of_a_path():
    """The centre has most neighbours around it, then come the two next to it."""
    path = undirected(5, [(0, 1), (1, 2), (2, 3), (3, 4)])
    found = fields(path, 6, 3)
    roots = [row[0] for row in found]
    assert set(roots[:3]) == {1, 2, 3}  # of degree 2
    assert set(roots[3:5]) == {0, 4}
    assert found[5] == [-1, -1, -1]  # there is no sixth node
    by_root = {row[0]: row[1:] for row in found}
    assert set(by_root[2]) == {1, 3}
    assert by_root[0] == [1, 2]  # the nearest ones, in this order
    assert by_root[4] == [3, 2]


def test_small_components_are_padded():
    assert fields(undirected(3, [(0, 1)]), 3, 4)[2] == [2, -1, -1, -1]


def test_features_order_nodes_that_structure_cannot():
    pair = undirected(2, [(0, 1)])
    pair.x = torch.tensor([[1.0], [0.0]])
    assert fields(pair, 2, 2) == [[1, 0], [0, 1]]
