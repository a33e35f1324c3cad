import pytest
import torch
from torch_geometric.data import Data

from fullrank.data.transforms import AddStructuralColors
from fullrank.nn import (
    CombConv,
    ExpandingConv,
    GraphNet,
    Stack,
    StructuralCoefficients,
    TanhCoefficients,
)
from fullrank.nn.coefficients.structural import expand_colors

# The first outputs of splitmix64 with seed 1234567, as published on Rosetta Code.
SPLITMIX64 = [
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
]


def ring(*lengths):
    """Disjoint rings, coloured; all look alike to 1-WL if the total is the same."""
    node = torch.arange(sum(lengths))
    ends = torch.tensor(lengths).cumsum(0)
    successor = node + 1
    successor[ends - 1] = ends - torch.tensor(lengths)
    edge_index = torch.stack([node, successor])
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    graph = Data(x=torch.ones(len(node), 3).double(), edge_index=edge_index)
    return AddStructuralColors(hops=1)(graph)


def run(conv, graph):
    colors = {"edge_color": graph.edge_color, "node_color": graph.node_color}
    return conv(graph.x, graph.edge_index, **colors)


def layer(coefficients):
    torch.manual_seed(0)
    return ExpandingConv(3, 5, coefficients=coefficients).double()


def test_expansion_is_splitmix64():
    numbers = expand_colors(torch.tensor([1234567]), 5)[0]
    unit = torch.tensor([n / 2**64 for n in SPLITMIX64], dtype=torch.float64)
    torch.testing.assert_close(numbers, (2 * unit - 1) * 3**0.5, rtol=0, atol=1e-15)


def test_expansion_is_centered_and_uncorrelated():
    numbers = expand_colors(torch.arange(-50_000, 50_000), 8)
    torch.testing.assert_close(
        numbers.mean(0), torch.zeros(8).double(), rtol=0, atol=0.02
    )
    torch.testing.assert_close(
        numbers.T.cov(), torch.eye(8).double(), rtol=0, atol=0.02
    )


def test_equals_the_plain_formula():
    graph = ring(3, 4)
    graph.x = torch.randn(7, 3, dtype=torch.float64)
    conv = layer(Stack(TanhCoefficients(3, 2), StructuralCoefficients(4, hops=1)))
    by_features, by_structure = conv.coefficients.parts
    src, dst = graph.edge_index
    own = torch.arange(7)
    color = torch.cat([graph.edge_color, graph.node_color])
    src, dst = torch.cat([src, own]), torch.cat([dst, own])
    expected = torch.zeros(7, 5, dtype=torch.float64)
    for u, v, c in zip(src, dst, color, strict=True):
        ends = torch.cat([graph.x[v], graph.x[u]])
        phi = expand_colors(c[None], by_structure.expansion)[0]
        m = torch.cat([by_features.lin(ends), by_structure.lin(phi)]).tanh()
        expected[v] += conv.mlp(torch.outer(m, graph.x[u]).flatten())
    torch.testing.assert_close(run(conv, graph), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [ExpandingConv, CombConv])
@pytest.mark.parametrize("re_sum", [True, False])
def test_tells_apart_what_features_cannot(kind, re_sum):
    def difference(coefficients):
        torch.manual_seed(0)
        conv = kind(3, 5, coefficients=coefficients, re_sum=re_sum).double()
        return (run(conv, ring(6)).sum(0) - run(conv, ring(3, 3)).sum(0)).norm()

    assert difference(TanhCoefficients(3, 3)) < 1e-12
    assert difference(StructuralCoefficients(3, hops=1)) > 1e-3


@pytest.mark.parametrize("conv", ["expc-structural", "combc-structural"])
def test_networks_read_the_colors_of_a_batch(conv):
    torch.manual_seed(0)
    net = GraphNet(3, 8, 2, num_layers=2, conv=conv, conv_args={"hops": 1}).double()
    assert net.convs[1].coefficients.num_aggregators == 8  # 4 + 4, and one a feature
    hexagon, triangles = net(ring(6)), net(ring(3, 3))
    assert (hexagon - triangles).norm() > 1e-3


def test_relabeling_changes_nothing():
    graph = ring(3, 4, 5)
    order = torch.randperm(12)
    moved = Data(x=graph.x, edge_index=order[graph.edge_index])
    moved = AddStructuralColors(hops=1)(moved)
    conv = layer(StructuralCoefficients(4, hops=1))
    torch.testing.assert_close(run(conv, moved)[order], run(conv, graph))


def test_constant_weights_give_the_sum():
    """Without its weight, the module gives every pair the same coefficients."""
    coefficients = StructuralCoefficients(1, hops=1)
    torch.nn.init.zeros_(coefficients.lin.weight)
    conv = ExpandingConv(
        3, 3, coefficients=coefficients, mlp=torch.nn.Identity(), re_sum=False
    )
    graph = ring(3, 4)
    out = run(conv.double(), graph)
    scale = coefficients.lin.bias.tanh()
    torch.testing.assert_close(out, 3 * scale * graph.x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_learns(dtype):
    graph = ring(3, 4)
    graph.x = graph.x.to(dtype)
    coefficients = StructuralCoefficients(4, hops=1)
    conv = ExpandingConv(3, 5, coefficients=coefficients).to(dtype)
    out = run(conv, graph)
    assert out.dtype == dtype
    out.sum().backward()
    assert coefficients.lin.weight.grad.abs().sum() > 0


def test_layers_do_not_share_weights_but_share_the_expansion():
    first, second = StructuralCoefficients(2), StructuralCoefficients(2)
    assert not torch.equal(first.lin.weight, second.lin.weight)
    second.load_state_dict(first.state_dict())
    graph = ring(5)
    torch.testing.assert_close(run(layer(first), graph), run(layer(second), graph))


def test_missing_colors_are_named():
    graph = ring(3)
    conv = layer(StructuralCoefficients(4, hops=1))
    with pytest.raises(ValueError, match=r"AddStructuralColors\(hops=1\)"):
        conv(graph.x, graph.edge_index)


def test_refuses_an_empty_expansion():
    with pytest.raises(ValueError, match="expansion.*0"):
        StructuralCoefficients(4, expansion=0)


def test_repr():
    assert repr(StructuralCoefficients(4)) == "StructuralCoefficients(4, hops=2)"
    whole = StructuralCoefficients(4, hops=None)
    assert repr(whole) == "StructuralCoefficients(4, hops=None)"
