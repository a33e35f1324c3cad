r"""References: the part of a regression target that is linear in the node features.

An energy is almost a sum over atoms. A network that is trained on the energy itself
spends most of its capacity on this sum, and its rounding errors are those of the sum.
With references :math:`\mathbf{r}`, one for each category of each node feature (or each
number), it learns what they leave:

.. math::
    y_G = \sum_{v \in G} \mathbf{r}^\top \mathbf{x}_v + b + \varepsilon_G

where :math:`\mathbf{x}_v` is the node's one-hot categories or numbers. The references
are the least squares solution of minimal norm on the training graphs. The categories of
a column add up to one for each node, so this solution spreads a constant per node over
the columns; a category that does not occur in training has the mean of its column.
"""

import numpy as np
import torch
from torch import Tensor

from fullrank.data import Features, GraphDataset
from fullrank.errors import ConfigError

_GRAPHS_AT_ONCE = 2048
# Of the largest eigenvalue: smaller ones are zero, but for rounding.
_SMALLEST_EIGENVALUE = 1e-12
_LINEAR = 1e-9


def num_references(features: Features) -> int:
    """How many references each target has."""
    if features.kind == "categorical":
        return sum(features.cardinalities)
    return features.dim if features.kind == "float" else 0


def node_references(references: Tensor, features: Features, x: Tensor) -> Tensor:
    """The references of each node.

    Args:
        references: ``[F, T]``.
        features: What the columns of ``x`` mean.
        x: Node features, ``[N, columns]``.

    Returns:
        ``[N, T]``.
    """
    if features.kind == "float":
        return x.to(references.dtype) @ references
    total = references.new_zeros(len(x), references.size(1))
    first = 0
    for column, size in enumerate(features.cardinalities):
        total = total + references[x[:, column] + first]
        first += size
    return total


def graph_references(
    references: Tensor, features: Features, x: Tensor, batch: Tensor, num_graphs: int
) -> Tensor:
    """The references of the nodes of each graph, added up: ``[G, T]``."""
    each = node_references(references, features, x)
    return each.new_zeros(num_graphs, each.size(1)).index_add(0, batch, each)


def fit_references(
    dataset: GraphDataset, train: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fit references by least squares to the training graphs that have a label.

    Returns:
        The references, ``[F, T]``, and what they leave of the labels of the training
        graphs, ``[len(train), T]``.
    """
    features = dataset.node_features
    if dataset.task != "regression":
        raise ConfigError(
            f"training.references is for regression; {dataset.name} is {dataset.task}"
        )
    if features.kind == "none":
        raise ConfigError(
            f"training.references needs node features; {dataset.name} has none"
        )
    size, targets = num_references(features), len(dataset.targets)
    labels = np.asarray(dataset.labels[train], dtype=np.float64)
    identity = torch.eye(size, dtype=torch.float64)

    def sums(block: np.ndarray, references: Tensor) -> np.ndarray:
        batch = dataset.graphs.batch(block)
        found = (references, features, batch.x, batch.batch, len(block))
        return graph_references(*found).numpy()

    places = range(0, len(train), _GRAPHS_AT_ONCE)
    # Normal equations, so that memory does not grow with the number of graphs. Sums of
    # counts are exact.
    squares = np.zeros((targets, size + 1, size + 1))
    products = np.zeros((targets, size + 1))
    for start in places:
        block = slice(start, start + _GRAPHS_AT_ONCE)
        counts = sums(train[block], identity)
        counts = np.concatenate([counts, np.ones((len(counts), 1))], axis=1)
        for target, column in enumerate(labels[block].T):
            known = ~np.isnan(column)
            rows = counts[known]
            squares[target] += rows.T @ rows
            products[target] += rows.T @ column[known]
    each = zip(dataset.targets, squares, products, strict=True)
    solved = [_solve(target.name, *equations) for target, *equations in each]
    references = np.stack(solved, axis=1)[:-1]
    _fill_unseen(references, squares[:, -1, :-1].T, features)
    table = torch.from_numpy(references)
    linear = np.concatenate(
        [sums(train[start : start + _GRAPHS_AT_ONCE], table) for start in places]
    )
    return references, _without_rounding(labels - linear, labels)


def _fill_unseen(
    references: np.ndarray, counts: np.ndarray, features: Features
) -> None:
    """Give categories that do not occur the mean reference of their column."""
    last = np.cumsum(features.cardinalities, dtype=int)
    for stop, size in zip(last, features.cardinalities, strict=True):
        column = slice(stop - size, stop)
        nodes = counts[column].sum(axis=0)
        mean = (references[column] * counts[column]).sum(axis=0) / np.maximum(nodes, 1)
        references[column] = np.where(counts[column] > 0, references[column], mean)


def _without_rounding(left: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """What is left, as a constant where the target is linear: rounding errors would be
    learned otherwise."""
    if np.isnan(left).all(axis=0).any():  # which the caller reports
        return left
    linear = np.nanstd(left, axis=0) <= _LINEAR * np.nanstd(labels, axis=0)
    constant = np.where(np.isnan(left), np.nan, np.nanmean(left, axis=0))
    return np.where(linear, constant, left)


def _solve(target: str, squares: np.ndarray, products: np.ndarray) -> np.ndarray:
    """The solution of minimal norm; the last row belongs to the constant."""
    used = np.diag(squares) > 0  # what does not occur has no reference
    graphs = squares[-1, -1]
    values, vectors = np.linalg.eigh(squares[used][:, used])
    kept = values > _SMALLEST_EIGENVALUE * values.max(initial=0)
    if graphs < 2 * kept.sum():
        raise ConfigError(
            f"training.references fits {kept.sum()} numbers to {graphs:.0f} training "
            f"labels of {target!r}, which are too few: it needs twice as many"
        )
    solution = np.zeros(len(squares))
    inner = (vectors[:, kept].T @ products[used]) / values[kept]
    solution[used] = vectors[:, kept] @ inner
    return solution
