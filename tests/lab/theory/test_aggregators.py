import statistics
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.nn import GCNConv
from torch_geometric.nn.aggr import (
    MaxAggregation,
    MeanAggregation,
    MinAggregation,
    StdAggregation,
    SumAggregation,
)

from fullrank.lab import (
    MAX,
    MEAN,
    MIN,
    NMEAN,
    STD,
    SUM,
    After,
    Before,
    LinearBefore,
    MatrixAggregator,
    Multiset,
    aggregator,
    moment,
    powers,
)

numbers = st.integers(-50, 50).map(lambda k: k / 8)
matrices = st.tuples(st.integers(1, 6), st.integers(1, 3)).flatmap(
    lambda shape: st.lists(
        st.lists(numbers, min_size=shape[1], max_size=shape[1]),
        min_size=shape[0],
        max_size=shape[0],
    )
)


@given(matrices)
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (SUM, SumAggregation()),
        (MEAN, MeanAggregation()),
        (MAX, MaxAggregation()),
        (MIN, MinAggregation()),
    ],
    ids=repr,
)
def test_agrees_with_pyg(ours, theirs, rows):
    joined = aggregator(theirs)
    assert ours(Multiset(rows)) == pytest.approx(joined(Multiset(rows)), abs=1e-12)


@given(st.lists(numbers, min_size=1, max_size=8))
def test_std_and_moments_agree_with_their_definitions(values):
    x = Multiset(values)
    assert STD(x) == pytest.approx([statistics.pstdev(values)], abs=1e-9)
    mean = statistics.fmean(values)
    third = statistics.fmean([(value - mean) ** 3 for value in values])
    assert moment(3)(x) ** 3 == pytest.approx([third], abs=1e-9)
    assert moment(1)(x) == pytest.approx([mean])
    assert powers(3)(x) == pytest.approx(
        [sum(value**k for value in values) for k in (1, 2, 3)]
    )


def test_our_std_sees_what_pygs_clamps_to_zero():
    x = Multiset([0.0, 1e-4])
    assert aggregator(StdAggregation())(x) == [0.0]
    assert STD(x) == pytest.approx([5e-5])


def test_nmean_is_the_coefficient_row_of_gcn():
    torch.manual_seed(0)
    # A star 0-(1, 2, 3), and 3-4: |N| with itself is 4, 2, 2, 3, 2.
    edges = torch.tensor([[0, 1, 0, 2, 0, 3, 3, 4], [1, 0, 2, 0, 3, 0, 4, 3]])
    x = torch.randn(5, 3, dtype=torch.float64)
    conv = GCNConv(3, 3, bias=False).double()
    torch.nn.init.eye_(conv.lin.weight)
    nmean = NMEAN(Multiset(x[:4].tolist(), degrees=(4, 2, 2, 3)))
    assert nmean == pytest.approx(conv(x, edges)[0].tolist(), abs=1e-12)


def test_nmean_stays_rational_where_the_roots_are():
    assert NMEAN.encode(Multiset([1, 1], degrees=(2, 8))) == (Fraction(3, 4),)


@given(matrices, st.randoms())
def test_the_order_of_rows_does_not_matter(rows, random):
    shuffled = random.sample(rows, len(rows))
    assert Multiset(rows) == Multiset(shuffled)
    for f in (SUM, MEAN, MAX, MIN, STD, moment(3), powers(2), SUM @ MAX):
        assert f.encode(Multiset(rows)) == f.encode(Multiset(shuffled))


@given(matrices)
def test_a_coefficient_matrix_multiplies_the_sequence(rows):
    matrix = np.arange(2 * len(rows)).reshape(2, -1) - 1.5
    f = MatrixAggregator(matrix)
    assert f(Multiset(rows)) == pytest.approx((matrix @ np.array(rows)).ravel())


def test_products_and_compositions():
    x = Multiset([[1, 2], [3, -4]])
    assert (SUM @ MAX)(x).tolist() == [4, -2, 3, 2]
    assert (SUM @ MAX).name == "SUM ⊗ MAX"
    assert After(torch.exp, SUM)(x) == pytest.approx(np.exp([4, -2]))
    assert Before(SUM, torch.relu)(x).tolist() == [4, 2]
    assert LinearBefore(MAX, [[1, 1]])(x).tolist() == [3]
    assert aggregator(lambda rows: rows.prod(dim=0))(x).tolist() == [3, -8]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Multiset([]), r"\[\]"),
        (lambda: Multiset([1, 2], degrees=(3, 2)), r"\(3, 2\)"),
        (lambda: Multiset([1, 2], degrees=(2, 1)), r"\(2, 1\)"),
        (lambda: NMEAN(Multiset([1, 2])), "degrees"),
        (lambda: MatrixAggregator([[1, 2]])(Multiset([1])), "2 .* 1"),
        (lambda: moment(0), " 0"),
        (lambda: powers(0), " 0"),
    ],
)
def test_invalid_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
