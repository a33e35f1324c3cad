from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fullrank.errors import ModelError
from fullrank.lab import (
    GROWTH_WITHOUT_GAIN,
    certificate,
    effective_rank,
    injectivity,
    numerical_rank,
    overlap_dimension,
    stacked_overlap,
    stacking_gain,
)


def matrix_of_rank(rank, rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    left = torch.randn(rows, rank, generator=generator, dtype=torch.float64)
    right = torch.randn(rank, columns, generator=generator, dtype=torch.float64)
    return left @ right


def differ_as_multisets(x, y):
    return all(
        not torch.allclose(x[list(order)], y, atol=1e-6)
        for order in permutations(range(len(x)))
    )


seeds = st.integers(0, 10_000)
small = st.integers(1, 4)


@given(st.integers(0, 5), st.integers(5, 7), seeds)
def test_rank_is_the_one_the_matrix_was_made_with(rank, rows, seed):
    matrix = matrix_of_rank(rank, rows, 6, seed)
    assert int(numerical_rank(matrix)) == rank == np.linalg.matrix_rank(matrix)


def test_rank_obeys_its_tolerance_and_works_on_batches():
    nearly = torch.diag(torch.tensor([1.0, 1e-4]))
    assert numerical_rank(torch.stack([nearly, nearly.flip(0)])).tolist() == [2, 2]
    assert int(numerical_rank(nearly, rtol=1e-3)) == 1


@pytest.mark.parametrize("entry", [float("nan"), float("inf")])
def test_a_matrix_that_is_not_finite_has_no_rank(entry):
    with pytest.raises(ModelError):
        numerical_rank(torch.tensor([[1.0, entry]]))


@given(st.integers(1, 5), seeds)
def test_effective_rank_lies_between_one_and_the_rank(rank, seed):
    value = float(effective_rank(matrix_of_rank(rank, 6, 5, seed)))
    assert 1 - 1e-9 <= value <= rank + 1e-9


def test_effective_rank_of_known_matrices():
    assert float(effective_rank(torch.eye(4))) == pytest.approx(4)
    assert float(effective_rank(torch.ones(3, 5))) == pytest.approx(1)
    assert float(effective_rank(torch.zeros(3, 5))) == 0
    shares = np.array([3, 1]) / 4
    entropy = -(shares * np.log(shares)).sum()
    found = float(effective_rank(torch.diag(torch.tensor([3.0, 1.0]))))
    assert found == pytest.approx(np.exp(entropy))


@given(st.integers(2, 5), st.integers(1, 4), st.booleans(), seeds)
def test_proposition_1_stacking_helps_exactly_when_the_rank_grows(n, s, inside, seed):
    matrix = matrix_of_rank(min(s, n), s, n, seed)
    generator = torch.Generator().manual_seed(seed + 1)
    added = torch.randn(2, n, generator=generator, dtype=torch.float64)
    if inside:
        mix = torch.randn(2, s, generator=generator, dtype=torch.float64)
        added = mix @ matrix
    gain = stacking_gain(matrix, added)
    grows = np.linalg.matrix_rank(torch.cat([matrix, added])) > min(s, n)
    assert gain.strictly_stronger == grows == (not inside and s < n)
    if grows:
        x, y = gain.example
        assert differ_as_multisets(x, y)
        assert torch.allclose(matrix @ x, matrix @ y, atol=1e-9)
        assert (added @ x - added @ y).norm() > 1e-3
    else:
        assert gain.example is None


@given(st.integers(2, 5), st.integers(0, 3), seeds)
def test_proposition_1_all_is_told_apart_exactly_at_rank_n(n, missing, seed):
    rank = max(n - missing, 1)  # rank n - 1 and n are the boundary
    matrix = matrix_of_rank(rank, n + 1, n, seed)
    answer = injectivity(matrix)
    assert answer.holds == (rank == n)
    if answer.holds:
        assert answer.example is None
        assert np.linalg.cond(matrix) < np.inf
    else:
        x, y = answer.example
        assert differ_as_multisets(x, y)
        assert torch.allclose(matrix @ x, matrix @ y, atol=1e-9)


@given(
    st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), seeds
)
def test_proposition_2_overlap_has_the_dimension_of_the_shared_solutions(
    s, n1, n2, dim, seed
):
    first = matrix_of_rank(min(s, n1), s, n1, seed)
    second = matrix_of_rank(min(s, n2, 2), s, n2, seed + 1)
    # Independently: the images are columns spaces; intersect them by projections.
    q1, q2 = (
        np.linalg.qr(u)[0][:, :r]
        for u, r in [(first.numpy(), min(s, n1)), (second.numpy(), min(s, n2, 2))]
    )
    cosines = np.linalg.svd(q1.T @ q2, compute_uv=False)
    shared = int((cosines > 1 - 1e-9).sum())
    assert overlap_dimension(first, second, dim) == dim * shared


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.booleans(), seeds)
def test_proposition_2_the_overlap_shrinks_only_if_the_rank_grows(
    s, n1, n2, inside, seed
):
    generator = torch.Generator().manual_seed(seed)
    both = torch.randn(s, n1 + n2, generator=generator, dtype=torch.float64)
    added = torch.randn(2, n1 + n2, generator=generator, dtype=torch.float64)
    if inside:
        mix = torch.randn(2, s, generator=generator, dtype=torch.float64)
        added = mix @ both
    parts = both[:, :n1], both[:, n1:], added[:, :n1], added[:, n1:]
    overlap = stacked_overlap(*parts)
    assert overlap.after <= overlap.before
    if overlap.shrinks:
        assert overlap.rank_after > overlap.rank_before
    if inside:
        assert overlap.after == overlap.before


