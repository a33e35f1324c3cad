"""``fullrank train``: one configuration, its runs, its result."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from fullrank.cli.options import QUIET

app = typer.Typer(add_completion=False)


@app.command()
def train(
    config: str = typer.Argument(
        None, help="A YAML file or the name of a ready configuration."
    ),
    changes: list[str] = typer.Option(
        [], "--set", "-s", metavar="KEY=VALUE", help="Such as model.hidden=128."
    ),
    print_config: bool = typer.Option(
        False, "--print-config", help="Show the resolved configuration and leave."
    ),
    list_ready: bool = typer.Option(
        False, "--list", help="Show the ready configurations and leave."
    ),
    devices: int = typer.Option(None, help="Processes on this machine."),
    nodes: int = typer.Option(None, help="Machines."),
    runs: Path = typer.Option(None, help="The folder of run folders."),
    quiet: bool = QUIET,
    verbose: bool = typer.Option(False, "--verbose", "-v", help="A line an epoch."),
) -> None:
    """Train by a configuration; started again, it goes on or says what it found."""
    from fullrank.train import load_config, ready_configs, run_experiment
    from fullrank.train.run import leading

    if list_ready:
        print("\n".join(ready_configs()))
        return
    if config is None:
        raise typer.BadParameter("which configuration? --list shows the ready ones")
    given = {"compute.devices": devices, "compute.nodes": nodes, "runs": runs}
    changes += [f"{key}={value}" for key, value in given.items() if value is not None]
    resolved = load_config(config, changes)
    if print_config:
        print(resolved.text(every_key=True), end="")
        return
    console = None if quiet else Console(stderr=True)
    with stopping_politely():
        summary = run_experiment(resolved, console=console, lines=verbose)
    if leading(resolved) and not quiet:
        show_summary(summary, resolved.runs)


def show_summary(summary: dict[str, Any], runs: Path) -> None:
    """Print the test measures of an experiment and what they cost."""
    from rich.table import Table

    from fullrank.train.progress import human, human_size, human_time

    count = len(summary["runs"])
    table = Table(
        title=f"{summary['dataset']} · {summary['conv']}", title_justify="left"
    )
    table.add_column("test")
    table.add_column(
        f"mean ± std of {count} runs" if count > 1 else "", justify="right"
    )
    for name, spread in summary["test"].items():
        table.add_row(name, with_spread(spread))
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"{human(summary['parameters'])} parameters · "
        f"{human_time(summary['seconds_per_epoch'])} an epoch · "
        f"{human_time(summary['seconds'])} in all · "
        f"{human_size(summary['peak_memory'])} of memory at most"
    )
    folder = summary["runs"][0] if count == 1 else summary["experiment"]
    console.print(
        f"{'run' if count == 1 else 'summary'}: {runs / folder}", soft_wrap=True
    )


def with_spread(spread: dict[str, Any]) -> str:
    """``0.0123 ± 0.0004``."""
    if spread["mean"] is None:
        return "not defined"
    text = f"{spread['mean']:.4g}"
    return text if spread["std"] is None else f"{text} ± {spread['std']:.2g}"


@contextlib.contextmanager
def stopping_politely() -> Iterator[None]:
    """Turn an interrupted run into a sentence and the status of Ctrl-C."""
    from fullrank.train import Interrupted

    try:
        yield
    except Interrupted as stop:
        typer.echo(stop, err=True)
        raise typer.Exit(130) from None
