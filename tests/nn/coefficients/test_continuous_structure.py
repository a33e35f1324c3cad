import pytest
import torch
from torch_geometric.data import Data

from fullrank.data.transforms import AddContinuousStructure, AddStructuralColors
from fullrank.errors import DataError
from fullrank.nn import (
    ContinuousStructureCoefficients,
    ExpandingConv,
    GraphNet,
    Stack,
    StructuralCoefficients,
    TanhCoefficients,
)

HEXAGON = [[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]
TRIANGLES = [[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]]


def described(edges, transform=None):
    index = torch.tensor(edges)
    index = torch.cat([index, index.flip(0)], dim=1)
    graph = Data(x=torch.ones(6, 3).double(), edge_index=index)
    return (transform or AddContinuousStructure(walk_length=4))(graph)


def run(conv, graph):
    structure = {"edge_color": graph.edge_color, "node_color": graph.node_color}
    return conv(graph.x, graph.edge_index, **structure)


def layer(coefficients):
    torch.manual_seed(0)
    return ExpandingConv(3, 5, coefficients=coefficients).double()


def test_equals_the_plain_formula():
    graph = described(HEXAGON)
    graph.x = torch.randn(6, 3, dtype=torch.float64)
    coefficients = Stack(TanhCoefficients(3, 2), ContinuousStructureCoefficients(4, 4))
    conv = layer(coefficients)
    by_features, by_structure = coefficients.parts
    rows = torch.cat([graph.edge_color, graph.node_color])
    ends = torch.cat([graph.edge_index, torch.arange(6).repeat(2, 1)], dim=1)
    expected = torch.zeros(6, 5, dtype=torch.float64)
    for u, v, row in zip(*ends, rows, strict=True):
        features = by_features.lin(torch.cat([graph.x[v], graph.x[u]]))
        hidden = (by_structure.lin1.weight @ row + by_structure.lin1.bias).clamp(min=0)
        m = torch.cat([features, by_structure.lin2(hidden)]).tanh()
        expected[v] += conv.mlp(torch.outer(m, graph.x[u]).flatten())
    torch.testing.assert_close(run(conv, graph), expected, rtol=0, atol=1e-12)


def test_networks_tell_apart_what_features_cannot():
    torch.manual_seed(0)
    args = {"walk_length": 4}
    net = GraphNet(3, 8, 2, 2, conv="expc-continuous", conv_args=args).double()
    assert net.convs[1].coefficients.num_aggregators == 8
    assert (net(described(HEXAGON)) - net(described(TRIANGLES))).norm() > 1e-3


def test_gradients_reach_both_maps():
    coefficients = ContinuousStructureCoefficients(2, walk_length=4)
    run(layer(coefficients), described(TRIANGLES)).sum().backward()
    for weight in (coefficients.lin1.weight, coefficients.lin2.weight):
        assert weight.grad.norm() > 0


def test_what_it_cannot_read_is_refused():
    conv = layer(ContinuousStructureCoefficients(2, walk_length=4))
    graph = described(HEXAGON)
    with pytest.raises(DataError):
        conv(graph.x, graph.edge_index)
    with pytest.raises(DataError, match=r" 9 .*\[11\]"):
        run(conv, described(HEXAGON, AddContinuousStructure(walk_length=6)))
    with pytest.raises(DataError, match=" 9 "):
        run(conv, described(HEXAGON, AddStructuralColors()))
    with pytest.raises(DataError, match="AddStructuralColors"):
        run(layer(StructuralCoefficients(2)), graph)


def test_repr():
    text = "ContinuousStructureCoefficients(4, walk_length=8)"
    assert repr(ContinuousStructureCoefficients(4)) == text
