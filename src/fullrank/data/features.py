"""Feature columns: what they mean, and degrees as features where a set has none."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fullrank.data.packed.graphs import Part

# From this degree on the authors give the normalised degree instead of its one-hot.
ONE_HOT_BELOW = 1000
NORMALISED = "normalised degree"


@dataclass(frozen=True)
class Features:
    """What the columns of ``x`` or ``edge_attr`` mean.

    Args:
        kind: ``"float"`` numbers, ``"categorical"`` ids, or ``"none"``.
        names: One for each column.
        cardinalities: How many ids each categorical column has.
    """

    kind: Literal["float", "categorical", "none"] = "none"
    names: tuple[str, ...] = ()
    cardinalities: tuple[int, ...] = ()

    @property
    def dim(self) -> int:
        """The number of columns."""
        return len(self.names)


@dataclass
class Columns:
    """Feature columns of nodes or edges, before they are packed.

    Args:
        arrays: How they are stored.
        parts: How they appear in batches.
        names: The names of the columns.
        categories: The values that the integers of a stored array encode, if any.
        moments: Mean and standard deviation of standardised degrees.
    """

    arrays: dict[str, np.ndarray]
    parts: tuple[Part, ...]
    names: tuple[str, ...]
    categories: dict[str, np.ndarray] = field(default_factory=dict)
    moments: tuple[float, float] | None = None


def degree_columns(
    edge_index: np.ndarray,
    num_nodes: int,
    largest: int | None = None,
    moments: tuple[float, float] | None = None,
) -> Columns:
    """The number of neighbours of each node, itself not counted.

    One-hot if the largest is below 1,000, otherwise with mean 0 and deviation 1, as the
    authors of the paper use them.

    Args:
        largest: The largest degree that has a column; a larger one is all zeros. By
            default the largest in the set.
        moments: Normalise with this mean and deviation instead of the set's own.
    """
    source, destination = edge_index
    degree = np.bincount(source[source != destination], minlength=num_nodes)
    largest = int(degree.max()) if largest is None else largest
    if moments is None and largest < ONE_HOT_BELOW:
        names = tuple(f"degree {k}" for k in range(largest + 1))
        part = Part("node.degree", one_hot=largest + 1)
        return Columns({"node.degree": degree.astype(np.int32)}, (part,), names)
    if moments is None:  # where all degrees are the same, nothing to divide by
        moments = float(degree.mean()), float(degree.std(ddof=1)) or 1.0
    mean, std = moments
    normalised = ((degree - mean) / std).astype(np.float32)[:, None]
    return Columns(
        {"node.degree": normalised},
        (Part("node.degree"),),
        (NORMALISED,),
        moments=moments,
    )
