"""``fullrank train``: train from a table or a configuration."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from fullrank.train import Config, Summary
    from fullrank.train.run_folder import MetricSummary

app = typer.Typer(add_completion=False)


@app.command()
def train(
    source: str = typer.Argument(
        None,
        metavar="TABLE|CONFIG",
        help="A table of molecules (.csv, .tsv, .txt, .smi, .parquet, .sdf), a YAML "
        "file, or the name of a ready configuration.",
    ),
    target: list[str] = TARGET,
    smiles: str = SMILES,
    task: str = TASK,
    split: str = SPLIT,
    split_column: str = SPLIT_COLUMN,
    balance: bool = BALANCE,
    start: Path = typer.Option(
        None,
        "--from",
        metavar="MODEL",
        help="Fine-tune this trained model, a path or a name.",
    ),
    seeds: int = typer.Option(None, min=1, help="Number of seeds."),
    ensemble: int = typer.Option(
        None, min=1, help="Number of networks that predict together."
    ),
    calibration: float = typer.Option(
        None,
        help="Number or fraction of training graphs held out to calibrate intervals.",
    ),
    similarity: bool = typer.Option(
        True,
        help="Store fingerprints of training molecules in the model, so that "
        "predictions report the similarity to the nearest one.",
    ),
    duration: float = TIME,
    changes: list[str] = CHANGES,
    print_config: bool = typer.Option(
        False, "--print-config", help="Show the resolved configuration and exit."
    ),
    list_ready: bool = typer.Option(
        False, "--list", help="Show the ready configurations and exit."
    ),
    list_keys: bool = typer.Option(
        False, "--keys", help="Show every key of a configuration and exit."
    ),
    devices: int = typer.Option(None, help="Number of processes on this machine."),
    nodes: int = typer.Option(None, help="Number of machines."),
    runs: Path = RUNS,
    allow_rejected: bool = typer.Option(
        False, help="Train even if more than half of a table's rows are rejected."
    ),
    wait: float = typer.Option(
        0, min=0, help="Seconds to wait if another process works on the same run."
    ),
    page: bool = typer.Option(True, help="Write page.html about the run."),
    quiet: bool = QUIET,
    verbose: bool = typer.Option(
        False, "--verbose", "-v", help="Print a line per epoch."
    ),
) -> None:
    """Train on a table of molecules, or by a configuration.

    For a table, `fullrank train molecules.csv --target logS` is enough: a recipe sets
    the rest. The same command resumes an interrupted run and shows the result of a
    finished one. --quiet prints only the run folder; --time sets the number of epochs
    to what fits.
    """
    if list_ready:
        from fullrank.paper.ready import ready_configs

        print("\n".join(ready_configs()))
        return
    if list_keys:
        print(keys_table())
        return
    if source is None:
        raise typer.BadParameter("give a table or a configuration; see --help")
    given = {
        "compute.devices": devices,
        "compute.nodes": nodes,
        "seeds": list(range(seeds)) if seeds else None,
        "ensemble": ensemble,
        "split.calibration": calibration,
        "training.similarity": None if similarity else "false",
        "data.allow_rejected": allow_rejected or None,
    }
    changes += [f"{key}={value}" for key, value in given.items() if value is not None]
    about = about_table(smiles, task, split, split_column, balance, start)
    console = Console(stderr=True, quiet=quiet, highlight=False)
    resolved = resolve(source, target, about, changes, runs, console)
    if print_config:
        print(resolved.text(every_key=True), end="")
        return
    _train(resolved, console, quiet, verbose, wait, duration, page)


def _train(
    config: "Config",
    console: Console,
    quiet: bool,
    verbose: bool,
    wait: float,
    duration: float | None,
    page: bool,
) -> None:
    from fullrank.report.run_page import write_run_page
    from fullrank.train import run_experiment
    from fullrank.train.budget import within
    from fullrank.train.run import leading

    lead = leading(config)

    def announce(folder: Path) -> None:
        if quiet and lead:
            print(folder, flush=True)

    with stopping_politely():
        dataset = config.load_data()
        if duration is not None:
            config = within(config, dataset, duration)
            console.print(f"{config.training.epochs} epochs fit into the time limit")
        summary = run_experiment(
            config,
            dataset,
            console=None if quiet else console,
            lines=verbose,
            wait=wait,
            announce=announce,
        )
    if lead and page:
        write_run_page(config.runs / summary.experiment, dataset)
    if lead and not quiet:
        show_summary(summary, config.runs)


def resolve(
    source: str,
    targets: list[str],
    about: dict[str, Any],
    changes: list[str],
    runs: Path | None,
    console: Console,
) -> "Config":
    """The configuration for a table, in a file, or of that name.

    Args:
        about: The options for a table, as arguments of `fullrank.train.recipe`.
        runs: The folder of run folders, if it is not that of the configuration.
        console: Where to print what was detected in a table.
    """
    from fullrank.data.tables import is_table, open_table
    from fullrank.errors import ConfigError
    from fullrank.train.config import change_values, parse
    from fullrank.train.recipe import recipe

    if runs is not None:
        changes = [*changes, f"runs={json.dumps(str(runs))}"]
    if not is_table(source):
        for name in (*about, *(["target"] if targets else [])):
            flag = "from" if name == "start" else name.replace("_", "-")
            raise typer.BadParameter(
                f"--{flag} is for tables of molecules; use --set for a configuration"
            )
        return find_config(source, changes)
    with open_table(source) as table:
        if not targets:
            raise ConfigError(
                f"no target given; choose a column of {source} with --target: "
                f"{', '.join(table.header)}"
            )
    found = recipe(source, targets, **about)
    for note in found.notes:
        console.print(note, soft_wrap=True, markup=False)
    return parse(change_values(found.config.model_dump(), changes))


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
    """Print the test metrics of an experiment, its time and its memory."""
    from rich.table import Table

    from fullrank.train.progress import human, human_size, human_time

    count = len(summary.runs)
    table = Table(title=f"{summary.dataset} · {summary.conv}", title_justify="left")
    table.add_column("test")
    models, size = count // (summary.ensemble or 1), summary.ensemble
    title = f"ensemble of {size}" if size else ""
    if models > 1:
        title = f"mean ± std of {models} {'ensembles' if size else 'runs'}"
    table.add_column(title, justify="right")
    for name, metric in summary.test.items():
        table.add_row(name, mean_and_std(metric))
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"{human(summary.parameters)} parameters · "
        f"{human_time(summary.seconds_per_epoch)} per epoch · "
        f"{human_time(summary.seconds)} in total · "
        f"{human_size(summary.peak_memory)} peak memory"
    )
    console.print(
        f"{'run' if count == 1 else 'summary'}: {runs / summary.experiment}",
        soft_wrap=True,
    )
    page = runs / summary.experiment / "page.html"
    if page.exists():
        console.print(f"page: {page}", soft_wrap=True)


def mean_and_std(summary: "MetricSummary") -> str:
    """``0.0123 ± 0.0004``."""
    if summary.mean is None:
        return "not defined"
    text = f"{summary.mean:.4g}"
    return text if summary.std is None else f"{text} ± {summary.std:.2g}"


@contextlib.contextmanager
def stopping_politely() -> Iterator[None]:
    """Turn an interruption into a message and the exit status of Ctrl-C."""
    from fullrank.interrupt import STATUS, Interrupted

    try:
        yield
    except Interrupted as stop:
        typer.echo(stop, err=True)
        raise typer.Exit(STATUS) from None
