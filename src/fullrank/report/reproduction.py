"""The paper's tables with our results: a page, a Markdown file, a JSON file."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

from fullrank.paper.record import (
    CellResult,
    PublishedCell,
    ResultsRecord,
    RunRecord,
    TableColumn,
    TableResult,
    TableRow,
    Verdict,
)
from fullrank.report.page import (
    PALETTE,
    Block,
    Figure,
    Fragment,
    Section,
    Text,
    render_page,
    templates,
)

TITLE = "Reproduction of the paper's tables"
_NAMES = {"accuracy": "accuracy", "rocauc": "ROC-AUC", "ap": "AP", "f1": "F1"}
_DIRECTIONS = {"max": "higher is better", "min": "lower is better"}
_PROTOCOLS = {
    "gin": "gin: the epoch with the best mean test curve of the folds, as published",
    "fair": "fair: the epoch that is best on a held-out part of each training fold",
    "split": "",
}


@dataclass(frozen=True)
class GridCell:
    """A cell of a table.

    Attributes:
        value: The sort key, by default the text; an empty string sorts last.
    """

    text: str
    value: float | str | None = None
    best: bool = False
    published: str = ""
    published_best: bool = False
    tag: str = ""
    note: str = ""
    css: str = ""


def write_reproduction(folder: Path, record: ResultsRecord) -> Path:
    """Write ``results.html``, ``results.md`` and ``results.json``; return the page."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "results.html"
    page.write_text(page_of(record), encoding="utf-8")
    (folder / "results.md").write_text(markdown_of(record), encoding="utf-8")
    record.write(folder / "results.json")
    return page


def page_of(record: ResultsRecord) -> str:
    """The page as one string of HTML."""
    head = Fragment(_macros().head())
    sections = [Section("Claims", [head, *_claims(record)])]
    sections += [_table_section(table) for table in record.tables]
    sections += _curve_sections(record)
    if record.tables:
        sections.append(Section("Cost", [_costs(record)]))
        sections.append(Section("Provenance", [_origins(record)]))
    unread = record.runs.unread
    if unread:
        sections.append(
            Section("Not read", [Text(f"{k}: {why}") for k, why in unread.items()])
        )
    made = {"fullrank": record.fullrank, "made": record.made}
    return render_page(TITLE, _lead(record), sections, made)


def markdown_of(record: ResultsRecord) -> str:
    """The same tables as Markdown, without curves."""
    lines = [f"# {TITLE}", "", _lead(record), "", "## Claims", "", record.rule, ""]
    rows = [[claim, *_plain(cells)] for claim, *cells in _claim_rows(record)]
    lines += _markdown_table(_claim_columns(record), rows)
    for table in record.tables:
        lines += ["", f"## {_table_title(table)}", "", *_about(table), ""]
        rows = [_plain(row) for row in _grid(table)]
        lines += _markdown_table(_columns(table), rows)
    if record.tables:
        lines += ["", "## Cost", ""]
        rows = [_plain(row) for row in _cost_rows(record)]
        lines += _markdown_table(_COST_COLUMNS, rows)
        lines += ["", "## Provenance", ""]
        lines += [f"- {origin}" for origin in _origins_in_short(record)]
        lines += ["", "Every run, with its seed and fold, is in `results.json`."]
    for name, why in record.runs.unread.items():
        lines += ["", f"Not read: `{name}`: {why}"]
    lines += ["", f"Created by `fullrank report` {record.fullrank}, {record.made}."]
    return "\n".join(lines) + "\n"


def _lead(record: ResultsRecord) -> str:
    runs = record.runs
    missing = sum(len(table.missing) for table in record.tables)
    shown = {run.run for _, cell in _measured(record) for run in cell.runs}
    return (
        f"From {len(shown):,} finished runs; {len(runs.unfinished):,} more are "
        "unfinished. Each cell shows our mean ± standard deviation (over seeds, or "
        "over folds on sets with folds) and below it the published number; the best "
        f"of each is in bold. {missing:,} cells have not been run and are marked as "
        "missing."
    )


# Claims


def _claim_columns(record: ResultsRecord) -> list[str]:
    return [
        "claim",
        "published numbers",
        *(f"ours, scale {scale}" for scale in _scales(record)),
        *(f"balanced, scale {scale}" for scale in _balanced_scales(record)),
    ]