def test_proposition_2_a_higher_rank_is_not_enough():
    overlap = stacked_overlap(*GROWTH_WITHOUT_GAIN)
    assert (overlap.rank_before, overlap.rank_after) == (1, 2)
    assert (overlap.before, overlap.after) == (1, 1)
    assert not overlap.shrinks


def test_proposition_2_the_overlap_does_shrink_where_it_can():
    first, second = torch.tensor([[1.0]]), torch.tensor([[1.0]])
    overlap = stacked_overlap(
        first, second, torch.tensor([[1.0]]), torch.tensor([[2.0]])
    )
    assert (overlap.before, overlap.after) == (1, 0)


@given(
    st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(1, 3), seeds
)
def test_proposition_3_the_gap_is_at_least_what_the_certificate_says(
    n1, n2, extra, dim, seed
):
    generator = torch.Generator().manual_seed(seed)
    rows = n1 + n2 + extra
    first, second, x1, x2 = (
        torch.randn(*shape, generator=generator, dtype=torch.float64)
        for shape in [(rows, n1), (rows, n2), (n1, dim), (n2, dim)]
    )
    proof = certificate(first, second)
    assert proof.holds
    gap = float((first @ x1 - second @ x2).norm())
    assert gap >= proof.guaranteed_gap(x1, x2) - 1e-9
    assert proof.guaranteed_gap(x1, x2) > 0
    # Zero is in both images: there the certificate promises nothing.
    assert proof.guaranteed_gap(0 * x1, 0 * x2) == 0


@given(st.integers(1, 3), st.integers(1, 3), seeds)
def test_proposition_3_one_rank_short_gives_a_shared_output(n1, n2, seed):
    both = matrix_of_rank(n1 + n2 - 1, n1 + n2, n1 + n2, seed)
    proof = certificate(both[:, :n1], both[:, n1:])
    assert not proof.holds
    assert proof.smallest_singular_value == 0
    z = np.linalg.svd(both)[2][-1]
    assert np.allclose(both[:, :n1] @ z[:n1], -both[:, n1:] @ z[n1:], atol=1e-9)
