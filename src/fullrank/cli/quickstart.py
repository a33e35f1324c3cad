"""``fullrank quickstart``: does keeping the rank pay, on real molecules, in minutes?"""

from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from fullrank.cli.train import stopping_politely

app = typer.Typer(add_completion=False)


@app.command()
def quickstart(
    molecules: int = typer.Option(6000, min=100, help="Of QM9, spread over all of it."),
    epochs: int = typer.Option(12, min=1),
    seed: int = typer.Option(0),
    runs: Path = typer.Option(Path("runs"), help="The folder of run folders."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="The result only."),
) -> None:
    """Train GIN-0 and ExpC-1, -4 and -16 on the HOMO–LUMO gap of QM9's molecules."""
    from fullrank.report.training import write_training_report
    from fullrank.train import run_one
    from fullrank.train.quickstart import quickstart_configs
    from fullrank.train.sources import load_dataset

    console = Console(stderr=True, quiet=quiet, highlight=False)
    configs = quickstart_configs(runs, molecules, epochs, seed)
    console.print(
        f"Preparing {molecules:,} real molecules of QM9, then training {len(configs)} "
        f"networks of the same width and depth to predict the HOMO–LUMO gap.\n"
        f"Interrupt at any time: the same command goes on where it stopped."
    )
    dataset = load_dataset(next(iter(configs.values())).data)
    results = {}
    with stopping_politely():
        for name, config in configs.items():
            results[name] = run_one(config, dataset, console)
            error = results[name]["test"]["mae"]
            console.print(f"{name:8} test error {error:.5f} Hartree")
    _show(results)
    page = runs / "quickstart.html"
    folders = {name: config.folder for name, config in configs.items()}
    write_training_report(page, "HOMO–LUMO gap of QM9 molecules", folders)
    print(f"report: {page.resolve()}")


def _show(results: dict[str, dict[str, Any]]) -> None:
    from rich.table import Table

    from fullrank.train.progress import human, human_time

    first = next(iter(results.values()))
    counts = first["graphs"]
    table = Table(
        title=f"HOMO–LUMO gap, {counts['train']:,} training and {counts['test']:,} "
        f"test molecules, {first['epochs']} epochs, seed {first['seed']}"
    )
    table.add_column("model")
    for column in ("test MAE (Hartree)", "parameters", "an epoch"):
        table.add_column(column, justify="right")
    best = min(results, key=lambda name: results[name]["test"]["mae"])
    for name, result in results.items():
        table.add_row(
            name,
            f"{result['test']['mae']:.5f}",
            human(result["parameters"]),
            human_time(result["seconds_per_epoch"]),
            style="bold" if name == best else None,
        )
    Console(highlight=False).print(table)
