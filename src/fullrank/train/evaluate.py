"""Evaluate trained models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fullrank.data import GraphDataset
from fullrank.data.splits import PARTS
from fullrank.errors import ConfigError, RunError
from fullrank.train.calibration import Calibration, calibration_of
from fullrank.train.metrics import measure
from fullrank.train.model import Model, ModelSpec
from fullrank.train.run_folder import Measures, RunFolder, measures
from fullrank.train.task import measure_model


def load_model(run: RunFolder) -> Model:
    """Load the model of a finished run, with the weights of its best epoch."""
    run.check_finished()
    return Model.load(run.model_file)


def load_data(run: RunFolder, changes: Mapping[str, Any] | None = None) -> GraphDataset:
    """Load the data set of a run; refuse data that changed since training.

    Args:
        changes: Options for data at another location, such as ``{"root": …}``.
    """
    identity = run.identity
    dataset = run.config.changed(data=changes or {}).load_data()
    if dataset.fingerprint != identity.data:
        if len(dataset) != identity.graphs:
            what = f"it had {identity.graphs:,} graphs and has {len(dataset):,} now"
        else:
            what = f"the content or order of its {len(dataset):,} graphs is different"
        raise RunError(
            f"{identity.dataset} changed since the run {run.path} was trained: {what}. "
            "Its split would refer to different graphs; restore the data, or train "
            "again"
        )
    return dataset


@dataclass(frozen=True)
class Predicted:
    """The predictions of an ensemble for the graphs of a part.

    Attributes:
        values: Values in original units or probabilities, ``[G, C]``, or token ids.
        labels: The labels in the data set.
        graphs: Indices of the graphs in the data set.
        calibration: The calibration of the ensemble, if any.
    """

    spec: ModelSpec
    values: Tensor
    labels: Tensor
    graphs: Tensor
    calibration: Calibration | None


@torch.no_grad()
def predict_part(
    runs: Sequence[RunFolder], dataset: GraphDataset, part: str = "test"
) -> Predicted:
    """The mean of the predictions of several runs with the same split."""
    models = [load_model(run) for run in runs]
    indices = getattr(runs[0].split, part)
    if not len(indices):
        raise ConfigError(f"the split of {runs[0].path} has no {part} part")
    values, labels, graphs = [], [], []
    for batch in dataset.loader(indices, batch_size=256):
        each = [m.predictions(m(m.ready(batch.clone()))).cpu() for m in models]
        mean = torch.stack(each).double().mean(dim=0) if len(each) > 1 else each[0]
        values.append(mean)
        labels.append(batch.y)
        graphs.append(batch.graph_id)
    return Predicted(
        models[0].spec,
        torch.cat(values),
        torch.cat(labels),
        torch.cat(graphs),
        calibration_of(models),
    )


def evaluate_ensemble(
    runs: Sequence[RunFolder], dataset: GraphDataset, part: str = "test"
) -> Measures:
    """Evaluate the mean prediction of several runs with the same split."""
    if not len(getattr(runs[0].split, part)):
        return {}
    found = predict_part(runs, dataset, part)
    given = (found.values, found.labels, found.graphs)
    measured = measure(found.spec, *given, dataset)
    if found.calibration is not None and part == "test":
        labels = dataset.labels[found.graphs.numpy()]
        measured |= found.calibration.worth(found.values.double(), labels)
    return measures(measured)


def evaluate_run(
    run: RunFolder, part: str = "test", changes: Mapping[str, Any] | None = None
) -> Measures:
    """Evaluate a trained model on a part of its own split.

    Args:
        part: ``train``, ``valid`` or ``test``.
        changes: As in `load_data`.
    """
    if part not in PARTS:
        raise ConfigError(f"part must be one of {', '.join(PARTS)}, got {part!r}")
    model, config = load_model(run), run.config
    dataset = load_data(run, changes)
    indices = getattr(run.split.check(len(dataset)), part)
    if not len(indices):
        raise ConfigError(f"the split of {run.path} has no {part} part")
    loader = dataset.loader(indices, batch_size=config.training.batch_size)
    return measures(measure_model(model, config.training.loss, loader, dataset))
