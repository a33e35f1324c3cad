from functools import cache
from itertools import combinations, permutations

import numpy as np

from fullrank.data import GraphDataset
from fullrank.train.estimators.base import KernelEstimator, each_graph

_SIZE = 5
_PAIRS = list(combinations(range(_SIZE), 2))


class DGK(KernelEstimator):
    r"""The deep graphlet kernel with an SVM, from `"Deep Graph Kernels"
    <https://doi.org/10.1145/2783258.2783417>`_.

    .. math::
        K(G, H) = \boldsymbol{\phi}(G)^{\top} \mathbf{M} \, \boldsymbol{\phi}(H)

    :math:`\boldsymbol{\phi}` contains the frequencies of the 34 graphs with five nodes
    among the induced subgraphs of random nodes. :math:`\mathbf{M} = \mathbf{E}
    \mathbf{E}^{\top}` is their similarity, from embeddings of graphlets that co-occur,
    which means here that they share four of their five nodes. The embeddings factorise
    the positive pointwise mutual information; skip-gram with negative sampling, one of
    the models that the authors train, implicitly factorises the pointwise mutual
    information minus a constant (Levy and Goldberg, 2014). Node labels are ignored.

    In the authors' code, co-occurring graphlets share one node and are also counted in
    :math:`\boldsymbol{\phi}`, the embeddings are trained on all graphs instead of the
    training part, and all graphs with fewer nodes than a graphlet are alike; here, they
    get isolated nodes.

    Published setting: graphlets of 7 nodes for social networks (8 according to the
    README of the authors' code); with node labels shortest paths, or subtrees of two
    rounds of 1-WL.

    Args:
        seed: Seed of the graphlets.
        samples: Number of graphlets per graph.
        dimensions: Dimension of the embeddings.
    """

    def __init__(
        self, seed: int = 0, samples: int = 1000, dimensions: int = 10
    ) -> None:
        super().__init__(seed)
        self.samples = samples
        self.dimensions = dimensions

    def start(self, dataset: GraphDataset, indices: np.ndarray) -> None:
        kinds = graphlet_classes().max() + 1
        pairs = np.zeros(kinds**2)
        for one, other in self._graphlets(dataset, indices):
            pairs += np.bincount(one * kinds + other, minlength=kinds**2)
        together = pairs.reshape(kinds, kinds)
        together = together + together.T
        self._embedding = _factors(together, min(self.dimensions, kinds))

    def embed(self, dataset: GraphDataset, indices: np.ndarray) -> np.ndarray:
        kinds = len(self._embedding)
        found = self._graphlets(dataset, indices)
        counts = [np.bincount(one, minlength=kinds) for one, _ in found]
        return np.stack(counts) / self.samples @ self._embedding

    def _graphlets(self, dataset: GraphDataset, indices: np.ndarray):
        """Graphlets of each graph, and those with one node exchanged."""
        for nodes, edges, rng in each_graph(dataset, indices, self.seed):
            size = max(nodes, _SIZE + 1)  # small graphs get isolated nodes
            adjacent = np.zeros((size, size), dtype=bool)
            adjacent[edges[0], edges[1]] = True
            chosen = _distinct(size, self.samples, rng)  # [S, 6]
            yield (
                classify(adjacent, chosen[:, :_SIZE]),
                classify(adjacent, chosen[:, 1:]),
            )


def classify(adjacent: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Return which of the 34 graphs each set of five nodes induces."""
    bits = [adjacent[nodes[:, i], nodes[:, j]] << k for k, (i, j) in enumerate(_PAIRS)]
    return graphlet_classes()[np.sum(bits, axis=0)]


@cache
def graphlet_classes() -> np.ndarray:
    """Return the isomorphism class of each of the 1024 graphs on five nodes."""
    codes = np.arange(2 ** len(_PAIRS))
    place = {pair: k for k, pair in enumerate(_PAIRS)}
    smallest = codes.copy()
    for order in permutations(range(_SIZE)):
        moved = np.zeros_like(codes)
        for k, (i, j) in enumerate(_PAIRS):
            to = place[min(order[i], order[j]), max(order[i], order[j])]
            moved |= ((codes >> k) & 1) << to
        smallest = np.minimum(smallest, moved)
    return np.unique(smallest, return_inverse=True)[1]


def _distinct(nodes: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows of six distinct nodes."""
    if nodes <= 64:
        return rng.random((count, nodes)).argsort(axis=1)[:, : _SIZE + 1]
    rows = rng.integers(nodes, size=(count, _SIZE + 1))
    while True:  # few rows contain a node twice
        ordered = np.sort(rows, axis=1)
        again = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        if not again.any():
            return rows
        rows[again] = rng.integers(nodes, size=(int(again.sum()), _SIZE + 1))


def _factors(together: np.ndarray, dimensions: int) -> np.ndarray:
    """Factorise the positive pointwise mutual information of co-occurrences."""
    total, each = together.sum(), together.sum(axis=1)
    expected = np.outer(each, each) / max(total, 1)
    ratio = np.divide(
        together, expected, out=np.zeros_like(together), where=expected > 0
    )
    information = np.log(np.maximum(ratio, 1.0))
    u, s, _ = np.linalg.svd(information)
    return u[:, :dimensions] * np.sqrt(s[:dimensions])
