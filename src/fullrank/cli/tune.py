"""``fullrank tune``: search for a better configuration, and train it."""

from pathlib import Path

import typer
from rich.console import Console

from fullrank.cli.options import (
    BALANCE,
    CHANGES,
    QUIET,
    RUNS,
    SMILES,
    SPLIT,
    SPLIT_COLUMN,
    TARGET,
    TASK,
    TIME,
    about_table,
)

app = typer.Typer(add_completion=False)


@app.command()
def tune(
    source: str = typer.Argument(
        ..., metavar="TABLE|CONFIG", help="As for `fullrank train`."
    ),
    target: list[str] = TARGET,
    smiles: str = SMILES,
    task: str = TASK,
    split: str = SPLIT,
    split_column: str = SPLIT_COLUMN,
    balance: bool = BALANCE,
    trials: int = typer.Option(50, min=1, help="Number of trials, over all processes."),
    duration: float = TIME,
    space: Path = typer.Option(
        None, metavar="FILE", help="A YAML file with the search space."
    ),
    storage: str = typer.Option(
        None, metavar="URL", help="A database that several machines can share."
    ),
    changes: list[str] = CHANGES,
    runs: Path = RUNS,
    quiet: bool = QUIET,
) -> None:
    """Search for the best configuration on the validation part, and train it.

    The same command continues the search; several processes can run it at the same time
    and share the work. --quiet prints only the run folder.
    """
    from fullrank.cli.train import resolve, show_summary, stopping_politely
    from fullrank.report.run_page import write_run_page
    from fullrank.report.tune_page import write_tune_page
    from fullrank.train.tune import tune as search

    about = about_table(smiles, task, split, split_column, balance)
    console = Console(stderr=True, quiet=quiet, highlight=False)
    config = resolve(source, target, about, changes, runs, console)
    with stopping_politely():
        tuned = search(
            config,
            trials,
            duration,
            space,
            storage,
            None if quiet else console,
        )
    folder = config.runs / tuned.summary.experiment
    write_run_page(folder, tuned.config.load_data())
    page = write_tune_page(tuned)
    if quiet:
        print(folder)
        return
    show_summary(tuned.summary, config.runs)
    print(f"best configuration: {tuned.folder / 'best.yaml'}")
    print(f"search: {page}")