def _scales(record: ResultsRecord) -> list[str]:
    return list(dict.fromkeys(table.scale for table in record.tables))


def _balanced_scales(record: ResultsRecord) -> list[str]:
    """The scales of tables with balanced networks that have runs."""
    return [
        scale
        for scale in _scales(record)
        if any(scale in (claim.balanced or {}) for claim in record.claims)
    ]


def _claim_rows(record: ResultsRecord) -> Iterator[list[Any]]:
    for claim in record.claims:
        published = _verdict(claim.published)
        if not claim.published.pairs:
            published = GridCell("not published", css="verdict not-enough-runs")
        ours = [_verdict(claim.scales.get(scale)) for scale in _scales(record)]
        balanced = [
            GridCell("")
            if claim.balanced is None
            else _verdict(claim.balanced.get(scale))
            for scale in _balanced_scales(record)
        ]
        yield [claim.says, published, *ours, *balanced]


def _verdict(verdict: Verdict | None) -> GridCell:
    if verdict is None or not verdict.pairs:
        return GridCell("not run", css="verdict not-enough-runs")
    p = "" if verdict.p is None else f", p = {verdict.p:.2g}"
    return GridCell(
        verdict.verdict,
        note=f"{verdict.wins} of {verdict.pairs} pairs{p}",
        css=f"verdict {verdict.verdict.replace(' ', '-')}",
    )


def _claims(record: ResultsRecord) -> Iterator[Block]:
    yield Text(record.rule)
    yield _table_block(
        _claim_columns(record), _claim_rows(record), "", "claims", left=True
    )


# Tables


def _table_section(table: TableResult) -> Section:
    blocks: list[Block] = [Text(line) for line in _about(table)]
    blocks.append(
        _table_block(_columns(table), _grid(table), "", f"{table.name} {table.scale}")
    )
    return Section(_table_title(table), blocks)


def _table_title(table: TableResult) -> str:
    return f"{table.title}, scale {table.scale} ({table.name})"


def _about(table: TableResult) -> list[str]:
    metrics = dict.fromkeys(
        f"{_metric(column.metric)} ({_DIRECTIONS[column.better]})"
        for column in table.columns
    )
    lines = [
        f"Scale {table.scale}: {table.about}. Measured by {', '.join(metrics)}.",
    ]
    if table.scale != "paper":
        lines.append(
            "The published numbers are at the paper's scale and cannot be compared "
            "with ours; our numbers can be compared with each other."
        )
    if any(cell.train is not None for cell in table.cells):
        lines.append(
            "Training: the same metric on the training part in evaluation mode, at the "
            "chosen epoch (protocol gin: at the last one)."
        )
    folds = dict.fromkeys(cell.folds for cell in table.cells if cell.folds)
    protocols = dict.fromkeys(c.protocol for c in table.columns)
    explained = [_PROTOCOLS[p] for p in protocols if _PROTOCOLS[p]]
    if explained:
        lines.append(f"Protocols — {'; '.join([*explained, *folds])}.")
    return lines


def _metric(name: str) -> str:
    base = name.removesuffix("_pct")
    return f"{_NAMES.get(base, base.upper())}{' in %' if name.endswith('_pct') else ''}"


def _columns(table: TableResult) -> list[str]:
    return ["model", *(_name(c.name, c.protocol) for c in table.columns)]


def _name(column: str, protocol: str) -> str:
    return column if protocol == "split" else f"{column} · {protocol}"


def _grid(table: TableResult) -> Iterator[list[Any]]:
    for row in table.rows:
        name = GridCell(row.name, tag="cited" if row.cited else "")
        yield [name, *(_cell(table, row, column) for column in table.columns)]


