"""What any coefficients can expect, a user's own included."""

import pytest
import torch

from fullrank.nn import (
    AttentionCoefficients,
    Coefficients,
    CombConv,
    ExpandingConv,
    GATCoefficients,
    OneCoefficients,
    Stack,
    SymmetricNormCoefficients,
    TanhCoefficients,
)
from fullrank.testing import assert_permutation_equivariant, random_graph


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


@pytest.mark.parametrize(
    "f", [SymmetricNormCoefficients(), GATCoefficients(5, 4)], ids=repr
)
def test_bipartite_input_is_refused_where_it_has_no_meaning(f):
    conv = ExpandingConv((5, 5), 4, coefficients=f)
    with pytest.raises(ValueError, match="bipartite"):
        conv((torch.randn(3, 5), torch.randn(2, 5)), torch.tensor([[0], [1]]))


def test_a_wrong_shape_is_named():
    class Flat(OneCoefficients):
        def forward(self, local):
            return super().forward(local).flatten()

    with pytest.raises(ValueError, match=r"\[26\]"):
        ExpandingConv(5, 4, coefficients=Flat())(*random_graph(5))
