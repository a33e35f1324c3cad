import numpy as np
import pytest

from fullrank.lab import (
    MAX,
    MEAN,
    MIN,
    NMEAN,
    STD,
    SUM,
    aggregator,
    is_equivariant,
    moment,
)


@pytest.mark.parametrize("f", [SUM, MEAN, NMEAN], ids=repr)
def test_weighted_sums_are_equivariant(f):
    assert is_equivariant(f)


@pytest.mark.parametrize(
    ("f", "plain"),
    [
        (MAX, lambda x: x.max(axis=0)),
        (MIN, lambda x: x.min(axis=0)),
        (STD, lambda x: x.std(axis=0)),
        (moment(3), lambda x: np.cbrt(((x - x.mean(axis=0)) ** 3).mean(axis=0))),
    ],
    ids=["MAX", "MIN", "STD", "moment 3"],
)
def test_others_are_not_and_the_counterexample_can_be_checked(f, plain):
    answer = is_equivariant(f)
    assert not answer
    assert answer.holds is False
    x, matrix = answer.multiset.numpy(), answer.matrix
    assert not np.allclose(plain(x @ matrix.T), matrix @ plain(x), atol=1e-6)


def test_without_a_formula_equivariance_is_never_claimed():
    answer = is_equivariant(aggregator(lambda rows: rows.sum(dim=0)))
    assert answer.holds is None
    assert "no counterexample among 90" in answer.reason


def test_products_have_another_width():
    with pytest.raises(ValueError, match=" 4 "):
        is_equivariant(SUM @ MEAN)
