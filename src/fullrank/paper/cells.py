"""The paper's tables and figures, and one of our own, as data: which runs each cell
stands for."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

from fullrank.errors import ConfigError, nearest
from fullrank.paper.ready import (
    figure_values,
    paper_file,
    read_yaml,
    ready_config,
    table_names,
)
from fullrank.train.config import AGGREGATORS, Config, parse

SCALES = ("paper", "small")
#: How a number is measured: ``gin`` and ``fair`` on folds, ``split`` on one split.
Protocol = Literal["gin", "fair", "split"]
ON_FOLDS: tuple[Protocol, ...] = ("gin", "fair")
ONE_SPLIT: Protocol = "split"
# Replaced by a scale, not changed: the options of one schedule mean nothing to another.
_WHOLE = ("optimizer", "schedule")
# What a model with a name of its own takes over from the configuration of a GraphNet.
_SHARED_BY_ALL = ("layers", "hidden", "dropout")
Changes = dict[str, dict[str, Any]]


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Row(_Data):
    """A model: the part of its configuration that is its own.

    Attributes:
        conv: The convolution of a `GraphNet`.
        name: Another model by name, with the arguments ``args``.
        structure: What the graphs are coloured by, for models that read colours.
        columns: The data sets that it is for; all of the table by default.
        paper, small: What a scale changes for this row only: its published settings.
    """

    conv: str | None = None
    name: str | None = None
    args: dict[str, Any] | None = None
    s: int | Literal["choose"] | None = None
    re_sum: bool | None = None
    init: str | None = None
    norm_encoder: bool | None = None
    norm_readout: bool | None = None
    virtual_node: bool | None = None
    structure: dict[str, Any] | None = None
    columns: tuple[str, ...] = ()
    paper: Changes = {}
    small: Changes = {}

    @property
    def family(self) -> str:
        """Whose hyperparameters it is trained with."""
        return "combc" if (self.conv or "").startswith("combc") else "expc"

    @property
    def model(self) -> dict[str, Any]:
        """Its part of the section ``model``."""
        other = {"structure", "columns", "paper", "small"}
        return self.model_dump(exclude_none=True, exclude=other)


class Column(_Data):
    """A data set or target.

    Attributes:
        like: The column whose ready configurations are taken, if it has none.
        s: What ``s: choose`` chooses from.
        paper, small: What a scale changes for this column only.
    """

    like: str | None = None
    s: tuple[int, ...] = ()
    paper: Changes = {}
    small: Changes = {}


class Scale(_Data):
    """How large the runs are.

    Attributes:
        about: In a few words.
        seeds: How many, if not asked for otherwise.
        seeds_of_folds: How many on data sets with folds.
        settings: Laid over the ready configuration of every column.
    """

    about: str
    seeds: int
    seeds_of_folds: int = 1
    settings: Changes = {}


class PaperTable(_Data):
    """Rows of models, columns of data sets, and two scales."""

    title: str
    rows: dict[str, Row]
    columns: dict[str, Column]
    scales: dict[str, Scale]


class PaperFigure(_Data):
    """Learning curves of some rows of a table."""

    title: str
    table: str
    rows: tuple[str, ...]


@dataclass(frozen=True)
class PlannedCell:
    """One number of a table, by one protocol.

    Attributes:
        candidates: An experiment for each s to choose from; ``None`` means no choice.
    """

    table: str
    scale: str
    row: str
    column: str
    protocol: Protocol
    candidates: Mapping[int | None, Config]

    @property
    def place(self) -> tuple[str, str, Protocol]:
        """Row, column and protocol."""
        return self.row, self.column, self.protocol

    def candidate(self, s: int | None) -> Config | None:
        """The experiment with this s, which None leaves to the row."""
        fixed = self.candidates.get(None)
        if fixed is not None:
            return fixed if s in (None, fixed.model.s) else None
        return self.candidates.get(s)

    def only(self, s: int | None) -> "PlannedCell":
        """The same cell without a choice of s."""
        return replace(self, candidates={s: self.candidates[s]})


@cache
def load_table(name: str) -> PaperTable:
    """The table of that name."""
    if name not in table_names():
        raise ConfigError(
            f"there is no table {name!r}{nearest(name, [*table_names(), *figures()])}; "
            f"there are {', '.join([*table_names(), *figures()])}"
        )
    values = read_yaml(paper_file("tables") / f"{name}.yaml")
    if isinstance(values["scales"], str):  # those of another table
        values["scales"] = load_table(values["scales"]).scales
    return PaperTable.model_validate(values)


def figures() -> dict[str, PaperFigure]:
    """The learning-curve figures by name."""
    return {
        name: PaperFigure.model_validate(values)
        for name, values in figure_values().items()
    }


def cells(
    name: str,
    scale: str,
    only: Sequence[str] = (),
    seeds: int | None = None,
    epochs: int | None = None,
    folds: Path | None = None,
    runs: Path = Path("runs"),
) -> list[PlannedCell]:
    """The cells of a table or figure that can be run, row by row.

    Args:
        name: Of the table or figure.
        scale: ``paper`` or ``small``.
        only: Models, data sets and protocols; all where none is named.
        seeds: How many, instead of the table's.
        epochs: How many, instead of the table's.
        folds: A folder with the folds of Zhang et al. for each set, ``NAME/``.
        runs: The folder of run folders.
    """
    figure = figures().get(name)
    name = figure.table if figure else name
    table = load_table(name)
    if scale not in table.scales:
        raise ConfigError(
            f"there is no scale {scale!r}{nearest(scale, SCALES)}; "
            f"there are {' and '.join(SCALES)}"
        )
    chosen = _Chosen(table, figure.rows if figure else table.rows, only)
    return [
        PlannedCell(name, scale, row, column, protocol, candidates)
        for row in chosen.rows
        for column in chosen.columns
        if column in (table.rows[row].columns or chosen.columns)
        for protocol, candidates in _experiments(
            table, scale, row, column, seeds, epochs, folds, runs
        )
        if protocol in chosen.protocols
    ]


@cache
def all_cells(name: str, scale: str) -> tuple[PlannedCell, ...]:
    """The cells of a table as it is, which reading results asks for again and again."""
    return tuple(cells(name, scale))


class _Chosen:
    """The rows, columns and protocols that ``only`` names."""

    def __init__(
        self, table: PaperTable, rows: Sequence[str] | Mapping, only: Sequence[str]
    ) -> None:
        short = {column.rpartition("/")[2]: column for column in table.columns}
        names = [short.get(name, name) for name in only]
        protocols = (*ON_FOLDS, ONE_SPLIT)
        for name in names:
            if name not in (*rows, *table.columns, *protocols):
                known = [*rows, *table.columns, *short, *protocols]
                raise ConfigError(
                    f"no model, data set or protocol is called {name!r}"
                    f"{nearest(name, known)}; models: {', '.join(rows)}; data sets: "
                    f"{', '.join(table.columns)}; protocols: {', '.join(protocols)}"
                )
        self.rows = [row for row in rows if row in names] or list(rows)
        self.columns = [c for c in table.columns if c in names] or list(table.columns)
        self.protocols = [p for p in protocols if p in names] or list(protocols)


def _experiments(
    table: PaperTable,
    scale: str,
    row: str,
    column: str,
    seeds: int | None,
    epochs: int | None,
    folds: Path | None,
    runs: Path,
) -> Iterator[tuple[Protocol, dict[int | None, Config]]]:
    """Each protocol of a cell with its experiments."""
    model, place, size = table.rows[row], table.columns[column], table.scales[scale]
    ready = (place.like or column).replace("/", "-")
    values = deepcopy(_ready(f"{model.family}/{ready}"))
    if place.like:
        values["data"]["name"] = column
    for changes in (size.settings, getattr(place, scale), getattr(model, scale)):
        for section, new in changes.items():
            kept = {} if section in _WHOLE else values.get(section, {})
            values[section] = kept | new
    if epochs is not None:
        if values["schedule"]["name"] != "step":
            raise ConfigError(
                f"at the scale {scale} the schedule is {values['schedule']['name']} "
                f"over all epochs, so runs of {epochs} epochs would be different "
                f"ones; leave the number of epochs to the table"
            )
        values["training"]["epochs"] = epochs
    values["runs"] = runs
    in_folds = values.get("split", {}).get("kind") in ON_FOLDS
    seeds = seeds or (size.seeds_of_folds if in_folds else size.seeds)
    values["seeds"] = list(range(seeds))
    for protocol in ON_FOLDS if in_folds else (ONE_SPLIT,):
        if in_folds:
            values["split"]["kind"] = protocol
            # Zhang et al. have ten folds.
            if folds is not None and values["split"].get("folds", 10) == 10:
                values["split"]["folder"] = folds / column
        yield protocol, _candidates(values, model, place)


@cache  # hundreds of cells are made of a few dozen files
def _ready(name: str) -> dict[str, Any]:
    return yaml.safe_load(ready_config(name))


def _candidates(
    values: dict[str, Any], row: Row, column: Column
) -> dict[int | None, Config]:
    own = row.model
    if row.structure is not None:
        values = {**values, "data": values["data"] | {"structure": row.structure}}
    shared = {
        key: value
        for key, value in values["model"].items()
        if key not in ("conv", "s", "re_sum")
        and (row.name is None or key in _SHARED_BY_ALL)
    }
    if row.s != "choose":
        return {None: parse({**values, "model": shared | own})}
    assert row.conv in AGGREGATORS
    return {s: parse({**values, "model": shared | own | {"s": s}}) for s in column.s}
