"""Metrics of predictions, in the units of the data."""

from collections.abc import Sequence
from types import SimpleNamespace

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.functional import r2_score
from torchmetrics.functional.classification import (
    binary_auroc,
    binary_average_precision,
)
from torchmetrics.utilities.data import dim_zero_cat

from fullrank.data import GraphDataset
from fullrank.data.sources.tokens import decode_names
from fullrank.train.model import ModelSpec

LOWER_IS_BETTER = ("mae", "rmse", "std_mae")


class EpochOutputs(Metric):
    """Loss, predictions and labels of an epoch, from all processes."""

    full_state_update = False

    def __init__(self) -> None:
        super().__init__()
        for name in ("total", "count"):
            zero = torch.zeros((), dtype=torch.float64)
            self.add_state(name, zero, dist_reduce_fx="sum")
        for name in ("predictions", "labels", "graphs"):
            self.add_state(name, [], dist_reduce_fx="cat")
        self.total: Tensor
        self.count: Tensor
        self.predictions: list[Tensor]
        self.labels: list[Tensor]
        self.graphs: list[Tensor]

    def update(
        self,
        total: Tensor,
        count: Tensor,
        predictions: Tensor,
        labels: Tensor,
        graphs: Tensor,
    ) -> None:
        self.total += total
        self.count += count
        self.predictions.append(predictions)
        self.labels.append(labels)
        self.graphs.append(graphs)

    def compute(self) -> SimpleNamespace:
        """The mean loss, the predictions, the labels and the indices of the graphs."""
        # Not a tuple: torchmetrics would squeeze its one-element tensors.
        return SimpleNamespace(
            loss=float(self.total / self.count),
            predictions=dim_zero_cat(self.predictions).cpu(),
            labels=dim_zero_cat(self.labels).cpu(),
            graphs=dim_zero_cat(self.graphs).cpu(),
        )

    def measure(self, spec: ModelSpec, dataset: GraphDataset) -> dict[str, float]:
        """The mean loss and all metrics of the task."""
        found = self.compute()
        given = (found.predictions, found.labels, found.graphs)
        return {"loss": found.loss} | measure(spec, *given, dataset)


def measure(
    spec: ModelSpec,
    predictions: Tensor,
    labels: Tensor,
    graphs: Tensor,
    dataset: GraphDataset,
) -> dict[str, float]:
    """All metrics of a task; data sets with their own evaluator, as in OGB, are scored
    with that.

    Args:
        spec: Specification of the model.
        predictions: Values in original units ``[B, T]``, probabilities ``[B, T]`` or
            ``[B, C]``, or token ids ``[B, tokens]``.
        labels: The labels in the data set.
        graphs: Indices of the graphs in the data set.
        dataset: The data set.
    """
    evaluate = getattr(dataset, "evaluate", None)
    if spec.task == "tokens":
        names = dataset.texts("name")
        true = [names[graph].split(" ") for graph in graphs.tolist()]
        guessed = decode_names(predictions.numpy(), dataset.vocabulary)
        return evaluate(true, guessed) if evaluate else subtoken_scores(true, guessed)
    predictions = predictions.double()
    measured = _MEASURES[spec.task](spec, predictions, labels)
    if evaluate is not None:
        chosen = predictions.argmax(1) if spec.task == "multiclass" else predictions
        measured |= evaluate(labels.numpy(), chosen.numpy())
    return measured


def subtoken_scores(
    true: Sequence[Sequence[str]], guessed: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Precision, recall and F1 of sets of words, averaged over names."""
    scores = []
    for truth, guess in zip(true, guessed, strict=True):
        hits = len(set(truth) & set(guess))
        precision, recall = hits / max(1, len(set(guess))), hits / len(set(truth))
        f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
        scores.append((precision, recall, f1))
    means = map(_mean, map(list, zip(*scores, strict=True)))
    return dict(zip(("precision", "recall", "f1"), means, strict=True))


def _regression(spec: ModelSpec, predictions: Tensor, labels: Tensor) -> dict:
    columns = [
        _errors(predictions[:, t], labels[:, t].double())
        for t in range(len(spec.targets))
    ]
    measured = {name: _mean([c[name] for c in columns]) for name in columns[0]}
    if len(columns) > 1:
        scaled = [c["mae"] / s for c, s in zip(columns, spec.std, strict=True)]
        measured["std_mae"] = _mean(scaled)
        for target, column in zip(spec.targets, columns, strict=True):
            measured |= {f"{name}/{target.name}": v for name, v in column.items()}
    return measured


def _errors(prediction: Tensor, label: Tensor) -> dict[str, float]:
    known = ~label.isnan()
    prediction, label = prediction[known], label[known]
    error = prediction - label
    enough = len(label) > 1
    return {
        "mae": float(error.abs().mean()),
        "rmse": float(error.square().mean().sqrt()),
        "r2": float(r2_score(prediction, label)) if enough else float("nan"),
    }


def _binary(spec: ModelSpec, predictions: Tensor, labels: Tensor) -> dict:
    known = ~labels.isnan()
    right = (predictions > 0.5) == (labels > 0.5)
    areas, precisions = [], []
    for t in range(len(spec.targets)):
        scores, truth = predictions[known[:, t], t], labels[known[:, t], t].long()
        # Both areas are undefined for a target with only one class.
        if 0 < truth.sum() < len(truth):
            areas.append(float(binary_auroc(scores, truth)))
            precisions.append(float(binary_average_precision(scores, truth)))
    return {
        "accuracy": float(right[known].double().mean()),
        "rocauc": _mean(areas),
        "ap": _mean(precisions),
    }


def _multiclass(spec: ModelSpec, predictions: Tensor, labels: Tensor) -> dict:
    right = predictions.argmax(dim=1) == labels
    measured = {"accuracy": float(right.double().mean())}
    # One-vs-rest averages over the classes that occur, undefined if there is only one.
    present = labels.unique().tolist()
    for name, area in (("rocauc", binary_auroc), ("ap", binary_average_precision)):
        measured[name] = float("nan")
        if len(present) > 1:
            areas = [area(predictions[:, c], (labels == c).long()) for c in present]
            measured[name] = float(torch.stack(areas).mean())
    return measured


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


_MEASURES = {
    "regression": _regression,
    "binary": _binary,
    "multiclass": _multiclass,
}
