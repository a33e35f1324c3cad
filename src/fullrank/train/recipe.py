"""The recipe for molecules: a whole configuration from a table and its targets.

Its settings were chosen on validation parts alone, see ``docs/results/molecules.md``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fullrank.data.recognize import Columns, Kind, recognize
from fullrank.errors import ConfigError
from fullrank.train.config import Config, parse
from fullrank.train.finetune import model_files, network_of
from fullrank.train.model import Model

#: What is used for every table of molecules that is trained without a configuration.
RECIPE: dict[str, Any] = {
    "model": {
        "conv": "expc",
        "s": 4,
        "init": "balanced",
        "layers": 3,
        "hidden": 64,
        "batch_norm": True,
        "norm_encoder": True,
        "dropout": 0.1,
        "readout": "mean",
        "head": "tu",
        "descriptors": ["rdkit"],
    },
    "optimizer": {"lr": 4e-3},
    "schedule": {"name": "onecycle"},
    "training": {"epochs": 40, "batch_size": 64},
    "ensemble": 2,
}
#: Classes: Morgan counts as well, which helped there and hurt small regressions.
DESCRIPTORS_OF_CLASSES = ["rdkit", "morgan"]
#: The part of the learning rate that is left for a model that is trained already.
FINE_TUNING = 0.2


@dataclass(frozen=True)
class Recipe:
    """A configuration for a table, and what was recognised in the table.

    Attributes:
        notes: What was recognised, a line each.
    """

    config: Config
    notes: tuple[str, ...]


def recipe(
    table: str | Path,
    targets: Sequence[str],
    *,
    smiles: str | None = None,
    task: Kind | None = None,
    split: Literal["random", "scaffold"] | None = None,
    split_column: str | None = None,
    balance: bool = False,
    start: str | Path | None = None,
    changes: dict[str, Any] | None = None,
) -> Recipe:
    """A configuration for a table of molecules.

    Args:
        table: In any of the formats of `fullrank.data.tables`.
        targets: The columns to predict.
        smiles: The column of SMILES; recognised by default.
        task: ``regression``, ``binary`` or ``multiclass``; recognised by default.
        split: ``random`` (the default) or ``scaffold``.
        split_column: The column that holds ``train``, ``valid`` and ``test``.
        balance: Give rare classes the weight of frequent ones.
        start: A trained model to start from.
        changes: Further sections of the configuration, such as ``{"seeds": [1]}``.
    """
    if split is not None and split_column is not None:
        raise ConfigError(
            f"a split is {split} or read from the column {split_column!r}, not both"
        )
    found = recognize(table, targets, smiles, task)
    values: dict[str, Any] = {
        **RECIPE,
        "data": {
            "name": str(table),
            "targets": list(targets),
            "task": found.task,
            "labels": found.labels,
            "smiles": found.smiles,
            "split_column": split_column,
        },
        "split": {"kind": split or ("given" if split_column else "random")},
    }
    if found.task != "regression":
        values["model"] = values["model"] | {"descriptors": DESCRIPTORS_OF_CLASSES}
    loss = "mse" if found.task == "regression" else None
    weights = "balanced" if balance else None
    values["training"] = values["training"] | {"loss": loss, "class_weights": weights}
    if start is not None:
        values |= _continued(values, Path(start))
    config = parse(values).changed(**changes or {})
    return Recipe(config, tuple(_notes(config, found)))


def _continued(values: dict[str, Any], start: Path) -> dict[str, Any]:
    files = model_files(start)
    lr = values["optimizer"]["lr"] * FINE_TUNING
    return {
        "model": network_of(Model.load(files[0]).spec),
        "optimizer": values["optimizer"] | {"lr": lr},
        "training": values["training"] | {"start": start},
        "ensemble": len(files) if len(files) > 1 else None,
    }


def _notes(config: Config, found: Columns):
    names = ", ".join(map(repr, config.data.targets or ()))
    what = {
        "regression": f"values of {names} (regression)",
        "binary": f"two labels of {names} (binary)",
        "multiclass": f"{found.classes} classes of {names} (multiclass)",
    }
    yield f"SMILES: column {found.smiles!r}"
    yield f"to predict: {what[found.task]}"
    if found.labels:
        yield f"labels: {found.labels[0]!r} is 0, {found.labels[1]!r} is 1"
    kind = config.split.kind
    if kind == "given":
        yield f"split: by column {getattr(config.data, 'split_column', None)!r}"
    else:
        yield f"split: {kind}, 80% to train, 10% to choose the epoch, 10% to test"