def _cell(table: TableResult, row: TableRow, column: TableColumn) -> GridCell:
    metric, name = column.metric, row.name
    number = _published(table, name, column)
    shown = "" if number is None else _spread(number.mean, number.std, metric)
    best = number is not None and number.mean == _best_published(table, column)
    found = table.cell(name, column.name, column.protocol)
    place = name, column.name, column.protocol
    if found is None and all(
        (cell.row, cell.column, cell.protocol) != place for cell in table.missing
    ):  # the row is not for this column
        return GridCell("", value="", published=shown, published_best=best)
    if found is None or found.mean is None:
        note = ""
        if found is not None:
            note = found.note or f"{found.done} of {found.wanted} runs done"
        return GridCell("missing", "", False, shown, best, note=note, css="missing")
    seeds = len(found.by_seed)
    notes = [f"{seeds} seed{'s' * (seeds > 1)}", found.note]
    if found.train is not None:
        notes.append(f"training {_spread(found.train, None, metric)}")
    if len(found.tried) > 1:
        notes.insert(0, f"s = {found.s} of {', '.join(map(str, found.tried))}")
    return GridCell(
        _spread(found.mean, found.std, metric),
        found.mean,
        found.mean == _best_of_ours(table, column),
        shown,
        best,
        note="; ".join(filter(None, notes)),
    )


def _published(
    table: TableResult, row: str, column: TableColumn
) -> PublishedCell | None:
    """The published protocols: one split, or folds with gin."""
    if column.protocol == "fair":
        return None
    numbers = (n for n in table.published if (n.row, n.column) == (row, column.name))
    return next(numbers, None)


def _best_published(table: TableResult, column: TableColumn) -> float | None:
    means = [n.mean for n in table.published if n.column == column.name]
    return _best(means, column)


def _best_of_ours(table: TableResult, column: TableColumn) -> float | None:
    means = [
        cell.mean
        for cell in table.cells
        if (cell.column, cell.protocol) == (column.name, column.protocol)
        and cell.mean is not None
    ]
    return _best(means, column) if len(means) > 1 else None


def _best(means: Sequence[float], column: TableColumn) -> float | None:
    return (max if column.better == "max" else min)(means, default=None)


def _spread(mean: float, std: float | None, metric: str) -> str:
    if metric.endswith("_pct"):
        return f"{mean:.2f}" if std is None else f"{mean:.2f} ± {std:.2f}"
    return f"{mean:.4g}" if std is None else f"{mean:.4g} ± {std:.2g}"


# Curves


def _curve_sections(record: ResultsRecord) -> Iterator[Section]:
    for table in record.tables:
        shown = [
            (f.title, f.rows) for f in record.figures.values() if f.table == table.name
        ]
        ours = tuple(row.name for row in table.rows if not row.cited)
        for title, rows in shown or [(f"Learning curves, {table.title}", ours)]:
            if panels := list(_panels(table, rows)):
                heading = f"{title}, scale {table.scale}"
                figures = Fragment(_macros().panels([panel.html for panel in panels]))
                yield Section(heading, [Text(_CURVES), figures])


_CURVES = (
    "Mean over the runs of a model: solid lines for validation (protocol gin: test), "
    "dotted lines for training. Click on a name to hide it."
)


def _panels(table: TableResult, rows: Sequence[str]) -> Iterator[Figure]:
    import plotly.graph_objects as go

    colors = dict(zip(rows, cycle(PALETTE), strict=False))
    for name, column in zip(_columns(table)[1:], table.columns, strict=True):
        figure = go.Figure()
        for row in rows:
            cell = table.cell(row, column.name, column.protocol)
            for part, curve in (cell.curves if cell else {}).items():
                figure.add_scatter(
                    x=list(range(1, len(curve) + 1)),
                    y=curve,
                    name=row,
                    mode="lines",
                    legendgroup=row,
                    showlegend=part != "train",
                    line={
                        "color": colors[row],
                        "width": 1.5,
                        "dash": "dot" if part == "train" else "solid",
                    },
                    hovertemplate=f"{row}, {part}, epoch %{{x}}: %{{y:.5g}}"
                    "<extra></extra>",
                )
        if not figure.data:
            continue
        figure.update_layout(
            height=320,
            margin={"l": 10, "r": 10, "t": 30, "b": 10},
            title={"text": name, "font": {"size": 14}},
            xaxis_title="epoch",
            yaxis={
                "title": _metric(column.metric),
                "type": "log" if column.better == "min" else "linear",
            },
            legend={"orientation": "h", "y": -0.3, "font": {"size": 11}},
        )
        yield Figure(figure)


