from math import log

import numpy as np

from fullrank.data import GraphDataset
from fullrank.errors import ConfigError
from fullrank.train.estimators.base import KernelEstimator, each_graph


class AWE(KernelEstimator):
    r"""Anonymous walk embeddings with an SVM, from `"Anonymous Walk Embeddings"
    <https://arxiv.org/abs/1805.11921>`_ (feature-based).

    An anonymous walk replaces each node by the step at which the walk first visits it.
    A graph is the distribution of anonymous walks of :math:`l` steps, estimated from
    :math:`m` random walks. With

    .. math::
        m = \left\lceil \frac{2}{\varepsilon^2} (\log(2^\eta - 2) - \log \delta)
        \right\rceil

    the :math:`L_1` distance to the true distribution exceeds :math:`\varepsilon` with a
    probability of at most :math:`\delta`. The number :math:`\eta` of anonymous walks is
    bounded by the Bell number of :math:`l + 1` (without isolated nodes and self-loops,
    of :math:`l`). The kernel is the inner product of two distributions, normalised to 1
    for equal graphs; the authors do not normalise it. Node labels are ignored.

    Setting of the authors' code: :math:`l = 10`, 10,000 walks per graph, linear,
    quadratic and RBF kernels, C from 0.001 to 10 chosen on a validation part.

    Args:
        seed: Seed of the walks.
        length: :math:`l`, the number of steps of a walk.
        walks: :math:`m`, the number of walks. By default 10,000, as the authors have,
            or fewer if the formula above asks for fewer with :math:`\varepsilon = 0.1`
            and :math:`\delta = 0.05`, which it does up to :math:`l = 4`.
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
        """The anonymous walks of each graph and their frequencies."""
        for nodes, edges, rng in each_graph(dataset, indices, self.seed):
            walks = random_walks(nodes, edges, self.walks, self.length, rng)
            patterns, counts = np.unique(anonymous(walks), return_counts=True)
            yield patterns, counts / self.walks


def samples_needed(length: int, epsilon: float = 0.1, delta: float = 0.05) -> int:
    """Return the number of walks needed to estimate the distribution."""
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

    A walk without a next node stays where it is.
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
    """Return one number per walk, equal for walks with the same anonymous walk."""
    steps = walks.shape[1]
    same = walks[:, :, None] == walks[:, None, :]  # [W, L, L]
    first = same.argmax(axis=2)  # the step of the first visit
    return first @ (steps ** np.arange(steps))
