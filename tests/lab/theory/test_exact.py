from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fullrank.lab.theory.exact import null_space, rank

shapes = st.tuples(st.integers(1, 4), st.integers(1, 5))


@given(arrays(int, shapes, elements=st.integers(-3, 3)), st.integers(1, 7))
def test_rank_and_null_space_over_the_rationals(integers, denominator):
    matrix = np.vectorize(Fraction, otypes=[object])(integers, denominator)
    assert rank(matrix) == np.linalg.matrix_rank(integers)
    basis = null_space(matrix)
    assert len(basis) == matrix.shape[1] - rank(matrix)
    for z in basis:
        assert not any(matrix.dot(z))
    if len(basis):
        assert np.linalg.matrix_rank(basis.astype(float)) == len(basis)


def test_what_floats_would_call_dependent_is_told_apart():
    matrix = np.array(
        [[Fraction(1), Fraction(1)], [Fraction(1), 1 + Fraction(1, 10**40)]]
    )
    assert rank(matrix) == 2
