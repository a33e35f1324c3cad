"""``fullrank train``: one configuration, its runs, its result."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from fullrank.cli.options import QUIET

if TYPE_CHECKING:
    from fullrank.train import Config, Summary
    from fullrank.train.run_folder import MetricSummary

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
        False, "--print-config", help="Show the resolved configuration and exit."
    ),
    list_ready: bool = typer.Option(
        False, "--list", help="Show the ready configurations and exit."
    ),
    list_keys: bool = typer.Option(
        False, "--keys", help="Show every key of a configuration and exit."
    ),
    devices: int = typer.Option(None, help="Processes on this machine."),
    nodes: int = typer.Option(None, help="Machines."),
    runs: Path = typer.Option(None, help="The folder of run folders."),
    allow_rejected: bool = typer.Option(
        False, help="Train even if more than half of a table's rows are rejected."
    ),
    wait: float = typer.Option(
        0, min=0, help="Seconds to wait for another process on the same run."
    ),
    quiet: bool = QUIET,
    verbose: bool = typer.Option(False, "--verbose", "-v", help="A line per epoch."),
) -> None:
    """Train by a configuration; the same command resumes, or shows what came out.

    With --quiet the folder of the run is all that is printed.
    """
    if list_ready:
        from fullrank.paper.ready import ready_configs

        print("\n".join(ready_configs()))
        return
    from fullrank.train import run_experiment
    from fullrank.train.run import leading

    if list_keys:
        print(keys_table())
        return
    if config is None:
        raise typer.BadParameter("which configuration? --list shows the ready ones")
    given = {"compute.devices": devices, "compute.nodes": nodes}
    changes += [f"{key}={value}" for key, value in given.items() if value is not None]
    if allow_rejected:
        changes.append("data.allow_rejected=true")
    resolved = find_config(config, changes)
    if runs is not None:
        resolved = resolved.model_copy(update={"runs": runs})
    if print_config:
        print(resolved.text(every_key=True), end="")
        return
    lead = leading(resolved)

    def announce(folder: Path) -> None:
        if quiet and lead:
            print(folder, flush=True)

    console = None if quiet else Console(stderr=True)
    with stopping_politely():
        summary = run_experiment(
            resolved, console=console, lines=verbose, wait=wait, announce=announce
        )
    if lead and not quiet:
        show_summary(summary, resolved.runs)


def keys_table() -> str:
    """All keys of a configuration as a Markdown table."""
    from fullrank.train.config import documented_keys

    rows = ["| key | default | meaning |", "|---|---|---|"]
    for key, default, meaning in documented_keys():
        shown = f"`{default}`" if default and default[0] != "(" else default
        rows.append(f"| `{key}` | {shown} | {meaning.replace('``', '`')} |")
    return "\n".join(rows)


def find_config(source: str, changes: list[str]) -> "Config":
    """The configuration in a file, or the ready one of that name."""
    from fullrank.errors import ConfigError
    from fullrank.paper.ready import ready_config
    from fullrank.train.config import change_values, load_config, parse, read_values

    if Path(source).is_file():
        return load_config(source, changes)
    try:
        text = ready_config(source)
    except ConfigError as error:
        raise ConfigError(f"there is no file {source!r}, and {error}") from None
    return parse(change_values(read_values(text, source), changes))


def show_summary(summary: "Summary", runs: Path) -> None:
    """Print the test metrics of an experiment and what they cost."""
    from rich.table import Table

    from fullrank.train.progress import human, human_size, human_time

    count = len(summary.runs)
    table = Table(title=f"{summary.dataset} · {summary.conv}", title_justify="left")
    table.add_column("test")
    table.add_column(
        f"mean ± std of {count} runs" if count > 1 else "", justify="right"
    )
    for name, metric in summary.test.items():
        table.add_row(name, mean_and_std(metric))
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"{human(summary.parameters)} parameters · "
        f"{human_time(summary.seconds_per_epoch)} per epoch · "
        f"{human_time(summary.seconds)} in all · "
        f"{human_size(summary.peak_memory)} peak memory"
    )
    console.print(
        f"{'run' if count == 1 else 'summary'}: {runs / summary.experiment}",
        soft_wrap=True,
    )


def mean_and_std(summary: "MetricSummary") -> str:
    """``0.0123 ± 0.0004``."""
    if summary.mean is None:
        return "not defined"
    text = f"{summary.mean:.4g}"
    return text if summary.std is None else f"{text} ± {summary.std:.2g}"


@contextlib.contextmanager
def stopping_politely() -> Iterator[None]:
    """Turn an interrupted run into a sentence and the status of Ctrl-C."""
    from fullrank.interrupt import STATUS, Interrupted

    try:
        yield
    except Interrupted as stop:
        typer.echo(stop, err=True)
        raise typer.Exit(STATUS) from None
