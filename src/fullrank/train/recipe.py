"""The recipe for molecules: a complete configuration from a table and its targets.

Its settings were chosen only on validation parts, see ``docs/results/molecules.md``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fullrank.data.recognize import Columns, Kind, recognize
from fullrank.errors import ConfigError
from fullrank.train.config import Config, parse
from fullrank.train.finetune import network_of
from fullrank.train.model import Model
from fullrank.train.run_folder import model_files

#: The default configuration for tables of molecules.
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
#: Classification also uses Morgan counts; on small regression tables they hurt.
DESCRIPTORS_OF_CLASSES = ["rdkit", "morgan"]
#: Factor of the learning rate when fine-tuning a trained model.
FINE_TUNING = 0.2


@dataclass(frozen=True)
class Recipe:
    """A configuration for a table, and what was detected in the table.

    Attributes:
        notes: The detected properties, one line each.
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
        table: A table in any of the formats of `fullrank.data.tables`.
        targets: The columns to predict.
        smiles: The column with SMILES; detected by default.
        task: ``regression``, ``binary`` or ``multiclass``; detected by default.
        split: ``random`` (the default) or ``scaffold``.
        split_column: The column that contains ``train``, ``valid`` or ``test``.
        balance: Weight classes inversely to their frequency.
        start: A trained model to start from, by its path or name.
        changes: Further sections of the configuration, such as ``{"seeds": [1]}``.
    """
    if split is not None and split_column is not None:
        raise ConfigError(
            f"give either a {split} split or the column {split_column!r}, not both"
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
        values |= _continued(values, start)
    config = parse(values).changed(**changes or {})
    return Recipe(config, tuple(_notes(config, found)))


def _continued(values: dict[str, Any], start: str | Path) -> dict[str, Any]:
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
        "regression": f"{names} (regression)",
        "binary": f"{names} (binary)",
        "multiclass": f"{names} (multiclass, {found.classes} classes)",
    }
    yield f"SMILES: column {found.smiles!r}"
    yield f"target: {what[found.task]}"
    if found.labels:
        yield f"labels: {found.labels[0]!r} is 0, {found.labels[1]!r} is 1"
    kind = config.split.kind
    if kind == "given":
        yield f"split: by column {getattr(config.data, 'split_column', None)!r}"
    else:
        yield f"split: {kind}, 80% training, 10% validation, 10% test"
