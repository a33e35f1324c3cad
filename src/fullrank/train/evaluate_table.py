"""Evaluate a model on any labelled table, with confidence intervals."""

from pathlib import Path

import numpy as np
import torch

from fullrank.data import CsvSource, GraphDataset, MoleculeFeaturizer
from fullrank.errors import ConfigError, DataError
from fullrank.train.bootstrap import RESAMPLES, Estimate, bootstrap
from fullrank.train.metrics import measure
from fullrank.train.predict import Predictor


def evaluate_table(
    predictor: Predictor,
    table: Path,
    smiles: str | None = None,
    root: Path | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Estimate]:
    """All metrics of a model on a labelled table.

    The interval contains 95% of the scores on bootstrap samples of the rows.

    Args:
        predictor: The model, or several as an ensemble.
        table: A table that contains the targets of the model.
        smiles: Column of the SMILES; by default named as in training.
        root: Folder of prepared sets.
        resamples: Number of bootstrap samples.
        seed: Seed of the samples.
    """
    dataset = load_table(predictor, table, smiles, root)
    count = len(predictor.columns)
    predictions = torch.from_numpy(predictor.values(dataset.graphs)[:, :count])
    labels = torch.tensor(_labels(predictor, dataset))
    graphs = torch.arange(len(dataset))

    def measured(rows: torch.Tensor) -> dict[str, float]:
        given = (predictions[rows], labels[rows], graphs[rows])
        return measure(predictor.spec, *given, dataset)

    return bootstrap(measured, len(dataset), resamples, seed)


def load_table(
    predictor: Predictor, table: Path, smiles: str | None, root: Path | None
) -> GraphDataset:
    """The table as graphs with the labels that the model predicts."""
    spec, featurizer = predictor.spec, predictor.molecules
    if not isinstance(featurizer, MoleculeFeaturizer):
        raise ConfigError(
            f"a model of {spec.dataset} reads geometries, which a table does not have"
        )
    source = CsvSource.checked(
        str(table),
        name=str(table),
        targets=[target.name for target in spec.targets],
        task=spec.task,
        labels=spec.labels,
        smiles=smiles or spec.smiles or "smiles",
        fragments=featurizer.fragments,
        root=root,
    )
    return source.load(descriptors=featurizer.descriptors)


def _labels(predictor: Predictor, dataset: GraphDataset) -> np.ndarray:
    """The labels, with classes numbered as in the model, not as in the table."""
    if predictor.spec.task != "multiclass":
        return np.array(dataset.labels)
    known = {name: code for code, name in enumerate(predictor.spec.classes)}
    for name in dataset.classes:
        if name not in known:
            raise DataError(
                f"{dataset.source} has the class {name!r}; those of the model are "
                f"{', '.join(known)}"
            )
    codes = np.array([known[name] for name in dataset.classes])
    return codes[dataset.labels]
