r"""The partial order of distinguishing strength, with proofs or witnesses.

:math:`f \succeq g` holds if f distinguishes everything that g distinguishes. It is
proved by showing that g is a function of f, and refuted by a witness: two multisets
that g distinguishes and f does not.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import chain, combinations_with_replacement, repeat, zip_longest
from numbers import Rational

import numpy as np

from fullrank.lab.theory.aggregators import (
    MEAN,
    SUM,
    After,
    Aggregator,
    Before,
    LinearBefore,
    MatrixAggregator,
    Multiset,
    Product,
    Statistic,
)
from fullrank.lab.theory.exact import null_space, rank

SAME = 1e-9
DIFFERENT = 1e-6
FIRST = 8
SAMPLE = 64


@dataclass(frozen=True)
class Proof:
    """Why f is at least as strong as g, step by step."""

    steps: tuple[str, ...]

    def __str__(self) -> str:
        return f"yes: {'; '.join(self.steps)}"


@dataclass(frozen=True)
class Witness:
    """Two multisets that `telling` distinguishes and `confusing` does not.

    Attributes:
        first, second: The multisets.
        confusing, telling: The aggregators.
        exact: Whether both statements hold in rational arithmetic; otherwise, as for
            every layer, the outputs of `confusing` agree to 1e-9, each number relative
            to its size or usual size, and those of `telling` differ by more than 1e-6,
            relative to the largest number.
    """

    first: Multiset
    second: Multiset
    confusing: Aggregator
    telling: Aggregator
    exact: bool

    @property
    def outputs(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Both outputs of each aggregator, by its name."""
        return {
            f.name: (f(self.first), f(self.second))
            for f in (self.confusing, self.telling)
        }

    def __str__(self) -> str:
        how = "exactly" if self.exact else f"to {SAME:g}"
        return (
            f"no: {self.first} and {self.second}, distinguished by {self.telling}, "
            f"{how} the same for {self.confusing}"
        )


@dataclass(frozen=True)
class Unknown:
    """Neither proved nor refuted, after a search among this many multisets."""

    looked_at: int

    def __str__(self) -> str:
        return f"unknown: no proof, and no witness among {self.looked_at} multisets"


Evidence = Proof | Witness | Unknown


@dataclass(frozen=True)
class Comparison:
    """The place of f and g in the partial order.

    Attributes:
        f, g: The aggregators.
        at_least: Evidence for or against :math:`f \\succeq g`.
        at_most: Evidence for or against :math:`g \\succeq f`.
    """

    f: Aggregator
    g: Aggregator
    at_least: Evidence
    at_most: Evidence

    @property
    def verdict(self) -> str:
        """f is *stronger*, *weaker*, *equal*, *incomparable*, or *undecided*."""
        kinds = type(self.at_least), type(self.at_most)
        return {
            (Proof, Witness): "stronger",
            (Witness, Proof): "weaker",
            (Proof, Proof): "equal",
            (Witness, Witness): "incomparable",
        }.get(kinds, "undecided")

    def __str__(self) -> str:
        return (
            f"{self.f} against {self.g}: {self.verdict}\n"
            f"  {self.f} ⪰ {self.g}? {self.at_least}\n"
            f"  {self.g} ⪰ {self.f}? {self.at_most}"
        )


def as_strong(f: Aggregator, g: Aggregator, dim: int | None = None) -> Evidence:
    r"""Evidence for or against :math:`f \succeq g`.

    Args:
        f: One aggregator.
        g: The other.
        dim: Width of the rows in the search for witnesses, by default the smallest that
            both accept.
    """
    dim = max(f.dim, g.dim) if dim is None else dim
    steps = _derive(f, g)
    if steps is not None:
        return Proof(steps)
    if matrices := _as_matrices(f, g):
        return _replayed(_matrix_witness(f, g, *matrices, dim))
    # The parts of a product may run on fewer rows than the product.
    if isinstance(g, Product) and all(x.smallest == g.smallest for x in g.parts):
        return _replayed(_as_strong_as_product(f, g, dim))
    return _search(f, g, dim)


