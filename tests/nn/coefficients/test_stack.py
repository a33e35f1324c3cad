import pytest
import torch

from fullrank.nn import (
    ExpandingConv,
    MeanCoefficients,
    OneCoefficients,
    Stack,
    TanhCoefficients,
)
from fullrank.testing import assert_permutation_equivariant, random_graph


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


def test_parts():
    with pytest.raises(ValueError, match="none"):
        Stack()
    with pytest.raises(ValueError, match="Linear"):
        Stack(torch.nn.Linear(2, 2))
