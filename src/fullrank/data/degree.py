"""Degrees as node features, the way the authors use them where a set has none."""

from dataclasses import dataclass, field

import numpy as np

from fullrank.data.packed.graphs import Part

# From this degree on the authors give the normalised degree instead of its one-hot.
ONE_HOT_BELOW = 1000
NORMALISED = "normalised degree"


@dataclass
class Columns:
    """Feature columns as they are stored, how they are given out, their names, and
    what the numbers of a stored array stand for, if it is not themselves."""

    arrays: dict[str, np.ndarray]
    parts: tuple[Part, ...]
    names: tuple[str, ...]
    categories: dict[str, np.ndarray] = field(default_factory=dict)


def degree_columns(
    edge_index: np.ndarray, num_nodes: int, largest: int | None = None
) -> Columns:
    """The number of neighbours of each node, itself not counted.

    One-hot if the largest is below 1,000, otherwise with mean 0 and deviation 1.
    ``largest`` is by default the one there is; a larger degree is all zeros.
    """
    source, destination = edge_index
    degree = np.bincount(source[source != destination], minlength=num_nodes)
    largest = int(degree.max()) if largest is None else largest
    if largest < ONE_HOT_BELOW:
        names = tuple(f"degree {k}" for k in range(largest + 1))
        part = Part("node.degree", one_hot=largest + 1)
        return Columns({"node.degree": degree.astype(np.int32)}, (part,), names)
    normalised = (degree - degree.mean()) / degree.std(ddof=1)
    arrays = {"node.degree": normalised.astype(np.float32)[:, None]}
    return Columns(arrays, (Part("node.degree"),), (NORMALISED,))
