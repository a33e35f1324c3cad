from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

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
    Proof,
    Unknown,
    Witness,
    aggregator,
    as_aggregator,
    as_strong,
    compare,
    moment,
    powers,
)
from fullrank.nn import ExpandingConv

MOMENTS = [moment(k) for k in (1, 2, 3)]
POWERS = [powers(k) for k in (1, 2, 3)]
BASIC = [SUM, MEAN, NMEAN, MAX, MIN, STD, *MOMENTS, *POWERS]


def by_definition(name, rows, degrees):
    """What the aggregators say, from their definitions, with no code of the lab.

    Roots are left out: they change no equality.
    """
    n, mean = len(rows), sum(rows) / Fraction(len(rows))
    central = [sum((x - mean) ** k for x in rows) / Fraction(n) for k in (2, 3)]
    if name == "nMEAN":
        roots = [float(n * degree) ** 0.5 for degree in degrees]
        assert all(root == int(root) for root in roots)
        return [sum(x / int(r) for x, r in zip(rows, roots, strict=True))]
    said = {
        "SUM": [sum(rows)],
        "MEAN": [mean],
        "MAX": [max(rows)],
        "MIN": [min(rows)],
        "STD": central[:1],
        "moment 1": [mean],
        "moment 2": central[:1],
        "moment 3": central[1:],
    }
    for k in (1, 2, 3):
        said[f"powers {k}"] = [sum(x**j for x in rows) for j in range(1, k + 1)]
    return said[name]


def says(aggregator_name, multiset):
    rows = [row[0] for row in multiset.rows]
    parts = aggregator_name.split(" ⊗ ")
    return [z for part in parts for z in by_definition(part, rows, multiset.degrees)]


def check(witness):
    assert witness.exact
    both = witness.first, witness.second
    confused = [says(witness.confusing.name, x) for x in both]
    told = [says(witness.telling.name, x) for x in both]
    assert confused[0] == confused[1]
    assert told[0] != told[1]


def test_every_basic_aggregator_and_product_is_decided_with_exact_evidence():
    everything = BASIC + [f @ g for f, g in combinations(BASIC, 2)]
    for f, g in permutations(everything, 2):
        evidence = as_strong(f, g)
        assert isinstance(evidence, Proof | Witness), (f, g)
        # A product is refuted by the witness of one of its parts.
        if isinstance(evidence, Witness) and g in BASIC:
            check(evidence)


@pytest.mark.parametrize(
    ("f", "g", "verdict"),
    [
        (SUM, MEAN, "incomparable"),
        (SUM, MAX, "incomparable"),
        (SUM, MIN, "incomparable"),
        (MEAN, MAX, "incomparable"),
        (MEAN, MIN, "incomparable"),
        (MAX, MIN, "incomparable"),
        (SUM, NMEAN, "incomparable"),
        (powers(2), SUM, "stronger"),
        (powers(2), powers(3), "weaker"),
        (powers(1), SUM, "equal"),
        (moment(2), STD, "equal"),
        (moment(1), MEAN, "equal"),
        (SUM @ MEAN, MEAN @ SUM, "equal"),
        (SUM @ MEAN, SUM, "stronger"),
        # With sum and mean both 0 the size stays unknown, and so does the spread.
        (powers(2) @ MEAN, STD, "incomparable"),
    ],
    ids=str,
)
def test_known_places_in_the_order(f, g, verdict):
    assert compare(f, g).verdict == verdict


small = st.integers(-3, 3)


@st.composite
def matrix_pairs(draw):
    """Two matrices with n columns, the second often inside the first's row space."""
    n = draw(st.integers(2, 5))
    first = draw(arrays(int, (draw(st.integers(1, n)), n), elements=small))
    if draw(st.booleans()):
        mix = draw(arrays(int, (draw(st.integers(1, 3)), len(first)), elements=small))
        return first, mix @ first
    return first, draw(arrays(int, (draw(st.integers(1, 3)), n), elements=small))


@given(matrix_pairs())
def test_matrix_aggregators_are_ordered_by_their_row_spaces(pair):
    first, second = pair
    evidence = as_strong(MatrixAggregator(first), MatrixAggregator(second))
    included = np.linalg.matrix_rank(np.vstack(pair)) == np.linalg.matrix_rank(first)
    assert isinstance(evidence, Proof) == included
    if isinstance(evidence, Witness):
        x, y = (multiset.numpy() for multiset in (evidence.first, evidence.second))
        assert np.allclose(first @ x, first @ y, atol=1e-9)
        assert not np.allclose(second @ x, second @ y, atol=1e-9)
        assert sorted(x.ravel()) != sorted(y.ravel())