def _replayed(evidence: Evidence, units: tuple[float, ...] = ()) -> Evidence:
    """A witness, verified by running both aggregators."""
    if not isinstance(evidence, Witness):
        return evidence
    both = evidence.first, evidence.second
    by_f, by_g = (
        [aggregator.encode(x) for x in both]
        for aggregator in (evidence.confusing, evidence.telling)
    )
    if not (_agree(by_f[0], by_f[1], units) and _distance(*by_g) > DIFFERENT):
        return Unknown(2)
    exact = all(isinstance(number, Rational) for number in chain(*by_f, *by_g))
    return replace(evidence, exact=exact)


def _as_strong_as_product(f: Aggregator, g: Product, dim: int) -> Evidence:
    """A product distinguishes everything that one of its parts distinguishes."""
    looked_at = 0
    for part in g.parts:
        evidence = as_strong(f, part, dim)
        if isinstance(evidence, Witness):
            both = evidence.first, evidence.second
            if g.uses_degrees and not part.uses_degrees and not f.uses_degrees:
                both = _regular(both[0]), _regular(both[1])
            return replace(evidence, first=both[0], second=both[1], telling=g)
        if isinstance(evidence, Unknown):
            looked_at += evidence.looked_at
    return Unknown(looked_at)


def _regular(x: Multiset) -> Multiset:
    """The same rows, with all degrees equal."""
    return Multiset(x.rows, degrees=(len(x),) * len(x))


def _derive(f: Aggregator, g: Aggregator) -> tuple[str, ...] | None:
    """Prove that g is a function of f, if possible."""
    if f is g or f == g:
        return (f"{g} is {f}",)
    if f.structure or g.structure:
        return _derive(f.structure or f, g.structure or g)
    if isinstance(f, Statistic) and isinstance(g, Statistic):
        return (f"{f} contains {g}",) if g.contents <= f.contents else None
    if (in_rows := _derive_from_rows(f, g)) is not None:
        return in_rows
    return _derive_by_g(f, g) or _derive_by_f(f, g)


def _derive_by_g(f: Aggregator, g: Aggregator) -> tuple[str, ...] | None:
    if isinstance(g, Product):
        steps = [_derive(f, part) for part in g.parts]
        if all(steps):
            return tuple(step for part in steps if part for step in part)
    if isinstance(g, After) and (inner := _derive(f, g.inner)):
        return (*inner, f"{g} is a function of {g.inner} (Lemma 1 i)")
    if isinstance(g, LinearBefore) and g.linear and (inner := _derive(f, g.inner)):
        return (*inner, f"{g} is T applied to {g.inner} (Lemma 1 iii)")
    return None


def _derive_by_f(f: Aggregator, g: Aggregator) -> tuple[str, ...] | None:
    if isinstance(f, Product):
        for part in f.parts:
            if inner := _derive(part, g):
                return (f"{f} contains {part} (Lemma 1 ii)", *inner)
    if isinstance(f, After) and f.injective and (inner := _derive(f.inner, g)):
        return (f"{f} is an injective function of {f.inner} (Lemma 1 i)", *inner)
    if (
        isinstance(f, LinearBefore)
        and f.linear
        and rank(f.matrix) == f.matrix.shape[1]
        and (inner := _derive(f.inner, g))
    ):
        return (f"{f} is T applied to {f.inner}, and T is injective", *inner)
    return None


def _derive_from_rows(f: Aggregator, g: Aggregator) -> tuple[str, ...] | None:
    """Proposition 1: with fixed coefficients, strength is inclusion of row spaces."""
    matrices = _as_matrices(f, g)
    if matrices is None or rank(np.vstack(matrices)) > rank(matrices[0]):
        return None
    return (f"the rows of {g} are combinations of the rows of {f}",)


