"""The definition against the paper's equations, written out entry by entry."""

import pytest
import torch

from fullrank.nn import CombConv, ExpandingConv, backend, functional
from nn.both_layers import assert_exact, both
from nn.strategies import features

E, S, D = 6, 3, 5


def test_expand_is_laid_out_aggregator_by_aggregator():
    m, h = features(E, S, 0), features(E, D, 1)
    expanded = functional.expand(m, h)
    assert expanded.shape == (E, S * D)
    for e in range(E):
        for k in range(S):
            for i in range(D):
                assert expanded[e, k * D + i] == m[e, k] * h[e, i]


def test_combine_gives_each_dimension_its_own_coefficient():
    m, h = features(E, D, 0), features(E, D, 1)
    assert torch.equal(functional.combine(m, h), torch.einsum("ei,ei->ei", m, h))


@pytest.mark.parametrize("re_sum", [True, False])
def test_extract_runs_the_mlp_before_or_after_the_sum(re_sum):
    z, dst = features(E, D, 0), torch.tensor([0, 2, 2, 0, 2, 2])
    found = functional.extract(
        z, torch.relu, lambda x: functional.sum_rows(x, dst, 3), re_sum
    )
    for v in range(3):
        rows = z[dst == v]
        truth = rows.relu().sum(0) if re_sum else rows.sum(0).relu()
        torch.testing.assert_close(found[v], truth)


def test_take_rows_and_sum_rows():
    x, index = features(E, D, 0), torch.tensor([3, 3, 0])
    assert torch.equal(functional.take_rows(x, index), x[index])
    summed = functional.sum_rows(x[:3], index, 4)
    expected = torch.stack([x[2], 0 * x[0], 0 * x[0], x[0] + x[1]])
    torch.testing.assert_close(summed, expected)


@both
@pytest.mark.parametrize("re_sum", [True, False])
def test_the_plain_backend_calls_every_module_once(cls, re_sum):
    conv = cls(5, 4, re_sum=re_sum).double()
    seen = []
    parts = ("coefficients", "coefficients.lin", "mlp", "mlp.0", "mlp.3", "aggr_module")
    edges = torch.tensor([[0, 1, 2], [1, 2, 2]])
    with backend("plain"):
        output = conv(features(4, 5, 0), edges)
    for name in parts:
        conv.get_submodule(name).register_forward_hook(
            lambda module, inputs, out, name=name: seen.append(name)
        )
    with backend("plain"):
        assert torch.equal(conv(features(4, 5, 0), edges), output)
    assert sorted(seen) == sorted(parts)


def test_the_plain_backend_builds_the_expanded_tensor():
    widths = []
    conv = ExpandingConv(5, 4, 3).double()
    conv.mlp[0].register_forward_pre_hook(
        lambda module, inputs: widths.append(inputs[0].shape)
    )
    with backend("plain"):
        conv(features(4, 5, 0), torch.tensor([[0, 1], [1, 2]]))
    assert widths == [(2 + 4, 3 * 5)]


@pytest.mark.parametrize("conv", [ExpandingConv(5, 4, 3), CombConv(5, 4)], ids=repr)
def test_the_plain_backend_is_the_paper(conv):
    with backend("plain"):
        assert_exact(
            conv.double(), features(4, 5, 0), torch.tensor([[0, 1, 1], [1, 2, 1]])
        )
