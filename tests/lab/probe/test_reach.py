import networkx as nx
import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, SimpleConv
from torch_geometric.utils import from_networkx

from fullrank.errors import ConfigError
from fullrank.lab import reach
from fullrank.nn import GraphNet


class Linear(torch.nn.Module):
    """Three convolutions and nothing between them."""

    def __init__(self):
        super().__init__()
        self.convs = torch.nn.ModuleList(GCNConv(4, 4, bias=False) for _ in range(3))

    def forward(self, batch):
        h = batch.x
        for conv in self.convs:
            h = conv(x=h, edge_index=batch.edge_index)
        return h


def graph(plain):
    data = from_networkx(plain)
    return Data(x=torch.randn(len(plain), 4), edge_index=data.edge_index)


def test_influence_of_a_linear_network_is_the_power_of_its_matrix():
    torch.manual_seed(0)
    plain = nx.random_regular_graph(3, 12, seed=1)
    model = Linear()
    measured = reach(model, graph(plain), seed=3)
    adjacency = torch.from_numpy(nx.to_numpy_array(plain)) + torch.eye(12)
    power = torch.linalg.matrix_power(adjacency / 4, 3)
    weight = torch.linalg.multi_dot(
        [conv.lin.weight.double() for conv in reversed(model.convs)]
    )
    # The graph is regular but not symmetric: find the node that was drawn.
    expected, weight = [], weight.detach()
    for node in plain:
        distance = nx.single_source_shortest_path_length(plain, node)
        rows = {}
        for other, d in distance.items():
            rows.setdefault(d, []).append(power[node, other] * weight.norm())
        expected.append([float(sum(rows[d]) / len(rows[d])) for d in sorted(rows)])
    found = measured.influence.tolist()
    assert any(found == pytest.approx(one, rel=1e-9) for one in expected)
    assert measured.layers == 3


def test_nothing_arrives_from_further_than_there_are_layers():
    torch.manual_seed(0)
    paths = Batch.from_data_list([graph(nx.path_graph(30)) for _ in range(5)])
    model = GraphNet(4, 8, 1, 4, conv="gcn")
    measured = reach(model, paths)
    assert (measured.influence[:5] > 0).all()
    assert (measured.influence[5:] == 0).all()
    assert float(measured.share.sum()) == pytest.approx(1)
    assert float(measured.nodes[0]) == 1
    assert len(measured.nodes) > 5


def test_merging_of_equal_nodes_does_not_hide_who_influences():
    """A ring of equal nodes, which the network would compute once."""
    torch.manual_seed(0)
    ring = graph(nx.cycle_graph(8))
    ring.x = torch.ones(8, 4)
    measured = reach(GraphNet(4, 8, 1, 2, conv="expc"), ring)
    assert measured.nodes.tolist() == [1, 2, 2, 2, 1]
    assert (measured.influence[3:] == 0).all()


def test_a_layer_and_an_unusual_call():
    data = graph(nx.star_graph(3))
    measured = reach(SimpleConv(), data, call=lambda conv, d: conv(d.x, d.edge_index))
    assert float(measured.influence[0]) == 0  # a sum over the others
    with pytest.raises(ConfigError):
        reach(torch.nn.Identity(), data, call=lambda model, d: model(d.x))
