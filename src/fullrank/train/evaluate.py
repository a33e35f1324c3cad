"""Measure a trained model again."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from fullrank.data import GraphDataset
from fullrank.data.splits import PARTS
from fullrank.errors import ConfigError, RunError
from fullrank.train.metrics import measure
from fullrank.train.model import Model
from fullrank.train.run_folder import Measures, RunFolder, measures
from fullrank.train.task import measure_model


def load_model(run: RunFolder) -> Model:
    """The model of a finished run, with the weights of its best epoch."""
    if run.result is None:
        raise RunError(
            f"the run {run.path} is not finished: train it to its end with the same "
            f"command, then it has a model"
        )
    return Model.load(run.model_file)


def load_data(run: RunFolder, changes: Mapping[str, Any] | None = None) -> GraphDataset:
    """The data set of a run, which must be what it was trained on.

    Args:
        changes: Where the data are now, such as ``{"root": …}``.
    """
    identity = run.identity
    dataset = run.config.changed(data=changes or {}).load_data()
    if dataset.fingerprint != identity.data:
        if len(dataset) != identity.graphs:
            what = f"it had {identity.graphs:,} graphs and has {len(dataset):,} now"
        else:
            what = (
                f"it still has {len(dataset):,} graphs, but other ones, with other "
                f"values, or in another order"
            )
        raise RunError(
            f"{identity.dataset} changed since the run {run.path} was trained: {what}. "
            f"The parts of its split mean other graphs now; restore the data, or train "
            f"again"
        )
    return dataset


@torch.no_grad()
def evaluate_ensemble(
    runs: Sequence[RunFolder], dataset: GraphDataset, part: str = "test"
) -> Measures:
    """Measure the mean of the predictions of several runs with the same split."""
    models = [load_model(run) for run in runs]
    size = runs[0].config.training.batch_size
    predictions, labels, graphs = [], [], []
    for batch in dataset.loader(getattr(runs[0].split, part), batch_size=size):
        each = [m.predictions(m(m.ready(batch.clone()))).double() for m in models]
        predictions.append(torch.stack(each).mean(dim=0).cpu())
        labels.append(batch.y)
        graphs.append(batch.graph_id)
    if not predictions:
        return {}
    outputs, truth, which = map(torch.cat, (predictions, labels, graphs))
    return measures(measure(models[0].spec, outputs, truth, which, dataset))


def evaluate_run(
    run: RunFolder, part: str = "test", changes: Mapping[str, Any] | None = None
) -> Measures:
    """Measure a trained model again on a part of its own split.

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
