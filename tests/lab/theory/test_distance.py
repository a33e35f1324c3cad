from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from fullrank.lab import multiset_distance
from fullrank.lab.theory.distance import nearest_reordering


@given(st.integers(1, 5), st.integers(0, 1000))
def test_is_the_smallest_distance_over_all_orders(n, seed):
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(2, n, 3, generator=generator, dtype=torch.float64)
    smallest = min((x[list(order)] - y).norm() for order in permutations(range(n)))
    assert multiset_distance(x, y) == pytest.approx(float(smallest), abs=1e-9)


def test_a_reordering_is_at_distance_zero():
    x = torch.randn(6, 2, dtype=torch.float64)
    assert multiset_distance(x, x.flip(0)) == 0
    assert_close(nearest_reordering(x.flip(0), x), x)
