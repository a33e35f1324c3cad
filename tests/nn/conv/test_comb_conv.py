import pytest
import torch

from fullrank.nn import CombConv, ExpandingConv, OneCoefficients, TanhCoefficients
from fullrank.testing import relative_difference
from nn.both_layers import graph
from nn.strategies import features


def test_comb_with_equal_rows_is_expanding_with_one_aggregator():
    """All dimensions sharing one aggregator is ExpC-1."""
    comb, one = CombConv(5, 4).double(), ExpandingConv(5, 4, 1).double()
    comb.mlp.load_state_dict(one.mlp.state_dict())
    comb.coefficients.lin.weight.data.copy_(one.coefficients.lin.weight.expand(5, -1))
    comb.coefficients.lin.bias.data.copy_(one.coefficients.lin.bias.expand(5))
    x, edge_index = features(7, 5, 0), torch.randint(7, (2, 25))
    assert relative_difference(comb(x, edge_index), one(x, edge_index)) <= 1e-12


@pytest.mark.parametrize("re_sum", [True, False])
def test_coefficients_with_a_forward_of_their_own(re_sum):
    class Doubled(TanhCoefficients):
        def forward(self, local):
            return 2 * super().forward(local)

    conv = CombConv(5, 4, re_sum=re_sum, coefficients=Doubled(5, 5))
    same = CombConv(5, 4, re_sum=re_sum)
    same.load_state_dict(conv.state_dict())
    same.mlp[0].weight.data *= 2
    inputs = graph()
    assert relative_difference(conv(*inputs), same(*inputs)) <= 1e-5


def test_number_of_aggregators():
    with pytest.raises(ValueError, match="5.*3"):
        CombConv(5, 4, coefficients=OneCoefficients(3))
