import pytest
import torch
from torch_geometric.nn.dense.linear import Linear

from fullrank.nn.lazy_linear import LazyLinear, materialize


@pytest.mark.parametrize("bias", [True, False])
def test_loads_both_widths(bias):
    made, lazy = Linear(5, 3, bias), LazyLinear(bias)
    lazy.load_state_dict(made.state_dict())
    x = torch.randn(4, 5)
    assert (lazy.in_channels, lazy.out_channels) == (5, 3)
    assert torch.equal(lazy(x), made(x))


def test_a_fresh_one_loads_a_fresh_one():
    lazy = LazyLinear()
    lazy.load_state_dict(LazyLinear().state_dict())
    materialize(lazy, 5, 3)
    assert lazy(torch.randn(4, 5)).shape == (4, 3)


def test_parameters_stay_the_same_objects():
    """So that an optimiser may be made before the widths are known."""
    lazy = LazyLinear().double()
    before = list(lazy.parameters())
    materialize(lazy, 5, 3)
    assert all(a is b for a, b in zip(before, lazy.parameters(), strict=True))
    assert lazy.bias.dtype == lazy.weight.dtype == torch.double


def test_widths_are_given_once():
    lazy = LazyLinear()
    materialize(lazy, 5, 3)
    weight = lazy.weight.clone()
    materialize(lazy, 7, 2)
    assert torch.equal(lazy.weight, weight)
