"""``fullrank quickstart``: four models on real molecules, in minutes."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from fullrank.cli.train import stopping_politely

if TYPE_CHECKING:
    from fullrank.data import GraphDataset
    from fullrank.train import Result, RunFolder

TITLE = "HOMO–LUMO gap of real molecules (QM9)"
RANKS = "mean rank of M per layer"

app = typer.Typer(add_completion=False)


@app.command()
def quickstart(
    molecules: int = typer.Option(
        10_000, min=100, help="Number of molecules of QM9, evenly spaced."
    ),
    epochs: int = typer.Option(20, min=1, help="Number of epochs."),
    seed: int = typer.Option(0, help="Seed of weights and batches."),
    runs: Path = typer.Option(Path("runs"), help="The folder of run folders."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="Print the result only."),
) -> None:
    """Train GIN-0 and ExpC-1, -4 and -16 on the HOMO–LUMO gap of QM9's molecules."""
    from fullrank.report.training import write_training_report
    from fullrank.train import RunFolder, run_one
    from fullrank.train.experiment import finished_result
    from fullrank.train.quickstart import quickstart_configs

    console = Console(stderr=True, quiet=quiet, highlight=False)
    configs = quickstart_configs(runs, molecules, epochs, seed)
    console.print(
        f"Training {len(configs)} networks of the same width and depth on the "
        f"HOMO–LUMO gap of {molecules:,} real molecules.\n"
        f"Stop with Ctrl-C at any time: the same command resumes."
    )
    dataset = next(iter(configs.values())).data.load()
    done: dict[str, RunFolder] = {}
    with stopping_politely():
        for name, config in configs.items():
            done[name] = run_one(config, dataset, console)
            error = finished_result(done[name]).test["mae"]
            console.print(f"{name:8} test error {error:.5f} Hartree")
    ranks = {name: _ranks(run, dataset) for name, run in done.items()}
    _show({name: finished_result(run) for name, run in done.items()}, ranks)
    page = runs / "quickstart.html"
    best = min(done.values(), key=lambda run: finished_result(run).test["mae"] or 0.0)
    # A page may be passed on, so it names no folders of this machine.
    shown = next_commands("fullrank", Path(runs.name) / best.path.name)
    write_training_report(page, TITLE, done, {RANKS: ranks}, shown)
    print(f"report: {page.resolve()}")
    _show_next(next_commands(_program(), best.path))


def next_commands(program: str, run: Path) -> dict[str, str]:
    """Three commands to try after the quick start, each with what it does."""
    return {
        f"{program} inspect {run}": "what the best of these models cannot distinguish",
        f"{program} serve {run}": "a page that predicts, and the lab in the browser",
        f"{program} train molecules.csv --target COLUMN": "your own table of molecules",
    }


def _program() -> str:
    """How to call this program from here; ``make run`` leaves it in ``.venv``."""
    if shutil.which("fullrank"):
        return "fullrank"
    return os.path.relpath(Path(sys.executable).parent / "fullrank")


def _show_next(commands: Mapping[str, str]) -> None:
    console = Console(highlight=False)
    console.print("\nWhat to try next:")
    for command, about in commands.items():
        console.print(f"  {command}\n      {about}", markup=False, soft_wrap=True)


def _ranks(run: "RunFolder", dataset: "GraphDataset") -> str:
    """The mean rank of each layer's coefficient matrices, on test graphs."""
    from fullrank.lab import profile
    from fullrank.train.evaluate import load_model

    model = load_model(run)
    batch = dataset.graphs.batch(run.split.test[:64])
    layers = profile(model.network, model.ready(batch))
    return "  ".join(f"{layer.mean('rank M'):.1f}" for layer in layers)


def _show(results: Mapping[str, "Result"], ranks: Mapping[str, str]) -> None:
    from rich.table import Table

    from fullrank.train.progress import human, human_time

    first = next(iter(results.values()))
    counts = first.graphs
    table = Table(title=TITLE, title_justify="left")
    table.add_column("model")
    for column in ("test MAE (Hartree)", "parameters", "per epoch", RANKS):
        table.add_column(column, justify="right")
    best = min(results, key=lambda name: results[name].test["mae"] or 0.0)
    for name, result in results.items():
        table.add_row(
            name,
            f"{result.test['mae']:.5f}",
            human(result.parameters),
            human_time(result.seconds_per_epoch),
            ranks[name],
            style="bold" if name == best else None,
        )
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"{counts['train']:,} training and {counts['test']:,} test molecules, "
        f"{first.epochs} epochs, one run each (seed {first.seed}): small differences "
        "may be due to chance, and the ranking depends on the learning rate "
        "(docs/train.md)."
    )
