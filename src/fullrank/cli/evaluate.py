"""``fullrank evaluate``: measure trained models again."""

import json
from pathlib import Path

import typer
from rich.console import Console

app = typer.Typer(add_completion=False)


@app.command()
def evaluate(
    runs: list[Path] = typer.Argument(..., metavar="RUN...", help="Run folders."),
    part: str = typer.Option("test", help="Of its split: train, valid or test."),
    root: Path = typer.Option(None, help="Where prepared data sets are now."),
    as_json: bool = typer.Option(False, "--json", help="For programs to read."),
) -> None:
    """Measure the best epoch of a run on a part of its own split."""
    from fullrank.cli.train import mean_and_std
    from fullrank.errors import ConfigError
    from fullrank.train import evaluate_run
    from fullrank.train.experiment import summarize_values
    from fullrank.train.run_folder import open_runs

    folders = [folder for run in runs for folder in open_runs(run)]
    changes = {"root": root} if root else {}
    found = [evaluate_run(folder, part, changes) for folder in folders]
    if as_json:
        names = [str(folder.path) for folder in folders]
        print(json.dumps(dict(zip(names, found, strict=True)), indent=2))
        return
    for folder, measured in zip(folders, found, strict=True):
        if measured.keys() != found[0].keys():
            raise ConfigError(
                f"{folders[0].path} and {folder.path} are measured differently, so "
                f"they have no mean; evaluate them one by one"
            )
    from rich.table import Table

    several = len(found) > 1
    table = Table()
    table.add_column(part)
    table.add_column(f"mean ± std of {len(found)}" if several else "", justify="right")
    for name in found[0]:
        values = [measured[name] for measured in found]
        table.add_row(name, mean_and_std(summarize_values(values)))
    Console(highlight=False).print(table)
