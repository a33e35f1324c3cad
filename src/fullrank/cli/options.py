"""Options that several commands share."""

import logging
import os
from functools import partial
from pathlib import Path
from typing import Any

import typer

from fullrank.errors import ConfigError


def writable(file: Path | None) -> Path | None:
    """Check that the folder of an output file exists before any work is done."""
    if file is not None and not file.parent.is_dir():
        raise ConfigError(f"cannot write {file}: there is no folder {file.parent}")
    return file


def share_cores() -> None:
    """Run the network on half of the cores: the workers that featurise need the others,
    and threads of the network that wait for each other would keep them busy."""
    if "OMP_NUM_THREADS" not in os.environ:
        import torch

        from fullrank.data.workers import available_cpus

        torch.set_num_threads(max(available_cpus() // 2, 1))


def _errors_only(context: typer.Context, quiet: bool) -> bool:
    log = logging.getLogger("fullrank")
    context.call_on_close(partial(log.setLevel, log.level))
    if quiet:
        log.setLevel(logging.ERROR)
    return quiet


QUIET = typer.Option(
    False, "--quiet", "-q", callback=_errors_only, help="Print errors only."
)


def seconds_of(text: str) -> float:
    """The seconds in ``90s``, ``10m``, ``1.5h`` or ``600``."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    try:
        seconds = float(text.rstrip("smhd")) * units.get(text[-1:], 1.0)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise typer.BadParameter(f"{text!r} is not a time such as 90s, 10m or 1h")
    return seconds


# Options for a table of molecules, in train and tune.
TARGET = typer.Option(
    [],
    "--target",
    "-t",
    metavar="COLUMN",
    help="The column to predict; may be repeated.",
)
SMILES = typer.Option(
    None,
    "--smiles",
    metavar="COLUMN",
    help="The column with SMILES; detected by default.",
)
TASK = typer.Option(
    None, "--task", help="regression, binary or multiclass; detected by default."
)
SPLIT = typer.Option(None, "--split", help="random (the default) or scaffold.")
SPLIT_COLUMN = typer.Option(
    None,
    "--split-column",
    metavar="COLUMN",
    help="The column that contains train, valid or test.",
)
BALANCE = typer.Option(
    False, "--balance", help="Weight classes inversely to their frequency."
)
TIME = typer.Option(
    None,
    "--time",
    metavar="TIME",
    parser=seconds_of,
    help="Time limit, such as 10m or 1h.",
)
CHANGES = typer.Option(
    [],
    "--set",
    "-s",
    metavar="KEY=VALUE",
    help="Change a key, such as model.hidden=128; may be repeated.",
)
RUNS = typer.Option(None, "--runs", help="The folder of run folders.")


def about_table(
    smiles: str | None,
    task: str | None,
    split: str | None,
    split_column: str | None,
    balance: bool,
    start: Path | None = None,
) -> dict[str, Any]:
    """The options above that were given, as arguments of `fullrank.train.recipe`."""
    given = {
        "smiles": smiles,
        "task": task,
        "split": split,
        "split_column": split_column,
        "balance": balance or None,
        "start": start,
    }
    return {name: value for name, value in given.items() if value is not None}


# Options of the commands that read a table with a trained model.
SMILES_COLUMN = typer.Option(
    None,
    "--smiles",
    metavar="COLUMN",
    help="The column with SMILES; by default that of the training table.",
)
WORKERS = typer.Option(
    None,
    "--workers",
    min=1,
    help="Number of featurisation processes; one per core by default.",
)