def _as_matrices(f: Aggregator, g: Aggregator) -> tuple[np.ndarray, np.ndarray] | None:
    """The coefficient matrices of both, if they have any for a common fixed size."""
    sizes = {size for size in (_size(f), _size(g)) if size is not None}
    if len(sizes) == 2:
        raise ValueError(
            f"{f} and {g} aggregate sequences of different sizes, {_size(f)} and "
            f"{_size(g)}; only aggregators of the same size can be compared"
        )
    if not sizes:
        return None
    (size,) = sizes
    m_f, m_g = _as_matrix(f, size), _as_matrix(g, size)
    return None if m_f is None or m_g is None else (m_f, m_g)


def _size(f: Aggregator) -> int | None:
    """The fixed length of the sequences that f accepts, if any."""
    if isinstance(f, MatrixAggregator):
        return f.matrix.shape[1]
    if isinstance(f, Product):
        return next(filter(None, map(_size, f.parts)), None)
    if isinstance(f, After | Before | LinearBefore):
        return _size(f.inner)
    return None


def _as_matrix(f: Aggregator, size: int) -> np.ndarray | None:
    """The coefficient matrix of f on sequences of a fixed size."""
    f = f.structure or f
    if isinstance(f, MatrixAggregator):
        return f.matrix
    if isinstance(f, Statistic) and f.contents == SUM.contents:
        return np.full((1, size), Fraction(1))
    if isinstance(f, Statistic) and f.contents == MEAN.contents:
        return np.full((1, size), Fraction(1, size))
    if isinstance(f, Product):
        parts = [_as_matrix(part, size) for part in f.parts]
        if all(part is not None for part in parts):
            return np.vstack(parts)  # type: ignore[arg-type]
    return None


def _matrix_witness(
    f: Aggregator, g: Aggregator, m_f: np.ndarray, m_g: np.ndarray, dim: int
) -> Evidence:
    """Move a multiset along a direction that f ignores and g does not."""
    for direction in null_space(m_f):
        if any(m_g.dot(direction)):
            size = len(direction)
            start = np.array([Fraction(i) for i in range(size)])
            pairs = (_two_rows(start, k * direction, dim) for k in (1, 2))
            # A permutation keeps the norm, which at most one of the two shifts can do.
            first, second = next(pair for pair in pairs if pair[0] != pair[1])
            return Witness(first, second, f, g, exact=False)
    raise AssertionError("row spaces said that a witness exists")


def _two_rows(
    start: np.ndarray, move: np.ndarray, dim: int
) -> tuple[Multiset, Multiset]:
    columns = [np.stack([column] * dim, axis=1) for column in (start, start + move)]
    return Multiset(columns[0]), Multiset(columns[1])


