"""All that the runs say about the paper, as one JSON document."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fullrank import __version__
from fullrank.paper.cells import figures
from fullrank.paper.claims import RULE, claims, judge, judge_published
from fullrank.paper.published import metric_of, published
from fullrank.paper.results import (
    CellResult,
    Place,
    RunFolder,
    TableResult,
    collect,
    read_runs,
)
from fullrank.train.files import read_json

FORMAT = 1
_PARTS = {"fullrank", "made", "runs", "rule", "claims", "tables", "figures"}


def make_record(
    folder: Path, others: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Read a folder of runs and set them beside the published numbers.

    Args:
        folder: Of run folders.
        others: Documents of other runs, whose seeds are added.
    """
    found = read_runs(folder)
    tables = collect(found, [_cells(other) for other in others])
    return {
        "format": FORMAT,
        "fullrank": __version__,
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "runs": _runs(found),
        "rule": RULE,
        "claims": [
            {
                "says": claim.says,
                "table": claim.table,
                "published": asdict(judge_published(claim, published(claim.table))),
                "scales": {s: asdict(v) for s, v in judge(claim, tables).items()},
            }
            for claim in claims()
        ],
        "tables": [_table(table) for table in tables],
        "figures": {name: figure.model_dump() for name, figure in figures().items()},
    }


def read_record(file: Path) -> dict[str, Any]:
    """Read a document that `make_record` made."""
    nothing = ValueError(
        f"{file} holds no results: `fullrank report RUNS` makes such a file"
    )
    try:
        record = read_json(file)
        version = record["format"]
    except (ValueError, KeyError, TypeError):
        raise nothing from None
    if version != FORMAT:
        raise ValueError(
            f"{file} was written by another version of fullrank (format {version}, "
            f"this one reads {FORMAT}): make it again from the run folders"
        )
    if not record.keys() >= _PARTS:
        raise nothing
    return record


def epochs_of_runs(record: Mapping[str, Any]) -> dict[str, int]:
    """How long the runs are that a document's numbers are made of, by their names."""
    return {
        run["run"]: run["epochs"]
        for table in record["tables"]
        for cell in table["cells"]
        for run in cell["runs"]
    }


def _cells(record: Mapping[str, Any]) -> dict[Place, CellResult]:
    """The cells of a document that have a number."""
    cells = {}
    for table in record["tables"]:
        for values in table["cells"]:
            by_seed = {int(seed): value for seed, value in values["by_seed"].items()}
            cell = CellResult(**values | {"by_seed": by_seed})
            if by_seed:
                place = (cell.row, cell.column, cell.protocol)
                cells[table["name"], table["scale"], *place] = cell
    return cells


def _runs(found: RunFolder) -> dict[str, Any]:
    return {
        "finished": sum(map(len, found.runs.values())),
        "unfinished": list(found.unfinished),
        "unread": dict(found.unread),
    }


def _table(table: TableResult) -> dict[str, Any]:
    columns = []
    for name, protocol in table.columns:
        metric, better = metric_of(name)
        columns.append(
            {"name": name, "protocol": protocol, "metric": metric, "better": better}
        )
    ours = {cell.row for cell in table.cells}
    return {
        "name": table.name,
        "title": table.title,
        "scale": table.scale,
        "about": table.about,
        "rows": [{"name": row, "cited": row not in ours} for row in table.rows],
        "columns": columns,
        "cells": [asdict(cell) for cell in table.cells if cell.done],
        "missing": [
            {"row": c.row, "column": c.column, "protocol": c.protocol, "runs": c.wanted}
            for c in table.cells
            if not c.done
        ],
        "published": [
            {"row": row, "column": column, "mean": number.mean, "std": number.std}
            for (row, column), number in table.published.items()
        ],
    }
