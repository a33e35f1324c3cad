"""Linear algebra over the rational numbers."""

from fractions import Fraction

import numpy as np
from sympy import QQ
from sympy.polys.matrices import DomainMatrix


def rank(matrix: np.ndarray) -> int:
    """Rank of a matrix of fractions."""
    return _domain_matrix(matrix).rank()


def null_space(matrix: np.ndarray) -> np.ndarray:
    """A basis of ``{z : M z = 0}`` as rows, in fractions."""
    basis = _domain_matrix(matrix).nullspace().to_Matrix()
    fractions = [Fraction(int(z.p), int(z.q)) for z in basis]
    return np.array(fractions, dtype=object).reshape(-1, matrix.shape[1])


def _domain_matrix(matrix: np.ndarray) -> DomainMatrix:
    rows = [[QQ(z.numerator, z.denominator) for z in row] for row in matrix]
    return DomainMatrix(rows, matrix.shape, QQ)
