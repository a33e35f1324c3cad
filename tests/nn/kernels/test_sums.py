"""The sums by ordinary operations are their formulas."""

import pytest
import torch

from fullrank.nn.kernels import sums
from fullrank.testing import relative_difference
from nn.kernels.sums import SUMS, largest_tensor_of_a_layer


@pytest.mark.parametrize("name", SUMS)
def test_sum(name):
    args, truth = SUMS[name]()
    found = getattr(sums, name.split()[0])(*args)
    assert relative_difference(found, truth) <= 1e-12


def test_groups_of_coefficients_are_no_wider_than_the_output():
    weight = torch.empty(7, 3, 8)  # s, q, h
    groups = sums.coefficient_groups(weight)
    assert [k for group in groups for k in range(7)[group]] == list(range(7))
    assert all((group.stop - group.start) * 3 <= 8 for group in groups)


def test_the_measurement_sees_the_plain_formula():
    largest, edges_s_d = largest_tensor_of_a_layer("plain", None, True, "relu")
    assert largest >= edges_s_d
