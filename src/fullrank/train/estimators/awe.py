from math import log

import numpy as np

from fullrank.data import GraphDataset
from fullrank.errors import ConfigError
from fullrank.train.estimators.base import KernelEstimator, each_graph


class AWE(KernelEstimator):
    r"""Anonymous walk embeddings with an SVM, from `"Anonymous Walk Embeddings"
    <https://arxiv.org/abs/1805.11921>`_ (feature-based).

    An anonymous walk replaces each node by the step at which the walk first met it. A
    graph is the distribution of anonymous walks of :math:`l` steps, estimated from

    .. math::
        m = \left\lceil \frac{2}{\varepsilon^2} (\log(2^\eta - 2) - \log \delta)
        \right\rceil

    random walks, so that it is off by more than :math:`\varepsilon` in total variation
    with a probability of at most :math:`\delta` (:math:`\eta` distributions of
    anonymous walks are Bell's number of :math:`l + 1` minus the impossible ones; here
    at most that). The kernel is the normalised product of two distributions. Labels of
    nodes are not read.

    Published setting: lengths up to 10, :math:`\varepsilon = 0.1`, :math:`\delta =
    0.05`, polynomial and RBF kernels beside the product, C by cross-validation.

    Args:
        seed: Of the walks.
        length: :math:`l`.
        walks: :math:`m`; by the formula above if :obj:`None`, but at most 10,000.
    """

    def __init__(
        self, seed: int = 0, length: int = 6, walks: int | None = None
    ) -> None:
        super().__init__(seed)
        if not 1 <= length <= 10:
            raise ConfigError(f"length must be from 1 to 10, got {length}")
        self.length = length
        self.walks = walks or min(10_000, samples_needed(length))

    def start(self, dataset: GraphDataset, indices: np.ndarray) -> None:
        found = [patterns for patterns, _ in self._distributions(dataset, indices)]
        self._known = np.unique(np.concatenate(found))

    def embed(self, dataset: GraphDataset, indices: np.ndarray) -> np.ndarray:
        rows = np.zeros((len(indices), len(self._known)))
        for row, found in enumerate(self._distributions(dataset, indices)):
            patterns, shares = found
            known = np.isin(patterns, self._known)
            rows[row, np.searchsorted(self._known, patterns[known])] = shares[known]
        return rows

    def _distributions(self, dataset: GraphDataset, indices: np.ndarray):
        """The anonymous walks of each graph and their shares."""
        for nodes, edges, rng in each_graph(dataset, indices, self.seed):
            walks = random_walks(nodes, edges, self.walks, self.length, rng)
            patterns, counts = np.unique(anonymous(walks), return_counts=True)
            yield patterns, counts / self.walks


def samples_needed(length: int, epsilon: float = 0.1, delta: float = 0.05) -> int:
    """Return how many walks estimate the distribution of anonymous walks well."""
    bell = [1]  # the triangle of Bell numbers, row by row
    for _ in range(length):
        row = [bell[-1]]
        for above in bell:
            row.append(row[-1] + above)
        bell = row
    eta = bell[-1]
    exponent = eta * log(2) if eta > 50 else log(max(2**eta - 2, 1))
    return int(np.ceil(2 / epsilon**2 * (exponent - log(delta))))


def random_walks(
    nodes: int, edges: np.ndarray, count: int, length: int, rng: np.random.Generator
) -> np.ndarray:
    """Return random walks from random nodes, ``[count, length + 1]``.

    A walk that cannot go on stays where it is.
    """
    order = np.argsort(edges[0], kind="stable")
    target = edges[1][order]
    degree = np.bincount(edges[0], minlength=nodes)
    first = np.cumsum(degree) - degree
    walks = np.empty((count, length + 1), dtype=np.int64)
    walks[:, 0] = rng.integers(nodes, size=count)
    for step in range(length):
        here = walks[:, step]
        chosen = first[here] + (rng.random(count) * degree[here]).astype(np.int64)
        moved = degree[here] > 0
        walks[:, step + 1] = here
        walks[moved, step + 1] = target[chosen[moved]]
    return walks


def anonymous(walks: np.ndarray) -> np.ndarray:
    """Return one number for each walk, equal for walks that meet nodes alike."""
    steps = walks.shape[1]
    same = walks[:, :, None] == walks[:, None, :]  # [W, L, L]
    first = same.argmax(axis=2)  # the step at which the node was met first
    return first @ (steps ** np.arange(steps))
