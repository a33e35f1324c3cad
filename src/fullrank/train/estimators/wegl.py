from typing import Self

import numpy as np
from scipy.sparse import coo_matrix, eye_array

from fullrank.data import GraphDataset
from fullrank.errors import ConfigError
from fullrank.extras import need
from fullrank.train.estimators.base import Estimator, classes_of, probabilities

CLASSIFIERS = ("random forest", "gradient boosting")


class WEGL(Estimator):
    r"""Wasserstein embedding for graph learning, from `"Wasserstein Embedding for Graph
    Learning" <https://arxiv.org/abs/2006.09430>`_.

    Node features diffuse, :math:`\mathbf{X}_{t+1} = \hat{\mathbf{D}}^{-1/2}
    \hat{\mathbf{A}} \hat{\mathbf{D}}^{-1/2} \mathbf{X}_t`, and those of all steps are
    concatenated: a graph is a set of vectors :math:`\mathbf{Z}`. With the optimal
    transport plan :math:`\boldsymbol{\pi}` from a reference :math:`\mathbf{R}` of
    :math:`M` points, its embedding is

    .. math::
        \mathbf{v} = \frac{1}{\sqrt{M}} (M \boldsymbol{\pi} \mathbf{Z} - \mathbf{R})

    and a random forest or gradient boosting classifies :math:`\mathbf{v}`. Categories
    become one-hot columns; the mean of a node's edge features is part of its features,
    whereas the authors add edge features to the messages.

    Published setting (ogbg-molhiv, random forest): the reference by k-means of the
    training nodes with the average number of nodes, 20 principal components of
    standardised features, 25 to 200 trees with balanced class weights, chosen on the
    validation part. Atoms have random embeddings there, and a virtual node is connected
    to all of them.

    Args:
        seed: Seed of the reference and the classifier.
        steps: Number of diffusion steps.
        components: Number of principal components of :math:`\mathbf{Z}`.
        classifier: ``"random forest"`` or ``"gradient boosting"``.
        trees: Number of trees of the random forest.
    """

    def __init__(
        self,
        seed: int = 0,
        steps: int = 4,
        components: int = 20,
        classifier: str = "random forest",
        trees: int = 500,
    ) -> None:
        super().__init__(seed)
        need("ot")
        if classifier not in CLASSIFIERS:
            raise ConfigError(
                f"there is no classifier {classifier!r} (known: "
                f"{', '.join(CLASSIFIERS)})"
            )
        self.steps = steps
        self.components = components
        self.classifier = classifier
        self.trees = trees

    def fit(self, dataset: GraphDataset, indices: np.ndarray) -> Self:
        from sklearn.cluster import MiniBatchKMeans
        from sklearn.decomposition import PCA

        labels = classes_of(dataset, indices)
        sizes, nodes = self._diffused(dataset, indices)
        few = min(self.components, *nodes.shape)
        self._pca = PCA(few, random_state=self.seed).fit(nodes)
        nodes = self._pca.transform(nodes)
        points = min(max(1, round(float(sizes.mean()))), len(nodes))
        means = MiniBatchKMeans(points, random_state=self.seed, n_init=3).fit(nodes)
        self.reference = means.cluster_centers_.astype(np.float64)
        embedded = self._transport(sizes, nodes)
        self._fitted = self._make_classifier().fit(embedded, labels)
        return self

    def predict(self, dataset: GraphDataset, indices: np.ndarray) -> np.ndarray:
        found = self._fitted.predict_proba(self.embed(dataset, indices))
        return probabilities(dataset, self._fitted.classes_, found)

    def embed(self, dataset: GraphDataset, indices: np.ndarray) -> np.ndarray:
        """Return :math:`\\mathbf{v}` of each graph."""
        sizes, nodes = self._diffused(dataset, indices)
        return self._transport(sizes, self._pca.transform(nodes))

    def _make_classifier(self):
        from sklearn.ensemble import (
            HistGradientBoostingClassifier,
            RandomForestClassifier,
        )

        if self.classifier == "random forest":
            return RandomForestClassifier(
                self.trees, min_samples_leaf=2, random_state=self.seed
            )
        return HistGradientBoostingClassifier(random_state=self.seed)

    def _diffused(
        self, dataset: GraphDataset, indices: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The number of nodes of each graph, and the features of all nodes."""
        sizes, rows = [], []
        for batch in dataset.loader(np.asarray(indices), batch_size=1024):
            sizes.append(np.diff(batch.ptr.numpy()))
            rows.append(self._diffuse(dataset, batch))
        return np.concatenate(sizes), np.concatenate(rows)

    def _diffuse(self, dataset: GraphDataset, batch) -> np.ndarray:
        src, dst = batch.edge_index.numpy()
        nodes = batch.num_nodes
        ones = np.ones(len(src), dtype=np.float32)
        adjacent = coo_matrix((ones, (dst, src)), shape=(nodes, nodes)).tocsr()
        degree = np.asarray(adjacent.sum(axis=1)).ravel()
        x = _columns(batch.x.numpy(), dataset.node_features)
        if dataset.edge_features.dim:
            columns = _columns(batch.edge_attr.numpy(), dataset.edge_features)
            incident = coo_matrix((ones, (dst, np.arange(len(src)))))
            incident.resize(nodes, len(src))
            around = incident.tocsr() @ columns / np.maximum(degree, 1)[:, None]
            x = np.concatenate([x, around], axis=1)
        looped = adjacent + eye_array(nodes, dtype=np.float32)
        scale = 1 / np.sqrt(degree + 1)
        steps = [x]
        for _ in range(self.steps):
            steps.append(scale[:, None] * (looped @ (scale[:, None] * steps[-1])))
        return np.concatenate(steps, axis=1).astype(np.float32)

    def _transport(self, sizes: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        import ot

        points = len(self.reference)
        weights = np.full(points, 1 / points)
        embedded = np.empty((len(sizes), self.reference.size), dtype=np.float32)
        for row, z in enumerate(np.split(nodes, np.cumsum(sizes)[:-1])):
            z = z.astype(np.float64)
            plan = ot.emd(
                weights, np.full(len(z), 1 / len(z)), _cost(self.reference, z)
            )
            moved = (points * plan @ z - self.reference) / np.sqrt(points)
            embedded[row] = moved.ravel()
        return embedded


def _cost(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ((a[:, None] - b[None]) ** 2).sum(axis=2)


def _columns(values: np.ndarray, features) -> np.ndarray:
    """Numbers unchanged, categories as one-hot columns."""
    if features.kind != "categorical":
        return values.astype(np.float32)
    values = values.reshape(len(values), -1)
    hot = [
        np.eye(size, dtype=np.float32)[values[:, i]]
        for i, size in enumerate(features.cardinalities)
    ]
    return np.concatenate(hot, axis=1)
