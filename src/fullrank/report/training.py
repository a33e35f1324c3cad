"""A page that compares finished runs: results, learning curves, provenance."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fullrank.report.page import (
    PALETTE,
    Figure,
    Section,
    Table,
    Text,
    render_page,
    software,
)

if TYPE_CHECKING:
    import plotly.graph_objects as go

CHANCE = (
    "One run each, so small differences may be chance. The epoch is chosen on the "
    "validation graphs; the test graphs are looked at once, after that."
)


def write_training_report(
    page: Path,
    title: str,
    folders: Mapping[str, Path],
    extra: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Write a self-contained page about finished runs on one data set.

    Args:
        page: The HTML file to write.
        title: Of the page.
        folders: The run folder of each model, by the name to show.
        extra: Further columns of the table: for each column a cell for each model.
    """
    results = {name: _json(folder / "result.json") for name, folder in folders.items()}
    first = next(iter(folders))
    target = _json(folders[first] / "model.json")["targets"][0]
    unit = f" ({target['unit']})" if target["unit"] else ""
    counts = results[first]["graphs"]
    lead = (
        f"{counts['train']:,} graphs of {results[first]['dataset']} to learn from, "
        f"{counts['valid']:,} to choose the epoch, {counts['test']:,} to test."
    )
    sections = [
        Section("Results", [_table(results, unit, extra or {}), Text(CHANCE)]),
        Section("Learning curves", [Figure(_curves(results, folders, unit))]),
    ]
    machine = _json(folders[first] / "environment.json")
    runs = {
        name: f"{folder}, seed {results[name]['seed']}"
        for name, folder in folders.items()
    }
    where = {
        "commit": machine["commit"] or "not from a repository",
        "processor": f"{machine['processor']}, {machine['threads']} threads",
    }
    page.write_text(
        render_page(title, lead, sections, {**runs, **where, **software()}),
        encoding="utf-8",
    )


def _table(
    results: Mapping[str, Any], unit: str, extra: Mapping[str, Mapping[str, str]]
) -> Table:
    metric = next(iter(results.values()))["metric"]
    columns = [
        "model",
        f"test {metric.upper()}{unit}",
        f"validation {metric.upper()}",
        "best epoch",
        "parameters",
        "seconds an epoch",
        *extra,
    ]
    rows = [
        [
            name,
            f"{result['test'][metric]:.5f}",
            f"{result['valid'][metric]:.5f}",
            str(result["best_epoch"] + 1),
            f"{result['parameters']:,}",
            f"{result['seconds_per_epoch']:.2f}",
            *(cells[name] for cells in extra.values()),
        ]
        for name, result in results.items()
    ]
    return Table(columns, rows)


def _curves(
    results: Mapping[str, Any], folders: Mapping[str, Path], unit: str
) -> "go.Figure":
    """Validation as lines, training as dots, one colour a model."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for color, (name, folder) in zip(PALETTE, folders.items(), strict=False):
        metric = results[name]["metric"]
        with (folder / "metrics.csv").open(encoding="utf-8") as stream:
            epochs = list(csv.DictReader(stream))
        for part, dash in (("valid", "solid"), ("train", "dot")):
            figure.add_scatter(
                x=[int(row["epoch"]) + 1 for row in epochs],
                y=[float(row[f"{part}_{metric}"]) for row in epochs],
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


def _json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))
