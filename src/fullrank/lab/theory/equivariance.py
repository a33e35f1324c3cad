r"""Does an aggregator commute with linear maps of its elements?"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from fullrank.lab.theory.aggregators import Aggregator, LinearBefore, Multiset

TOLERANCE = 1e-6


@dataclass(frozen=True)
class Equivariance:
    r"""Whether :math:`f(T x_1, \dots, T x_n) = T f(x_1, \dots, x_n)` for all T.

    Attributes:
        holds: Proved, refuted, or neither (``None``).
        reason: In words.
        matrix: T of the counterexample.
        multiset: Its multiset.
    """

    holds: bool | None
    reason: str
    matrix: np.ndarray | None = None
    multiset: Multiset | None = None

    def __bool__(self) -> bool:
        return self.holds is True


def is_equivariant(f: Aggregator, dim: int = 2) -> Equivariance:
    """Prove equivariance from the formula, or search for a counterexample.

    Args:
        f: An aggregator from rows of width d to one row of width d.
        dim: d, the width of the rows in the search.
    """
    if f.linear:
        reason = f"{f} is a weighted sum whose weights do not depend on the rows"
        return Equivariance(True, reason)
    looked_at = 0
    for multiset, matrix in product(_multisets(dim), _matrices(dim)):
        looked_at += 1
        mapped, before = LinearBefore(f, matrix)(multiset), f(multiset)
        if before.shape != (dim,):
            raise ValueError(
                f"equivariance is defined for aggregators from rows of width {dim} to "
                f"rows of width {dim}; {f} returns {before.size} numbers"
            )
        if np.abs(mapped - matrix @ before).max() > TOLERANCE:
            reason = (
                f"{f} of T x is {mapped}, but T times {f} of x is {matrix @ before}"
            )
            return Equivariance(False, reason, matrix, multiset)
    return Equivariance(None, f"no counterexample among {looked_at} and no proof")


def _matrices(dim: int) -> list[np.ndarray]:
    swap = np.roll(np.eye(dim), 1, axis=0)
    return [-np.eye(dim), np.ones((dim, dim)), np.tri(dim) - 2 * swap]


def _multisets(dim: int) -> list[Multiset]:
    random = np.random.default_rng(0)
    return [
        Multiset(random.integers(-3, 4, size=(size, dim)), (size,) * size)
        for size in (2, 3, 4)
        for _ in range(10)
    ]