def _search(f: Aggregator, g: Aggregator, dim: int) -> Evidence:
    """Group small multisets by f, and search for two that g distinguishes."""
    pool = dim, f.uses_degrees or g.uses_degrees
    size = _size(f) or _size(g)
    multisets = _small_multisets(*pool)
    smallest = max(f.smallest, g.smallest)
    indices = [
        index
        for index, x in enumerate(multisets)
        if size in (None, len(x)) and len(x) >= smallest
    ]
    units = _units(_encode(f, pool, indices[:: len(indices) // SAMPLE + 1]))
    seen: dict[tuple, tuple[int, tuple, tuple]] = {}
    start = 0
    while some := indices[start : 2 * start + FIRST]:
        start = 2 * start + FIRST  # most witnesses are among the first
        encoded = zip(_encode(f, pool, some), _encode(g, pool, some), strict=True)
        for index, (by_f, by_g) in zip(some, encoded, strict=True):
            x = multisets[index]
            center = tuple(x.rows[0]) if f.reads_center or g.reads_center else ()
            # So far, g has the same output for all multisets of the group: compare with
            # the first.
            key = center, _key(by_f, units)
            other, *others = seen.setdefault(key, (index, by_f, by_g))
            same = _agree(others[0], by_f, units)
            if same and _distance(others[1], by_g) > DIFFERENT:
                found = Witness(multisets[other], x, f, g, exact=False)
                return _replayed(found, units)
    return Unknown(len(indices))


def _units(encoded: list[tuple]) -> tuple[float, ...]:
    """The largest size of each number in some outputs, at most 1: the outputs of a
    layer with small weights are small, but they are not rounding errors."""
    columns = zip_longest(*encoded, fillvalue=0)
    return tuple(min(1.0, float(max(map(abs, column)))) or 1.0 for column in columns)


def _agree(one: tuple, other: tuple, units: tuple[float, ...]) -> bool:
    """Whether two outputs are the same up to rounding, number by number."""
    if one == other:
        return True
    pairs = zip(one, other, chain(units, repeat(1.0)), strict=False)
    return len(one) == len(other) and all(
        a == b
        or (
            not isinstance(a - b, Rational)
            and abs(a - b) <= SAME * max(abs(a), abs(b), unit)
        )
        for a, b, unit in pairs
    )


def _distance(one: tuple, other: tuple) -> float:
    """Largest difference relative to the size of the outputs; 0 means equal."""
    if one == other:
        return 0.0
    if len(one) != len(other):
        return float("inf")
    gap = max(abs(a - b) for a, b in zip(one, other, strict=True))
    if isinstance(gap, Rational):
        return float("inf")
    return float(gap / max(1.0, *(abs(z) for z in (*one, *other))))


def _key(encoded: tuple, units: tuple[float, ...]) -> tuple:
    numbers = zip(encoded, chain(units, repeat(1.0)), strict=False)
    return tuple(
        z if isinstance(z, Rational) else round(z / unit, 7) + 0.0
        for z, unit in numbers
    )


def _encode(f: Aggregator, pool: tuple[int, bool], indices: list[int]) -> list[tuple]:
    if isinstance(f, Product):
        parts = (_encode(part, pool, indices) for part in f.parts)
        return [tuple(chain(*encoded)) for encoded in zip(*parts, strict=True)]
    if isinstance(f, Statistic):
        return [_encode_once(f, pool, index) for index in indices]
    return f.encode_all([_small_multisets(*pool)[index] for index in indices])


# Only formulas: the weights of a layer may change between two comparisons.
@lru_cache(maxsize=500_000)
def _encode_once(f: Statistic, pool: tuple[int, bool], index: int) -> tuple:
    return f.encode(_small_multisets(*pool)[index])


@lru_cache(maxsize=8)
def _small_multisets(dim: int, with_degrees: bool) -> tuple[Multiset, ...]:
    """Multisets of few small integers, in an order that finds short witnesses first."""
    values = [
        row
        for size in range(1, 7)
        for row in combinations_with_replacement(range(-2, 4), size)
    ]
    values += [side for pair in _EQUAL_POWERS for side in pair]
    directions = np.unique([np.eye(1, dim)[0], np.ones(dim)], axis=0).astype(int)
    multisets: list[Multiset] = []
    for row in values:
        for direction in directions:
            rows = np.outer(row, direction)
            multisets += _with_degrees(rows) if with_degrees else [Multiset(rows)]
    return tuple(multisets)


def _with_degrees(rows: np.ndarray) -> list[Multiset]:
    """The same rows among neighbours of equal and of unequal degrees.

    Degrees are n times a square, so that nMEAN is rational.
    """
    n = len(rows)
    patterns = {(n,) * n, (n,) * (n - 1) + (4 * n,), (n,) + (4 * n,) * (n - 1)}
    proper = sorted(pattern for pattern in patterns if pattern[0] == n)
    orders = (rows, rows[::-1])
    return [Multiset(order, degrees) for degrees in proper for order in orders]


# Pairs of equal size with the same sums, sums of squares and sums of cubes
# (Prouhet-Tarry-Escott); a common element hides the extremes.
_EQUAL_POWERS = [
    (left + common, right + common)
    for left, right in [
        ((0, 4, 7, 11), (1, 2, 9, 10)),
        ((0, 2, 2, 2, 2, 2, 2, 4), (1, 1, 1, 1, 3, 3, 3, 3)),
    ]
    for common in [(), (-1,), (12,), (-1, 12)]
]
