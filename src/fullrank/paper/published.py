"""The numbers in the paper's tables."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Literal, cast

Better = Literal["min", "max"]


@dataclass(frozen=True)
class Number:
    """A published result.

    Attributes:
        metric: ``mae``, or ``accuracy_pct``, ``rocauc_pct``, ``ap_pct``, ``f1_pct``.
        better: Whether low or high values are.
        mean: As printed.
        std: As printed, if it is.
    """

    metric: str
    better: Better
    mean: float
    std: float | None


def metric_of(column: str) -> tuple[str, Better]:
    """The metric of a data set or target, and whether ``min`` or ``max`` is better."""
    for row in _rows():
        if row["dataset"] == column:
            return row["metric"], cast(Better, row["better"])
    return "accuracy_pct", "max"  # the TU sets that the paper does not use


@cache
def published(table: str) -> Mapping[tuple[str, str], Number]:
    """The numbers of a table by model and data set, in the paper's order."""
    return MappingProxyType(
        {
            (row["model"], row["dataset"]): Number(
                row["metric"],
                cast(Better, row["better"]),
                float(row["mean"]),
                float(row["std"]) if row["std"] else None,
            )
            for row in _rows()
            if row["table"] == table
        }
    )


@cache
def _rows() -> list[dict[str, str]]:
    file = resources.files("fullrank.paper") / "published_results.csv"
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
