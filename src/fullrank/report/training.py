"""A page that compares finished runs: results, learning curves, provenance."""

from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from fullrank.report.page import (
    PALETTE,
    Figure,
    Section,
    Table,
    Text,
    render_page,
    software,
)
from fullrank.train import Result, RunFolder
from fullrank.train.evaluate import load_model
from fullrank.train.experiment import finished_result

if TYPE_CHECKING:
    import plotly.graph_objects as go

CHANCE = (
    "One run each, so small differences may be due to chance. The epoch is chosen on "
    "the validation graphs; the test graphs are evaluated once, after that."
)


def write_training_report(
    page: Path,
    title: str,
    runs: Mapping[str, RunFolder],
    extra: Mapping[str, Mapping[str, str]] | None = None,
    following: Mapping[str, str] | None = None,
) -> None:
    """Write a self-contained page about finished runs on one data set.

    Args:
        page: The HTML file to write.
        title: Title of the page.
        runs: The run of each model, by displayed name.
        extra: Further columns of the table, with a cell for each model.
        following: Commands to try next, each with what it does.
    """
    results = {name: finished_result(run) for name, run in runs.items()}
    first, result = next(iter(runs.values())), next(iter(results.values()))
    target = load_model(first).spec.targets[0]
    unit = f" ({target.unit})" if target.unit else ""
    counts = result.graphs
    lead = (
        f"{counts['train']:,} training, {counts['valid']:,} validation and "
        f"{counts['test']:,} test graphs of {result.dataset}."
    )
    sections = [
        Section("Results", [_table(results, unit, extra or {}), Text(CHANCE)]),
        Section("Learning curves", [Figure(_curves(runs, result.metric, unit))]),
    ]
    if following:
        rows = [[command, about] for command, about in following.items()]
        sections.append(Section("What to try next", [Table(["command", ""], rows)]))
    machine = first.environment
    where = {
        "commit": machine.commit or "not from a repository",
        "processor": f"{machine.processor}, {machine.threads} threads",
    }
    provenance = {
        name: f"{run.id}, seed {results[name].seed}" for name, run in runs.items()
    }
    page.write_text(
        render_page(title, lead, sections, {**provenance, **where, **software()}),
        encoding="utf-8",
    )


def _table(
    results: Mapping[str, Result], unit: str, extra: Mapping[str, Mapping[str, str]]
) -> Table:
    metric = next(iter(results.values())).metric
    columns = [
        "model",
        f"test {metric.upper()}{unit}",
        f"validation {metric.upper()}",
        "best epoch",
        "parameters",
        "seconds per epoch",
        *extra,
    ]
    rows = [
        [
            name,
            _number(result.test[metric]),
            _number(result.valid[metric]),
            str(result.best_epoch + 1),
            f"{result.parameters:,}",
            f"{result.seconds_per_epoch:.2f}",
            *(cells[name] for cells in extra.values()),
        ]
        for name, result in results.items()
    ]
    return Table(columns, rows)


def _number(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.5f}"


def _curves(runs: Mapping[str, RunFolder], metric: str, unit: str) -> "go.Figure":
    """Validation as lines, training as dots, one colour per model."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for color, (name, run) in zip(cycle(PALETTE), runs.items(), strict=False):
        curve = run.curve
        for part, dash in (("valid", "solid"), ("train", "dot")):
            figure.add_scatter(
                x=[epoch + 1 for epoch in range(len(curve))],
                y=curve.column(f"{part}_{metric}"),
                name=f"{name}, {part}",
                legendgroup=name,
                line={"color": color, "dash": dash},
                hovertemplate="epoch %{x}: %{y:.5f}",
            )
    figure.update_layout(
        height=480,
        margin={"l": 10, "r": 10, "t": 10, "b": 10},
        xaxis_title="epoch",
        yaxis={"title": f"{metric.upper()}{unit}", "type": "log"},
        legend={"orientation": "h", "y": -0.2},
    )
    return figure
