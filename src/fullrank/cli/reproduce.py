"""``fullrank reproduce``: do the runs of a table or figure and create the page."""

import contextlib
import functools
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fullrank.cli.report import JOIN
from fullrank.cli.train import stopping_politely

if TYPE_CHECKING:
    from fullrank.paper.record import ResultsRecord
    from fullrank.paper.reproduce import Plan
    from fullrank.train import Config
    from fullrank.train.sweep import RunOutcome, SweepState

app = typer.Typer(add_completion=False)


@app.command()
def reproduce(
    table: str = typer.Argument(
        None, help="A table or figure of the paper; --list shows them."
    ),
    list_tables: bool = typer.Option(
        False, "--list", help="List the tables and figures and exit."
    ),
    only: list[str] = typer.Option(
        [],
        metavar="NAME",
        help="Only this model, data set or protocol; may be repeated.",
    ),
    scale: str = typer.Option("small", help="The scale: paper or small."),
    seeds: int = typer.Option(
        None, min=1, help="Number of seeds; by default that of the table."
    ),
    epochs: int = typer.Option(
        None, min=1, help="Train for this many epochs (scale paper)."
    ),
    dry_run: bool = typer.Option(False, help="Show the runs and their estimated cost."),
    workers: int = typer.Option(1, min=1, help="Number of processes on this machine."),
    ray: str = typer.Option(
        None, metavar="ADDRESS", help="Run on a Ray cluster; auto for the local one."
    ),
    cpus: float = typer.Option(1, min=0, help="Ray: CPUs per run."),
    gpus: float = typer.Option(0, min=0, help="Ray: GPUs per run."),
    retries: int = typer.Option(
        3, min=0, help="Ray: how often a run is restarted if its node is lost."
    ),
    folds: Path = typer.Option(
        None, help="A folder with the folds of Zhang et al., NAME/ for each TU set."
    ),
    runs: Path = typer.Option(Path("runs"), help="The folder of run folders."),
    join: list[Path] = JOIN,
    out: Path = typer.Option(Path("reproduction"), help="The folder for the page."),
) -> None:
    """Do the missing runs of a table, and compare it with the paper."""
    if list_tables:
        from fullrank.paper.ready import figure_values, table_names

        print("\n".join([*table_names(), *figure_values()]))
        return
    from fullrank.paper.cells import cells
    from fullrank.paper.record import read_record
    from fullrank.paper.reproduce import Plan
    from fullrank.paper.reproduce import reproduce as run_plan

    if table is None:
        raise typer.BadParameter("give a table or figure; --list shows them")
    console = Console(stderr=True)
    joined = [read_record(file) for file in join]
    plan = Plan(cells(table, scale, only, seeds, epochs, folds, runs), joined)
    if dry_run:
        _show_costs(plan, Console())
        return
    planned = plan.runs
    done = len(planned) - len(plan.unfinished(planned))
    console.print(
        f"{table}, scale {scale}: {len(planned):,} runs, {done:,} already done",
        highlight=False,
    )
    run = functools.partial(
        _run,
        workers=workers,
        ray=ray,
        cpus=cpus,
        gpus=gpus,
        retries=retries,
        console=console,
    )
    outcomes = run_plan(plan, run)
    _write_page(runs, joined, out, console)
    _end(outcomes, console)


def _run(
    todo: "Sequence[Config]",
    workers: int,
    ray: str | None,
    cpus: float,
    gpus: float,
    retries: int,
    console: Console,
) -> "list[RunOutcome]":
    from fullrank.train.sweep import run_here, run_in_processes, run_on_ray

    with stopping_politely(), _overview(console) as watch:
        if ray is not None:
            return run_on_ray(todo, ray, watch, cpus, gpus, retries)
        if workers > 1:
            return run_in_processes(todo, workers, watch)
        return run_here(todo, watch)


def _write_page(
    runs: Path, joined: "Sequence[ResultsRecord]", out: Path, console: Console
) -> None:
    from fullrank.paper.results import make_record
    from fullrank.report.reproduction import write_reproduction

    if joined:  # all runs may come from these files
        runs.mkdir(parents=True, exist_ok=True)
    if not runs.is_dir():
        return
    page = write_reproduction(out, make_record(runs, joined))
    console.print(f"wrote {page}", highlight=False, soft_wrap=True)


def _end(outcomes: "Sequence[RunOutcome]", console: Console) -> None:
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    if failed:
        runs: dict[str, list[str]] = {}
        for outcome in failed:
            runs.setdefault(outcome.message, []).append(outcome.name)
        console.print(f"{len(failed)} of {len(outcomes)} runs failed:", style="red")
        for reason, (first, *others) in runs.items():
            more = f" and {len(others):,} more" if others else ""
            text = f"  {first}{more}: {reason}"
            console.print(text, markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1)


@contextlib.contextmanager
def _overview(console: Console) -> Iterator[Any]:
    """Show the state of the sweep: live on a terminal, otherwise a line per run."""
    shown = _Overview(console)
    if not console.is_terminal:
        yield shown.lines
        return
    with Live(get_renderable=shown.table, console=console, refresh_per_second=1):
        yield shown.keep


class _Overview:
    """The display of a sweep."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.state: SweepState | None = None
        self.told = 0

    def keep(self, state: "SweepState") -> None:
        self.state = state

    def lines(self, state: "SweepState") -> None:
        from fullrank.train.progress import human_time

        for outcome in state.outcomes[self.told :]:
            self.told += 1
            why = f": {outcome.message}" if outcome.message else ""
            self.console.print(
                f"{self.told}/{state.total} {outcome.state} {outcome.name} "
                f"in {human_time(outcome.seconds)}, {outcome.where}{why}",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )

    def table(self) -> Any:
        from fullrank.train import RunFolder
        from fullrank.train.progress import human_time
        from fullrank.train.sweep import run_name

        if self.state is None:
            return Text("starting")
        table = Table("run", "epoch", "since", "where", box=None, pad_edge=False)
        for run in list(self.state.running.values()):
            done = len(RunFolder(run.folder).curve) if run.folder else 0
            table.add_row(
                run_name(run.config),
                f"{done}/{run.config.training.epochs}",
                human_time(time.time() - run.since),
                run.where,
            )
        counts = self.state.counts.items()
        return Group(table, Text(", ".join(f"{n} {state}" for state, n in counts)))


def _show_costs(plan: "Plan", console: Console) -> None:
    from fullrank.paper.reproduce import estimate
    from fullrank.train.progress import human, human_time

    table = Table("model", "data set", "protocol", box=None, pad_edge=False)
    for heading in ("runs", "done", "parameters", "time left"):
        table.add_column(heading, justify="right")
    costs = []
    for cost in estimate(plan):
        costs.append(cost)
        table.add_row(
            cost.cell.row,
            cost.cell.column,
            cost.cell.protocol,
            str(cost.runs),
            str(cost.done),
            " to ".join(dict.fromkeys(map(human, _ends(cost.parameters)))),
            human_time(cost.seconds) if cost.seconds is not None else "?",
        )
    console.print(table)
    total = sum(cost.seconds or 0 for cost in costs)
    console.print(
        f"about {human_time(total)} in total if run sequentially, estimated from a few "
        f"training steps",
        highlight=False,
    )
    for problem in dict.fromkeys(cost.problem for cost in costs if cost.problem):
        console.print(f"?: {problem}", markup=False, highlight=False, soft_wrap=True)


def _ends(numbers: Sequence[int]) -> list[int]:
    return [numbers[0], numbers[-1]] if numbers else []
