import networkx as nx
import torch
from torch.testing import assert_close
from torch_geometric.data import Batch, Data

from fullrank.lab import PairNet, relabel


def graph(edges, n):
    both = torch.tensor([*edges, *[(b, a) for a, b in edges]]).T
    return Data(x=torch.ones(n, 1).double(), edge_index=both)


def embed(model, graphs):
    with torch.no_grad():
        return model(Batch.from_data_list(graphs))


def test_it_tells_two_triangles_from_a_hexagon_which_1wl_cannot():
    torch.manual_seed(0)
    triangles = graph(nx.disjoint_union_all([nx.cycle_graph(3)] * 2).edges, 6)
    hexagon = graph(nx.cycle_graph(6).edges, 6)
    one, other = embed(PairNet(1).double(), [triangles, hexagon])
    assert (one - other).norm() > 1e-3 * one.norm()


def test_it_does_not_see_how_nodes_are_numbered():
    torch.manual_seed(0)
    petersen = graph(nx.petersen_graph().edges, 10)
    petersen.x = torch.arange(10.0).double().view(-1, 1)
    one, other = embed(PairNet(1).double(), [petersen, relabel(petersen)])
    assert_close(one, other)
