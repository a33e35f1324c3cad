import networkx as nx
import pytest
import torch
from torch_geometric.utils import softmax

from fullrank.nn import (
    AttentionCoefficients,
    Coefficients,
    CombConv,
    ExpandingConv,
    GATCoefficients,
    MeanCoefficients,
    OneCoefficients,
    Stack,
    SymmetricNormCoefficients,
    TanhCoefficients,
)
from fullrank.testing import assert_permutation_equivariant, random_graph


@pytest.fixture
def local():
    x, edge_index = random_graph(5, num_nodes=7, num_edges=15)
    return ExpandingConv(5, 4).neighborhoods(x, edge_index)


def pairs(local):
    return torch.cat([local.x_dst[local.dst], local.x_src[local.src]], dim=1)


def test_tanh(local):
    f = TanhCoefficients(5, 3)
    truth = torch.tanh(pairs(local) @ f.lin.weight.t() + f.lin.bias)
    assert torch.allclose(f(local), truth, atol=1e-6)


def test_attention(local):
    f = AttentionCoefficients(5, 3)
    logits = torch.nn.functional.leaky_relu(pairs(local) @ f.lin.weight.t(), 0.2)
    assert torch.allclose(f(local), softmax(logits, local.dst), atol=1e-6)


def test_degrees_and_sizes_by_networkx():
    graph = nx.karate_club_graph()
    edges = torch.tensor(list(graph.edges)).t()
    edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    local = ExpandingConv(2, 2).neighborhoods(torch.ones(34, 2), edge_index)
    size = {v: degree + 1 for v, degree in graph.degree}
    symmetric = SymmetricNormCoefficients()(local).flatten().tolist()
    mean = MeanCoefficients()(local).flatten().tolist()
    ends = zip(local.src.tolist(), local.dst.tolist(), strict=True)
    for (u, v), nmean, inverse in zip(ends, symmetric, mean, strict=True):
        assert nmean == pytest.approx((size[u] * size[v]) ** -0.5)
        assert inverse == pytest.approx(1 / size[v])


def test_a_source_without_a_neighbourhood_weighs_nothing():
    conv = ExpandingConv(
        2, 2, coefficients=SymmetricNormCoefficients(), add_self_loops=False
    )
    local = conv.neighborhoods(torch.ones(2, 2), torch.tensor([[0], [1]]))
    assert conv.coefficients(local).tolist() == [[0.0]]


def test_stack_puts_side_by_side(local):
    f = Stack(TanhCoefficients(5, 3), OneCoefficients(), MeanCoefficients())
    out = f(local)
    assert f.num_aggregators == 5
    assert torch.equal(out[:, :3], f.parts[0](local))
    assert torch.equal(out[:, 3], torch.ones(len(out)))
    assert torch.equal(out[:, 4], 1 / local.sizes()[local.dst])


def test_the_appendix_variant_is_one_line_of_a_layer():
    f = Stack(TanhCoefficients(5, 3), OneCoefficients(), MeanCoefficients())
    conv = ExpandingConv(5, 4, coefficients=f)
    assert conv.num_aggregators == 5
    assert conv.mlp[0].in_channels == 25
    assert_permutation_equivariant(conv, *random_graph(5))


class EdgeLengthCoefficients(Coefficients):
    """A user's own coefficients: a trained function of the features' distance."""

    def __init__(self, num_aggregators):
        super().__init__(num_aggregators)
        self.lin = torch.nn.Linear(1, num_aggregators)

    def forward(self, local):
        gap = local.x_dst[local.dst] - local.x_src[local.src]
        return self.lin(gap.norm(dim=1, keepdim=True)).cos()


@pytest.mark.parametrize("cls", [ExpandingConv, CombConv])
def test_a_users_own_coefficients(cls):
    f = EdgeLengthCoefficients(5)
    conv = cls(5, 4, coefficients=f)
    x, edge_index = random_graph(5)
    out = conv(x, edge_index)
    local = conv.neighborhoods(x, edge_index)
    if cls is ExpandingConv:
        vec = torch.einsum("ek,ei->eki", f(local), x[local.src]).flatten(1)
    else:
        vec = f(local) * x[local.src]
    truth = torch.zeros(8, 4).index_add(0, local.dst, conv.mlp(vec))
    assert torch.allclose(out, truth, atol=1e-5)
    assert_permutation_equivariant(conv, x, edge_index)


@pytest.mark.parametrize(
    "f",
    [
        TanhCoefficients(5, 3),
        AttentionCoefficients(5, 3),
        GATCoefficients(5, 4, 3),
        Stack(TanhCoefficients(5, 2), AttentionCoefficients(5, 2)),
    ],
    ids=repr,
)
def test_reset_parameters(f):
    before = [p.clone() for p in f.parameters()]
    f.reset_parameters()
    assert before
    for old, new in zip(before, f.parameters(), strict=True):
        assert not torch.equal(old, new)


def test_errors(local):
    with pytest.raises(ValueError, match="num_aggregators must be at least 1, got 0"):
        TanhCoefficients(5, 0)
    with pytest.raises(ValueError, match="in_channels must be positive or -1, got -2"):
        TanhCoefficients(-2, 1)
    with pytest.raises(ValueError, match="at least one coefficient module"):
        Stack()
    with pytest.raises(ValueError, match="takes Coefficients modules, got Linear"):
        Stack(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"total width 6.*5 \(destination\) \+ 5"):
        TanhCoefficients(3, 2)(local)


@pytest.mark.parametrize(
    "f", [SymmetricNormCoefficients(), GATCoefficients(5, 4)], ids=repr
)
def test_bipartite_input_is_refused_where_it_has_no_meaning(f):
    conv = ExpandingConv((5, 5), 4, coefficients=f)
    with pytest.raises(ValueError, match="bipartite input"):
        conv((torch.randn(3, 5), torch.randn(2, 5)), torch.tensor([[0], [1]]))


def test_a_wrong_shape_is_named():
    class Flat(OneCoefficients):
        def forward(self, local):
            return super().forward(local).flatten()

    with pytest.raises(ValueError, match=r"shape \[26, 1\], got \[26\]"):
        ExpandingConv(5, 4, coefficients=Flat())(*random_graph(5))
