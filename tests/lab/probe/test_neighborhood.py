import pytest
import torch
from torch.testing import assert_close
from torch_geometric.nn import GATConv, GCNConv, GINEConv, SAGEConv

from fullrank.lab import Neighborhood, neighborhood_of


@pytest.fixture
def graph():
    torch.manual_seed(0)
    edges = torch.randint(0, 12, (2, 40)).unique(dim=1)
    edges = torch.cat([edges, edges.flip(0)], dim=1).unique(dim=1)
    return torch.randn(12, 3).double(), edges, torch.randn(edges.size(1), 3).double()


@pytest.mark.parametrize("conv", [GCNConv(3, 5), GATConv(3, 5), SAGEConv(3, 5)])
def test_a_layer_says_the_same_of_the_star_as_of_the_whole_graph(conv, graph):
    x, edges, _ = graph
    edges = edges[:, edges[0] != edges[1]]
    conv = conv.double()
    whole = conv(x, edges)
    for node in range(12):
        star = neighborhood_of(node, x, edges).graph()
        assert_close(conv(star.x, star.edge_index)[0], whole[node])


def test_edge_features_come_along(graph):
    x, edges, attr = graph
    keep = edges[0] != edges[1]
    conv = GINEConv(torch.nn.Linear(3, 5)).double()
    whole = conv(x, edges[:, keep], attr[keep])
    star = neighborhood_of(4, x, edges, attr).graph()
    assert_close(conv(star.x, star.edge_index, star.edge_attr)[0], whole[4])


def test_wrong_shapes_and_nodes_are_refused(graph):
    with pytest.raises(ValueError, match=r"\(3,\)"):
        Neighborhood(torch.ones(3))
    for node in (-1, 12):
        with pytest.raises(ValueError, match=str(node)):
            neighborhood_of(node, *graph)
