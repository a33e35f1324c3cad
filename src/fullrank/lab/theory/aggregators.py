r"""Aggregators on multisets, exact where possible.

A :class:`Multiset` contains fractions, and an :class:`Aggregator` encodes it in
fractions if its formula allows, so that equality does not depend on rounding.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import isqrt
from numbers import Rational
from typing import Any

import numpy as np
import torch
from torch_geometric.nn.aggr import Aggregation


class Multiset:
    """The rows of a matrix; for layers, the neighbourhood of the node in the first row.

    Args:
        rows: ``n × d`` numbers, or n numbers; floats are converted exactly.
        degrees: :math:`|\\mathcal{N}(u)|` of each row, required by nMEAN. The first
            must be n, because :math:`\\mathcal{N}(v)` contains v; the others at least
            2.
    """

    def __init__(self, rows: Any, degrees: Sequence[int] | None = None):
        array = np.asarray(rows, dtype=object)
        if array.ndim == 1:
            array = array.reshape(-1, 1)
        if array.ndim != 2 or len(array) == 0:
            raise ValueError(
                f"a multiset needs at least one row of numbers, got {rows!r}"
            )
        self.rows = np.vectorize(Fraction, otypes=[object])(array)  # [n, d]
        self.degrees = None if degrees is None else tuple(degrees)
        if self.degrees is not None:
            self._check_degrees(self.degrees)

    def _check_degrees(self, degrees: tuple[int, ...]) -> None:
        if len(degrees) != len(self) or degrees[0] != len(self) or min(degrees) < 1:
            raise ValueError(
                f"a neighbourhood of {len(self)} needs {len(self)} degrees, the first "
                f"of them {len(self)}, got {degrees}"
            )
        if any(degree < 2 for degree in degrees[1:]):
            raise ValueError(
                f"the degree of a neighbour counts itself and the centre, so it is "
                f"at least 2, got {degrees}"
            )

    @property
    def dim(self) -> int:
        return self.rows.shape[1]

    def numpy(self) -> np.ndarray:
        return self.rows.astype(float)

    def __len__(self) -> int:
        return len(self.rows)

    def __eq__(self, other: object) -> bool:
        """Equal up to the order of the rows, each with its degree."""
        return isinstance(other, Multiset) and self._sorted() == other._sorted()

    def __hash__(self) -> int:
        return hash(self._sorted())

    def _sorted(self) -> tuple:
        degrees = self.degrees or (0,) * len(self)
        return tuple(sorted(zip(map(tuple, self.rows), degrees, strict=True)))

    def __repr__(self) -> str:
        rows = ", ".join(
            str(row[0]) if len(row) == 1 else "(" + ", ".join(map(str, row)) + ")"
            for row in self.rows
        )
        degrees = "" if self.degrees is None else f", degrees={self.degrees}"
        return f"{{{{{rows}}}}}{degrees}"


class Aggregator:
    """A function of multisets.

    Attributes:
        name: Its name in tables.
        linear: Whether it is a weighted sum of the rows with constant weights, and
            therefore equivariant.
        uses_degrees: Whether it reads the degrees of a multiset.
        reads_center: Whether it treats the first row as the centre of the others.
        dim: Required width of the rows; 1 if any width is accepted.
        smallest: Minimum number of rows.
        structure: The same function in terms of simpler aggregators, for proofs;
            witnesses come from the aggregator itself.
    """

    name: str
    linear = False
    uses_degrees = False
    reads_center = False
    dim: int = 1
    smallest: int = 1
    structure: "Aggregator | None" = None

    def encode(self, x: Multiset) -> tuple:
        """The output, or an injective function of it, in fractions where possible."""
        raise NotImplementedError

    def encode_all(self, multisets: Sequence[Multiset]) -> list[tuple]:
        """:meth:`encode` for each multiset."""
        return [self.encode(x) for x in multisets]

    def __call__(self, x: Multiset) -> np.ndarray:
        """The output in float64."""
        return np.array(self.encode(x), dtype=float)

    def __matmul__(self, other: "Aggregator") -> "Product":
        r"""The product :math:`f \otimes g`, which returns both outputs."""
        return Product((self, other))

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, repr=False)
class Statistic(Aggregator):
    """An aggregator given by an exact formula, column by column.

    Args:
        name: Its name.
        formula: Maps the multiset to fractions.
        finish: An injective map from these to the output, such as a root.
        linear: As in :class:`Aggregator`.
        uses_degrees: As in :class:`Aggregator`.
        contents: Names of the numbers it returns, by default its own name; a statistic
            is at least as strong as another one whose contents it includes.
    """

    name: str
    formula: Callable[[Multiset], np.ndarray] = field(compare=False)
    finish: Callable[[np.ndarray], np.ndarray] | None = field(
        compare=False, default=None
    )
    linear: bool = False
    uses_degrees: bool = False
    contents: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "contents", self.contents or frozenset({self.name}))

    def encode(self, x: Multiset) -> tuple:
        return tuple(self.formula(x).ravel())

    def __call__(self, x: Multiset) -> np.ndarray:
        encoded = super().__call__(x)
        return encoded if self.finish is None else self.finish(encoded)


@dataclass(frozen=True, repr=False)
class Product(Aggregator):
    r"""The concatenation of several aggregators, :math:`[f(X) \Vert g(X)]`."""

    parts: tuple[Aggregator, ...]

    @property
    def name(self) -> str:  # type: ignore[override]
        return " ⊗ ".join(part.name for part in self.parts)

    @property
    def uses_degrees(self) -> bool:  # type: ignore[override]
        return any(part.uses_degrees for part in self.parts)

    @property
    def reads_center(self) -> bool:  # type: ignore[override]
        return any(part.reads_center for part in self.parts)

    @property
    def dim(self) -> int:  # type: ignore[override]
        return max(part.dim for part in self.parts)

    @property
    def smallest(self) -> int:  # type: ignore[override]
        return max(part.smallest for part in self.parts)

    def encode(self, x: Multiset) -> tuple:
        return tuple(value for part in self.parts for value in part.encode(x))

    def __call__(self, x: Multiset) -> np.ndarray:
        return np.concatenate([part(x) for part in self.parts])


class _Wrapper(Aggregator):
    """An aggregator that wraps another one, with the same inputs."""

    inner: Aggregator

    @property
    def uses_degrees(self) -> bool:  # type: ignore[override]
        return self.inner.uses_degrees

    @property
    def reads_center(self) -> bool:  # type: ignore[override]
        return self.inner.reads_center

    @property
    def dim(self) -> int:  # type: ignore[override]
        return self.inner.dim

    @property
    def smallest(self) -> int:  # type: ignore[override]
        return self.inner.smallest


@dataclass(frozen=True, repr=False)
class After(_Wrapper):
    r"""A function applied after aggregation, :math:`g \circ f`.

    Args:
        function: Maps the output of `inner`, a float64 tensor, to a tensor.
        inner: The aggregator.
        injective: Whether the function is known to be injective.
    """

    function: Callable[[torch.Tensor], torch.Tensor]
    inner: Aggregator
    injective: bool = False
    name: str = "g∘f"

    def encode(self, x: Multiset) -> tuple:
        return tuple(_run(self.function, torch.from_numpy(self.inner(x))))


@dataclass(frozen=True, repr=False)
class Before(_Wrapper):
    r"""A function applied to every row before aggregation, :math:`f(\phi(x_i))`."""

    inner: Aggregator
    function: Callable[[torch.Tensor], torch.Tensor]
    name: str = "f∘φ"

    def encode(self, x: Multiset) -> tuple:
        # In floats, so that rounding in the function is not taken for an exact
        # difference.
        return tuple(self(x).tolist())

    def __call__(self, x: Multiset) -> np.ndarray:
        with torch.no_grad():
            rows = self.function(torch.from_numpy(x.numpy())).double().numpy()
        return self.inner(Multiset(rows, x.degrees))


class LinearBefore(_Wrapper):
    r"""A linear map before aggregation, :math:`f(T x_1, \dots, T x_n)`, computed
    exactly.

    Args:
        inner: The aggregator.
        matrix: T; its number of columns is the width of the rows of the multisets.
    """

    def __init__(self, inner: Aggregator, matrix: Any, name: str | None = None):
        self.inner = inner
        self.matrix = Multiset(matrix).rows  # [m, d]
        self.linear = inner.linear
        self.name = name or f"{inner.name}∘T"

    def _mapped(self, x: Multiset) -> Multiset:
        return Multiset(x.rows.dot(self.matrix.T), x.degrees)

    def encode(self, x: Multiset) -> tuple:
        return self.inner.encode(self._mapped(x))

    def __call__(self, x: Multiset) -> np.ndarray:
        return self.inner(self._mapped(x))


class MatrixAggregator(Aggregator):
    r"""The coefficient-matrix aggregator :math:`f_M(X) = M X` on sequences.

    Row i of a sequence belongs to column i of M; sequences of another length are
    refused.

    Args:
        matrix: M, of shape ``s × n``.
    """

    linear = True

    def __init__(self, matrix: Any, name: str = "f_M"):
        self.matrix = Multiset(matrix).rows  # [s, n]
        self.name = name

    def encode(self, x: Multiset) -> tuple:
        if len(x) != self.matrix.shape[1]:
            raise ValueError(
                f"{self.name} aggregates {self.matrix.shape[1]} rows, got {len(x)}"
            )
        return tuple(self.matrix.dot(x.rows).ravel())


@dataclass(frozen=True, repr=False)
class Custom(Aggregator):
    """Any function from an ``n × d`` float64 tensor to a tensor."""

    function: Callable[[torch.Tensor], torch.Tensor]
    name: str

    def encode(self, x: Multiset) -> tuple:
        return tuple(_run(self.function, torch.from_numpy(x.numpy())))


def aggregator(function: Callable | Aggregation, name: str | None = None) -> Aggregator:
    """Convert a function or one of PyG's ``Aggregation`` modules to an aggregator.

    The function receives the rows as a float64 tensor. Some modules are not exact:
    PyG's ``StdAggregation`` sets small values to 0. :data:`STD` does not.
    """
    if isinstance(function, Aggregator):
        return function
    if isinstance(function, Aggregation):
        module = function.double().eval()

        def aggregate(x: torch.Tensor) -> torch.Tensor:
            return module(x, index=torch.zeros(len(x), dtype=torch.long))

        return Custom(aggregate, name or type(function).__name__)
    return Custom(function, name or str(getattr(function, "__name__", "f")))


def moment(order: int) -> Statistic:
    r"""The normalised moment
    :math:`\sqrt[k]{\frac{1}{n} \sum_i (x_i - \mu)^k}`, for k = 1 the mean itself."""
    if order < 1:
        raise ValueError(f"the order of a moment must be at least 1, got {order}")
    if order == 1:
        return Statistic("moment 1", _mean, linear=True, contents=MEAN.contents)
    return Statistic(
        f"moment {order}",
        _central_moment(order),
        _signed_root(order),
        contents=STD.contents if order == 2 else frozenset(),
    )


def powers(order: int) -> Statistic:
    r"""The sums of powers
    :math:`\sum_i x_i, \sum_i x_i^2, \dots, \sum_i x_i^k`."""
    if order < 1:
        raise ValueError(f"the order of powers must be at least 1, got {order}")

    def formula(x: Multiset) -> np.ndarray:
        return np.stack([(x.rows**k).sum(axis=0) for k in range(1, order + 1)])

    higher = {f"power {k}" for k in range(2, order + 1)}
    return Statistic(
        f"powers {order}",
        formula,
        linear=order == 1,
        contents=SUM.contents | higher,
    )


def _mean(x: Multiset) -> np.ndarray:
    return x.rows.sum(axis=0) * Fraction(1, len(x))


def _central_moment(order: int) -> Callable[[Multiset], np.ndarray]:
    def formula(x: Multiset) -> np.ndarray:
        return ((x.rows - _mean(x)) ** order).sum(axis=0) * Fraction(1, len(x))

    return formula


def _signed_root(order: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda value: np.sign(value) * np.abs(value) ** (1 / order)


def _normalized_mean(x: Multiset) -> np.ndarray:
    if x.degrees is None:
        raise ValueError("nMEAN needs the degrees of the rows: Multiset(rows, degrees)")
    weights = np.array([_inverse_root(len(x) * degree) for degree in x.degrees])
    return weights.dot(x.rows)


def _inverse_root(number: int) -> Rational | float:
    root = isqrt(number)
    return Fraction(1, root) if root * root == number else number**-0.5


def _run(function: Callable, value: torch.Tensor) -> list[float]:
    with torch.no_grad():
        return torch.as_tensor(function(value)).double().reshape(-1).tolist()


SUM = Statistic("SUM", lambda x: x.rows.sum(axis=0), linear=True)
MEAN = Statistic("MEAN", _mean, linear=True)
NMEAN = Statistic("nMEAN", _normalized_mean, linear=True, uses_degrees=True)
MAX = Statistic("MAX", lambda x: x.rows.max(axis=0))
MIN = Statistic("MIN", lambda x: x.rows.min(axis=0))
STD = Statistic("STD", _central_moment(2), _signed_root(2))