def test_one_and_one_over_n_are_the_same_row_at_a_fixed_size():
    both = MatrixAggregator([[1, 1, 1], [Fraction(1, 3)] * 3])
    assert compare(both, SUM).verdict == "equal"
    assert compare(SUM @ MEAN, SUM).verdict == "stronger"


def test_matrices_of_different_sizes_are_refused():
    with pytest.raises(ValueError, match="2 .*3"):
        compare(MatrixAggregator([[1, 2]]), MatrixAggregator([[1, 2, 3]]))


@given(st.sampled_from(BASIC), st.sampled_from(BASIC))
def test_lemma_1_products_are_at_least_as_strong_as_their_parts(f, g):
    assert isinstance(as_strong(f @ g, f), Proof)
    assert isinstance(as_strong(f @ g, g), Proof)
    if compare(f, g).verdict == "incomparable":
        assert compare(f @ g, f).verdict == "stronger"


@given(st.sampled_from(BASIC))
def test_lemma_1_nothing_is_gained_after_aggregation(f):
    assert isinstance(as_strong(f, After(torch.relu, f)), Proof)
    injective = After(torch.exp, f, injective=True)
    assert compare(f, injective).verdict == "equal"


@given(arrays(int, st.tuples(st.integers(1, 3), st.just(2)), elements=small))
def test_lemma_1_a_linear_map_before_an_equivariant_aggregator_gains_nothing(matrix):
    for f in (SUM, MEAN):
        comparison = compare(LinearBefore(f, matrix), f, dim=2)
        injective = np.linalg.matrix_rank(matrix) == 2
        assert isinstance(comparison.at_most, Proof)
        assert isinstance(comparison.at_least, Proof) == injective


def test_a_nonlinear_map_before_the_sum_does_gain():
    resum = Before(SUM, torch.relu, name="Re-SUM")
    comparison = compare(resum, SUM)
    assert comparison.verdict == "incomparable"
    first, second = comparison.at_most.first, comparison.at_most.second
    assert first.rows.sum() == second.rows.sum()
    assert np.maximum(first.numpy(), 0).sum() != np.maximum(second.numpy(), 0).sum()


def test_rounding_before_the_sum_is_not_taken_for_a_difference():
    tenth = Before(SUM, lambda rows: rows * 0.1, name="a tenth")
    assert Fraction(1 * 0.1) + Fraction(2 * 0.1) != Fraction(3 * 0.1)
    assert isinstance(as_strong(SUM, tenth), Unknown)


def test_undecided_says_how_hard_it_looked():
    hidden_sum = aggregator(lambda rows: rows.sum(dim=0), name="a sum")
    comparison = compare(hidden_sum, SUM)
    assert comparison.verdict == "undecided"
    assert isinstance(comparison.at_least, Unknown)
    assert comparison.at_least.looked_at > 500
    assert "no witness among" in str(comparison)


def test_a_witness_within_tolerance_says_so():
    root = aggregator(lambda rows: rows.sum(dim=0).abs().sqrt(), name="root of a sum")
    evidence = as_strong(root, MAX)
    assert isinstance(evidence, Witness)
    assert not evidence.exact
    assert "to 1e-09 the same" in str(evidence)
    confused, told = evidence.outputs["root of a sum"], evidence.outputs["MAX"]
    assert confused[0] == pytest.approx(confused[1], rel=1e-9)
    assert told[0] != told[1]


def test_a_function_that_changed_is_asked_again():
    scale = torch.nn.Linear(1, 1, bias=False).double()
    torch.nn.init.zeros_(scale.weight)
    assert isinstance(as_strong(After(scale, SUM), SUM), Witness)
    torch.nn.init.ones_(scale.weight)
    assert isinstance(as_strong(After(scale, SUM), SUM), Unknown)


def test_a_function_of_the_rows_keeps_the_size_of_a_matrix():
    weighted = Before(MatrixAggregator([[1, 2, 3]]), torch.relu)
    comparison = compare(weighted, SUM)
    assert comparison.verdict == "incomparable"
    assert len(comparison.at_least.first) == 3


@pytest.mark.parametrize(
    "wrap",
    [
        lambda f: After(torch.exp, f),
        lambda f: Before(f, torch.exp),
        lambda f: LinearBefore(f, [[2]]),
    ],
)
def test_a_witness_against_the_sum_keeps_the_centre(wrap):
    """{{-2, -1}} and {{-1, -2}} are one multiset, and no witness."""
    torch.manual_seed(0)
    evidence = as_strong(SUM, wrap(as_aggregator(ExpandingConv(1, 3))))
    assert isinstance(evidence, Witness)
    assert evidence.first.rows[0] == evidence.second.rows[0]
