"""Estimators for scikit-learn: SMILES in, predictions out.

They train the recipe of `fullrank.train.recipe`, hold their models in memory, and can
be cloned, cross-validated, pickled and put at the end of a pipeline.
"""

import csv
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from fullrank.data.splits import random_split
from fullrank.errors import DataError
from fullrank.train import load_predictor, run_experiment
from fullrank.train.recipe import recipe
from fullrank.train.run_folder import RunFolder

__all__ = ["MoleculeClassifier", "MoleculeRegressor"]

VALIDATION = 0.1


class _MoleculeEstimator(BaseEstimator):
    """What both estimators do; their arguments."""

    def __init__(
        self,
        ensemble: int | None = None,
        epochs: int | None = None,
        settings: dict[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        self.ensemble = ensemble
        self.epochs = epochs
        self.settings = settings
        self.seed = seed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.target_tags.required = True
        tags.non_deterministic = False
        return tags

    def _fit(self, smiles: list[str], labels: np.ndarray, task: Any) -> None:
        """Train on ``labels`` ``[n, T]``; NaN and None are missing."""
        names = [f"y{i}" for i in range(labels.shape[1])]
        parts = np.full(len(smiles), "train", dtype=object)
        sizes = (1 - VALIDATION, VALIDATION, 0.0)
        parts[random_split(len(smiles), sizes, self.seed, smiles).valid] = "valid"
        changes = dict(self.settings or {})
        if self.epochs is not None:
            changes["training"] = {**changes.get("training", {}), "epochs": self.epochs}
        if self.ensemble is not None:
            changes["ensemble"] = self.ensemble
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "molecules.csv"
            with table.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.writer(stream)
                writer.writerow(["smiles", "part", *names])
                writer.writerows(
                    [text, part, *row]
                    for text, part, row in zip(smiles, parts, labels, strict=True)
                )
            where = {"root": folder, "rejected": Path(folder) / "rejected.csv"}
            changes |= {"data": where, "seeds": [self.seed], "runs": Path(folder)}
            config = recipe(
                table,
                names,
                smiles="smiles",
                task=task,
                split_column="part",
                changes=changes,
            ).config
            dataset = config.load_data(progress=False)
            for row in (dataset.notes or {})["rejected"]:
                raise DataError(f"molecule {row['row'] - 2}: {row['reason']}")
            runs = run_experiment(config, dataset).runs
            files = [RunFolder(config.runs / run).model_file for run in runs]
            self.models_ = [file.read_bytes() for file in files]

    def _predict(self, X: Iterable[str]) -> np.ndarray:
        check_is_fitted(self, "models_")
        with tempfile.TemporaryDirectory() as folder:
            files = [
                Path(folder) / f"{i}.safetensors" for i in range(len(self.models_))
            ]
            for file, content in zip(files, self.models_, strict=True):
                file.write_bytes(content)
            predictor = load_predictor(files)
            return predictor.predict(_smiles(X))[predictor.columns].to_numpy()


class MoleculeRegressor(RegressorMixin, _MoleculeEstimator):
    """Predicts numbers for molecules.

    ``fit(smiles, y)`` takes SMILES ``[n]`` or ``[n, 1]`` and values ``[n]`` or
    ``[n, T]``, where NaN is missing. What cannot be read is predicted as NaN.

    Args:
        ensemble: How many networks predict together; as in the recipe by default.
        epochs: How long to train; as in the recipe by default.
        settings: Further changes of the recipe by section, such as
            ``{"model": {"hidden": 128}}``.
        seed: Of weights, batches, and of the tenth of the molecules that chooses the
            epoch.
    """

    def fit(self, X: Iterable[str], y: Any) -> Self:
        """Train on molecules and their values."""
        smiles, values = _smiles(X), np.asarray(y, dtype=np.float64)
        check_consistent_length(smiles, values)
        self._single = values.ndim == 1
        self._fit(smiles, values.reshape(len(smiles), -1), "regression")
        return self

    def predict(self, X: Iterable[str]) -> np.ndarray:
        """The values of each molecule, ``[n]`` or ``[n, T]`` as in training."""
        found = self._predict(X)
        return found[:, 0] if self._single else found


class MoleculeClassifier(ClassifierMixin, _MoleculeEstimator):
    """Predicts classes of molecules.

    ``fit(smiles, y)`` takes SMILES ``[n]`` or ``[n, 1]`` and a class for each molecule.
    What cannot be read is refused.

    Args:
        ensemble: How many networks predict together; as in the recipe by default.
        epochs: How long to train; as in the recipe by default.
        settings: Further changes of the recipe by section, such as
            ``{"model": {"hidden": 128}}``.
        seed: Of weights, batches, and of the tenth of the molecules that chooses the
            epoch.
    """

    def fit(self, X: Iterable[str], y: Any) -> Self:
        """Train on molecules and their classes."""
        smiles, labels = _smiles(X), np.asarray(y)
        check_consistent_length(smiles, labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(f"every molecule is of class {self.classes_[0]!r}")
        binary = len(self.classes_) == 2
        # Names in the order of the classes, which the model sorts as text.
        names = codes if binary else np.array([f"class {c:09}" for c in codes])
        self._fit(smiles, names.reshape(-1, 1), "binary" if binary else "multiclass")
        return self

    def predict_proba(self, X: Iterable[str]) -> np.ndarray:
        """The probability of each class, ``[n, C]``."""
        smiles = _smiles(X)
        found = self._predict(smiles)
        unread = np.flatnonzero(np.isnan(found).any(axis=1))
        if len(unread):
            raise DataError(f"cannot read molecule {unread[0]}: {smiles[unread[0]]!r}")
        return np.hstack([1 - found, found]) if len(self.classes_) == 2 else found

    def predict(self, X: Iterable[str]) -> np.ndarray:
        """The most probable class of each molecule."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def _smiles(X: Iterable[str]) -> list[str]:
    values = np.asarray(X, dtype=object)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise DataError(f"SMILES must have the shape [n] or [n, 1], got {values.shape}")
    for value in values:
        if not isinstance(value, str):
            raise DataError(f"a molecule must be a SMILES text, got {value!r}")
    return values.tolist()
