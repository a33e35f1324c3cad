r"""Uncertainty of a model, calibrated on graphs used neither for training nor for
selection.

Regression: split-conformal intervals. With the errors :math:`e_1 \dots e_n` of the
calibration graphs, the interval :math:`\hat{y} \pm e_{(k)}` with the :math:`k`-th
smallest error, :math:`k = \lceil (n + 1) c \rceil`, contains the true value of a new
graph with a probability of at least :math:`c`, for any model, if the new graph is drawn
from the distribution of the calibration graphs.

Classification: the logits are scaled and shifted (Platt), or only scaled (temperature),
to maximise the likelihood of the calibration labels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_softmax, xlogy
from torch import Tensor

from fullrank.errors import ConfigError

if TYPE_CHECKING:
    from fullrank.train.model import Model

#: Maximum number of calibration graphs stored with a model.
MOST_GRAPHS = 10_000
#: Coverage in percent of the intervals that are evaluated and plotted.
COVERAGE = 90
_SMALLEST = 1e-7  # probabilities are clipped to at least this


def conformal_quantile(errors: np.ndarray, coverage: float) -> float:
    """The error that new graphs exceed with a probability of at most 1 - ``coverage``.

    Infinite if there are too few errors.

    Args:
        errors: Errors of the calibration graphs; NaN is ignored.
        coverage: Between 0 and 1.
    """
    known = np.sort(errors[~np.isnan(errors)])
    # Rounded, because ceil(9.000000000000002) would be 10.
    place = math.ceil(round((len(known) + 1) * coverage, 9))
    return float(known[place - 1]) if place <= len(known) else math.inf


@dataclass(frozen=True)
class Calibration:
    """Predictions for calibration graphs and their labels.

    Attributes:
        task: The task of the model.
        targets: Names of the targets.
        predictions: Values ``[n, T]``, or probabilities ``[n, T]`` or ``[n, C]``.
        labels: ``[n, T]`` with NaN for missing ones, or classes ``[n]``.
    """

    task: str
    targets: Sequence[str]
    predictions: np.ndarray
    labels: np.ndarray

    def half_widths(self, coverage: float) -> np.ndarray:
        """Half the width of the interval of each target: ``[T]``.

        Args:
            coverage: In percent, 1 to 99.
        """
        if self.task != "regression":
            raise ConfigError(
                f"intervals are for regression; a {self.task} model predicts "
                f"probabilities, which are calibrated"
            )
        check_coverage(coverage)
        errors = np.abs(self.predictions - self.labels)
        widths = [conformal_quantile(column, coverage / 100) for column in errors.T]
        for target, column, width in zip(self.targets, errors.T, widths, strict=True):
            if math.isinf(width):
                count = int((~np.isnan(column)).sum())
                raise ConfigError(
                    f"{count} calibration values of {target!r} are too few for a "
                    f"{coverage:g}% interval: it needs at least "
                    f"{math.ceil(round(coverage / (100 - coverage), 9))}"
                )
        return np.array(widths)

    def calibrated(self, probabilities: Tensor) -> Tensor:
        """Calibrated probabilities: ``[G, T]`` or ``[G, C]``."""
        factor, summand = (values.to(probabilities) for values in self.parameters)
        if self.task == "multiclass":
            return (_log(probabilities) * factor).softmax(dim=1)
        return (_logit(probabilities) * factor + summand).sigmoid()

    @cached_property
    def parameters(self) -> tuple[Tensor, Tensor]:
        """Factors and offsets of the logits: ``[T]`` each."""
        if self.task == "multiclass":
            fitted = [(_fit_temperature(self.predictions, self.labels), 0.0)]
        else:
            columns = zip(self.predictions.T, self.labels.T, strict=True)
            fitted = [_fit_platt(*column) for column in columns]
        factor, summand = torch.tensor(fitted, dtype=torch.float64).T
        return factor, summand

    def worth(self, predictions: Tensor, labels: np.ndarray) -> dict[str, float]:
        """Evaluate the calibration on other graphs: the coverage of intervals, or the
        log loss before and after."""
        if self.task == "regression":
            try:
                widths = self.half_widths(COVERAGE)
            except ConfigError:  # too few graphs for this coverage
                return {}
            inside = np.abs(predictions.numpy() - labels) <= widths
            return {f"coverage_{COVERAGE}": float(inside[~np.isnan(labels)].mean())}
        after = self.calibrated(predictions)
        return {
            "log_loss": _log_loss(predictions.numpy(), labels),
            "calibrated_log_loss": _log_loss(after.numpy(), labels),
        }


def calibration_of(models: "Sequence[Model]") -> Calibration | None:
    """The calibration of models that predict together; None if they have no calibration
    graphs, or different ones."""
    kept = [model.kept for model in models]
    if any("calibration_graphs" not in each for each in kept):
        return None
    for name in ("calibration_graphs", "calibration_labels"):
        if not all(_equal(each[name], kept[0][name]) for each in kept):
            return None
    outputs = [
        model.predictions(model.kept["calibration_outputs"].to(model.device))
        for model in models
    ]
    return Calibration(
        models[0].spec.task,
        [target.name for target in models[0].spec.targets],
        torch.stack(outputs).double().mean(dim=0).cpu().numpy(),
        kept[0]["calibration_labels"].numpy(),
    )


def check_coverage(coverage: float) -> None:
    """Refuse a coverage outside 1 to 99 percent."""
    if not 1 <= coverage <= 99:
        raise ConfigError(
            f"the coverage of an interval must be 1 to 99 percent, got {coverage:g}"
        )


def _fit_platt(probabilities: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    r"""The :math:`a, b` of :math:`\sigma(a \, \mathrm{logit}(p) + b)`, Platt (1999)."""
    known = ~np.isnan(labels)
    x = _logit(torch.from_numpy(probabilities[known])).numpy()
    positive = labels[known] == 1
    ones, zeros = positive.sum(), (~positive).sum()
    if not ones or not zeros:
        return 1.0, 0.0
    # Platt's smoothed targets keep the fit finite if the classes are separable.
    target = np.where(positive, (ones + 1) / (ones + 2), 1 / (zeros + 2))

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        z = parameters[0] * x + parameters[1]
        slope = expit(z) - target
        value = np.logaddexp(0, z) - target * z
        return value.mean(), np.array([(slope * x).mean(), slope.mean()])

    a, b = minimize(loss, np.array([1.0, 0.0]), jac=True, method="BFGS").x
    return float(a), float(b)


def _fit_temperature(probabilities: np.ndarray, labels: np.ndarray) -> float:
    r"""The :math:`1 / T` of :math:`\mathrm{softmax}(\log p / T)`, Guo et al. (2017)."""
    x = _log(torch.from_numpy(probabilities)).numpy()
    rows = np.arange(len(labels))

    def loss(log_factor: float) -> float:
        return -log_softmax(x * np.exp(log_factor), axis=1)[rows, labels].mean()

    return float(np.exp(minimize_scalar(loss, bounds=(-5, 5), method="bounded").x))


def _log_loss(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The mean negative log-likelihood of the known labels."""
    small = 1e-12
    p = probabilities.clip(small, 1 - small)
    if labels.ndim == 1:
        return -float(np.log(p[np.arange(len(labels)), labels]).mean())
    each = xlogy(labels, p) + xlogy(1 - labels, 1 - p)
    return -float(np.nanmean(each))


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(
        one.nan_to_num(nan=torch.inf), other.nan_to_num(nan=torch.inf)
    )


def _logit(probabilities: Tensor) -> Tensor:
    return probabilities.clamp(_SMALLEST, 1 - _SMALLEST).logit()


def _log(probabilities: Tensor) -> Tensor:
    return probabilities.clamp(min=_SMALLEST).log()
