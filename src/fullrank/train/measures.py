"""How good predictions are, in the units of the data."""

from collections.abc import Callable

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.functional import r2_score
from torchmetrics.functional.classification import (
    binary_auroc,
    binary_average_precision,
    multiclass_auroc,
    multiclass_average_precision,
)
from torchmetrics.utilities.data import dim_zero_cat

from fullrank.train.blueprint import Blueprint

LOWER_IS_BETTER = ("mae", "rmse", "std_mae")

Evaluate = Callable[[Tensor, Tensor], dict[str, float]]


class Epoch(Metric):
    """Loss, predictions and labels of an epoch, from all processes."""

    full_state_update = False

    def __init__(self) -> None:
        super().__init__()
        for name in ("total", "count"):
            zero = torch.zeros((), dtype=torch.float64)
            self.add_state(name, zero, dist_reduce_fx="sum")
        for name in ("predictions", "labels"):
            self.add_state(name, [], dist_reduce_fx="cat")
        self.total: Tensor
        self.count: Tensor
        self.predictions: list[Tensor]
        self.labels: list[Tensor]

    def update(
        self, total: Tensor, count: Tensor, predictions: Tensor, labels: Tensor
    ) -> None:
        self.total += total
        self.count += count
        self.predictions.append(predictions)
        self.labels.append(labels)

    def compute(self) -> tuple[float, Tensor, Tensor]:
        """The mean loss, the predictions and the labels."""
        loss = float(self.total / self.count)
        return loss, dim_zero_cat(self.predictions), dim_zero_cat(self.labels)


def main_metric(plan: Blueprint) -> str:
    """What chooses the best epoch; with several regression targets, errors in units of
    each target's standard deviation."""
    several = plan.task == "regression" and len(plan.targets) > 1
    return "std_mae" if several else plan.metric


def measure(
    plan: Blueprint,
    predictions: Tensor,
    labels: Tensor,
    evaluate: Evaluate | None = None,
) -> dict[str, float]:
    """All measures of a task.

    Args:
        plan: Of the model.
        predictions: Values in original units ``[B, T]``, probabilities ``[B, T]`` or
            ``[B, C]``, or token ids ``[B, tokens]``.
        labels: As the data set has them.
        evaluate: The data set's own evaluator, whose word counts.
    """
    measured = _MEASURES[plan.task](plan, predictions, labels)
    if evaluate is not None:
        measured |= {k: float(v) for k, v in evaluate(labels, predictions).items()}
    return measured


def _regression(plan: Blueprint, predictions: Tensor, labels: Tensor) -> dict:
    columns = [
        _errors(predictions[:, t].double(), labels[:, t].double())
        for t in range(len(plan.targets))
    ]
    measured = {name: _mean([c[name] for c in columns]) for name in columns[0]}
    if len(columns) > 1:
        scaled = [c["mae"] / s for c, s in zip(columns, plan.std, strict=True)]
        measured["std_mae"] = _mean(scaled)
        for target, column in zip(plan.targets, columns, strict=True):
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


def _binary(plan: Blueprint, predictions: Tensor, labels: Tensor) -> dict:
    known = ~labels.isnan()
    right = (predictions > 0.5) == (labels > 0.5)
    areas, precisions = [], []
    for t in range(len(plan.targets)):
        scores, truth = predictions[known[:, t], t], labels[known[:, t], t].long()
        # A target with labels of one kind only has neither area.
        if 0 < truth.sum() < len(truth):
            areas.append(float(binary_auroc(scores.double(), truth)))
            precisions.append(float(binary_average_precision(scores.double(), truth)))
    return {
        "accuracy": float(right[known].double().mean()),
        "rocauc": _mean(areas),
        "ap": _mean(precisions),
    }


def _multiclass(plan: Blueprint, predictions: Tensor, labels: Tensor) -> dict:
    classes = plan.num_classes or predictions.size(1)
    right = predictions.argmax(dim=1) == labels
    # Averages over the classes that occur, each against the others.
    present = torch.bincount(labels, minlength=classes) > 0
    given = (predictions.double(), labels, classes)
    areas = multiclass_auroc(*given, average=None)[present]
    precisions = multiclass_average_precision(*given, average=None)[present]
    return {
        "accuracy": float(right.double().mean()),
        "rocauc": float(areas.mean()) if present.sum() > 1 else float("nan"),
        "ap": float(precisions.mean()),
    }


def _tokens(plan: Blueprint, predictions: Tensor, labels: Tensor) -> dict:
    """Sub-token F1 as OGB defines it: sets of words up to the first end sign.

    An unknown word of the label is one that no prediction can meet.
    """
    end = (plan.num_classes or 0) - 1
    unknown = end - 1
    scores = []
    for guess, truth in zip(predictions.tolist(), labels.tolist(), strict=True):
        guessed, true = _words(guess, end), _words(truth, end)
        hits = len((guessed & true) - {unknown})
        scores.append(2 * hits / max(1, len(guessed) + len(true)) if hits else 0.0)
    return {"f1": _mean(scores)}


def _words(ids: list[int], end: int) -> set[int]:
    return set(ids[: ids.index(end)] if end in ids else ids)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


_MEASURES = {
    "regression": _regression,
    "binary": _binary,
    "multiclass": _multiclass,
    "tokens": _tokens,
}
