"""Base classes of the estimators, and helpers for labels and graphs."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from fullrank.data import GraphDataset
from fullrank.errors import ConfigError
from fullrank.extras import need


class Estimator(ABC):
    """Fits training graphs and predicts probabilities for others.

    Args:
        seed: Seed of all random numbers.
    """

    def __init__(self, seed: int = 0) -> None:
        need("sklearn")
        self.seed = seed

    @abstractmethod
    def fit(self, dataset: GraphDataset, indices: np.ndarray) -> Self:
        """Fit to these graphs of a data set."""

    @abstractmethod
    def predict(self, dataset: GraphDataset, indices: np.ndarray) -> np.ndarray:
        """Return probabilities: of the positive label ``[B, 1]`` for a binary task, of
        each class ``[B, C]`` for a multiclass one."""


def classes_of(dataset: GraphDataset, indices: np.ndarray) -> np.ndarray:
    """Return the class of each of these graphs."""
    labels = np.asarray(dataset.labels)[indices]
    if dataset.task == "multiclass":
        return labels
    if dataset.task == "binary" and len(dataset.targets) == 1:
        labels = labels[:, 0]
        if np.isnan(labels).any():
            raise ConfigError(f"some training graphs of {dataset.name} have no label")
        return labels.astype(np.int64)
    raise ConfigError(
        f"this estimator supports multiclass or one binary target; {dataset.name} is "
        f"{dataset.task} with {len(dataset.targets)} targets"
    )


def probabilities(
    dataset: GraphDataset, known: np.ndarray, found: np.ndarray
) -> np.ndarray:
    """Map the columns of a classifier to the classes of a data set.

    Args:
        dataset: The data set.
        known: The classes of the classifier, ``[K]``.
        found: Their probabilities, ``[B, K]``.
    """
    classes = 2 if dataset.task == "binary" else dataset.num_classes or len(known)
    every = np.zeros((len(found), classes))
    every[:, known] = found
    return every[:, 1:] if dataset.task == "binary" else every


class KernelEstimator(Estimator):
    """A support vector machine on a kernel of graphs.

    A subclass defines the kernel as inner products of :meth:`embed`.
    """

    PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0)

    @abstractmethod
    def embed(self, dataset: GraphDataset, indices: np.ndarray) -> np.ndarray:
        """Return a row for each graph; the kernel is the inner product of two rows."""

    def start(self, dataset: GraphDataset, indices: np.ndarray) -> None:
        """Fit the parameters of the kernel itself, if any."""

    def kernel(
        self, dataset: GraphDataset, rows: np.ndarray, columns: np.ndarray
    ) -> np.ndarray:
        """Return the kernel between two lists of graphs, normalised to 1 for equal
        graphs: ``[R, C]``, positive semidefinite for equal lists."""
        embedded = [self.embed(dataset, graphs) for graphs in (rows, columns)]
        first, second = (x / _length(x) for x in embedded)
        return first @ second.T

    def fit(self, dataset: GraphDataset, indices: np.ndarray) -> Self:
        from sklearn.model_selection import GridSearchCV
        from sklearn.svm import SVC

        labels = classes_of(dataset, indices)
        self.start(dataset, indices)
        machine = SVC(kernel="precomputed", break_ties=True)
        search = GridSearchCV(machine, {"C": self.PENALTIES}, cv=3)
        search.fit(self.kernel(dataset, indices, indices), labels)
        self._fitted, self._indices = search.best_estimator_, indices
        return self

    def predict(self, dataset: GraphDataset, indices: np.ndarray) -> np.ndarray:
        from scipy.special import expit, softmax

        kernel = self.kernel(dataset, indices, self._indices)
        margin = self._fitted.decision_function(kernel)
        if margin.ndim == 1:
            found = np.stack([expit(-margin), expit(margin)], axis=1)
        else:
            found = softmax(margin, axis=1)
        return probabilities(dataset, self._fitted.classes_, found)


def _length(x: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return np.where(length > 0, length, 1.0)


def each_graph(
    dataset: GraphDataset, indices: np.ndarray, seed: int
) -> Iterator[tuple[int, np.ndarray, np.random.Generator]]:
    """Yield the number of nodes, the edges ``[2, E]`` and a generator for each graph.

    The generator depends only on the graph, not on the other indices.
    """
    for index in np.asarray(indices).tolist():
        graph: Any = dataset[index]
        yield (
            graph.num_nodes,
            graph.edge_index.numpy(),
            np.random.default_rng([seed, index]),
        )