# Cost and provenance

_COST_COLUMNS = (
    "table",
    "scale",
    "model",
    "data set",
    "parameters",
    "epochs",
    "seconds per epoch",
    "peak memory, MB",
)


def _cost_rows(record: ResultsRecord) -> Iterator[list[Any]]:
    for table, cell in _measured(record):
        assert cell.peak_memory is not None  # as every cell with a mean has it
        yield [
            table.name,
            table.scale,
            cell.row,
            _name(cell.column, cell.protocol),
            GridCell(f"{cell.parameters:,}", cell.parameters),
            GridCell(str(cell.epochs), cell.epochs),
            GridCell(f"{cell.seconds_per_epoch:.3g}", cell.seconds_per_epoch),
            GridCell(f"{cell.peak_memory / 1e6:,.0f}", cell.peak_memory),
        ]


def _measured(record: ResultsRecord) -> Iterator[tuple[TableResult, CellResult]]:
    for table in record.tables:
        for cell in table.cells:
            if cell.mean is not None:
                yield table, cell


def _costs(record: ResultsRecord) -> Block:
    caption = (
        "Time is the median over the epochs of all runs, including validation; memory "
        "is the peak of the process, including data and libraries. Runs that shared "
        "the machine with others are slower."
    )
    return _table_block(_COST_COLUMNS, _cost_rows(record), caption, "costs")


def _origins(record: ResultsRecord) -> Block:
    columns = (
        "table",
        "model",
        "data set",
        "seed",
        "fold",
        "run (hash of its configuration)",
        "best epoch",
        "commit",
        "machine",
        "versions",
    )
    rows = [
        [
            f"{table.name}, {table.scale}",
            cell.row,
            _name(cell.column, cell.protocol),
            str(run.seed),
            "" if run.fold is None else str(run.fold),
            run.run,
            str(run.best_epoch + 1),
            ", before that ".join(map(_short, _commits(run))),
            run.machine,
            run.versions,
        ]
        for table, cell in _measured(record)
        for run in cell.runs
    ]
    return _table_block(columns, rows, "", "runs", left=True)


def _commits(run: RunRecord) -> list[str | None]:
    """The commit of the last epoch of a run, and those of earlier epochs."""
    return [run.commit, *reversed(run.earlier_commits)]


def _short(commit: str | None) -> str:
    """``0123456789ab``, and whether the source had uncommitted changes."""
    name, _, changed = (commit or "none").partition("-")
    return f"{name[:12]}{', changed' if changed else ''}"


def _origins_in_short(record: ResultsRecord) -> list[str]:
    origins: dict[str, set[str]] = {}
    for _, cell in _measured(record):
        for run in cell.runs:
            commits = ", before that ".join(map(str, _commits(run)))
            origin = f"{run.machine}; {run.versions}; commit {commits}"
            origins.setdefault(origin, set()).add(run.run)
    return [f"{len(runs):,} runs: {origin}" for origin, runs in origins.items()]


# Rendering


@cache
def _macros() -> Any:
    return templates().get_template("reproduction.html").module


def _table_block(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    caption: str,
    label: str,
    left: bool = False,
) -> Block:
    return Fragment(_macros().grid(columns, list(rows), caption, label, left))


def _plain(cells: Iterable[Any]) -> list[str]:
    return [cell if isinstance(cell, str) else _in_words(cell) for cell in cells]


def _in_words(cell: GridCell) -> str:
    text = f"**{cell.text}**" if cell.best else cell.text
    published = f"**{cell.published}**" if cell.published_best else cell.published
    published = f"paper {published}" if published else ""
    tag = f"({cell.tag})" if cell.tag else ""
    note = f"<sub>{cell.note}</sub>" if cell.note else ""
    first = " ".join(filter(None, [text, tag]))
    return "<br>".join(filter(None, [first, published, note]))


def _markdown_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]]
) -> Iterator[str]:
    escaped = [[text.replace("|", "\\|") for text in row] for row in [columns, *rows]]
    yield f"| {' | '.join(escaped[0])} |"
    yield f"|{' --- |' * len(columns)}"
    for row in escaped[1:]:
        yield f"| {' | '.join(row)} |"
