"""Intervals of measures by resampling graphs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

RESAMPLES = 1000


@dataclass(frozen=True)
class Estimate:
    """A measure with the ends of its 95% bootstrap interval; NaN if not defined."""

    value: float
    low: float
    high: float


def bootstrap(
    measured: Callable[[Tensor], dict[str, float]],
    count: int,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Estimate]:
    """All measures with their intervals.

    An interval holds 95% of the values on samples of as many rows, drawn with
    replacement.

    Args:
        measured: The measures of some rows, by their indices.
        count: How many rows there are.
        resamples: How many samples.
        seed: Of the samples.
    """
    rng = np.random.default_rng(seed)
    samples = [
        measured(torch.from_numpy(rng.integers(0, count, count)))
        for _ in range(resamples)
    ]
    return {
        name: Estimate(value, *_interval([sample[name] for sample in samples]))
        for name, value in measured(torch.arange(count)).items()
    }


def _interval(values: list[float]) -> tuple[float, float]:
    known = [value for value in values if not np.isnan(value)]
    if not known:
        return float("nan"), float("nan")
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)
