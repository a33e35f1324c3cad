"""What the runs say about the paper: the typed content of ``results.json``."""

import json
import math
import re
import statistics
from collections.abc import Iterator
from operator import mul
from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import (
    BaseModel,
    ConfigDict,
    PositiveInt,
    ValidationError,
    model_validator,
)

from fullrank.data.parsing import parse_json
from fullrank.errors import RunError
from fullrank.paper.cells import PaperFigure, Protocol
from fullrank.paper.published import Better
from fullrank.train.files import write_text

FORMAT: Final = 3
_READABLE = (1, 2, FORMAT)
ZHANG = "folds of Zhang et al."
_DIGITS = 5

#: One number per epoch; None is not a number.
Values = list[float | None]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Verdict(_Part):
    """What the runs at one scale, or the published numbers, say about a claim."""

    verdict: Literal["holds", "does not", "not enough runs"]
    wins: int
    pairs: int
    p: float | None


class ClaimResult(_Part):
    """A claim with the verdicts of the paper's own numbers and of ours.

    Attributes:
        scales: The verdict of our runs at each scale.
        balanced: The same in balanced networks, if these are planned.
    """

    says: str
    table: str
    published: Verdict
    scales: dict[str, Verdict]
    balanced: dict[str, Verdict] | None = None


class RunRecord(_Part):
    """Where a number comes from.

    Attributes:
        run: The id that the run had.
        best_epoch: Counted from 0.
        commit: Of the source that the run ended with; the first epochs may be from
            `earlier_commits`.
        epochs: How many were planned.
        s: Aggregators or heads, for models that have them. Format 1 has that of the
            cell only.
        valid: The metric on validation, in the units of the table. Format 1 has none.
        train: The metric on the training part in evaluation mode, where it was taken.
        data: The fingerprint of the content of the data. Format 1 has none.
    """

    run: str
    seed: int
    fold: int | None
    best_epoch: int
    commit: str | None
    earlier_commits: list[str | None] = []
    machine: str
    versions: str
    epochs: PositiveInt
    s: int | None = None
    valid: float | None = None
    train: float | None = None
    data: str | None = None


class KnownRun(NamedTuple):
    """A finished run that a cell knows of."""

    s: int | None
    seed: int
    fold: int | None
    epochs: int
    valid: float | None


class CellResult(_Part):
    """A number of ours, or what is missing for it.

    Attributes:
        mean, std: Over seeds, or over the folds of all seeds, as the paper does; in the
            units of the paper's table.
        by_seed: The value of each seed.
        s: The one that was chosen on validation, and `tried` ones.
        wanted, done: Runs of the table's own number of seeds, and finished ones.
        note: What a reader must know about the number.
        epochs, longer: How long the runs were, and by how much longer than planned.
        folds: Whose they are.
        curves: Mean over the runs, for each epoch: ``train`` and the part watched.
        runs: Those that the number is made of.
        other_runs: Those with an s that was not chosen; format 1 does not have them.
    """

    row: str
    column: str
    protocol: Protocol
    wanted: int
    done: int
    mean: float | None = None
    std: float | None = None
    by_seed: dict[int, float] = {}
    s: int | None = None
    tried: list[int] = []
    note: str = ""
    epochs: int | None = None
    longer: int = 0
    parameters: int | None = None
    seconds_per_epoch: float | None = None
    peak_memory: int | None = None
    folds: str = ""
    curves: dict[str, Values] = {}
    runs: list[RunRecord] = []
    other_runs: list[RunRecord] | None = None

    @model_validator(mode="after")
    def _check(self) -> "CellResult":
        needed = ("epochs", "parameters", "seconds_per_epoch", "peak_memory")
        missing = [name for name in needed if getattr(self, name) is None]
        if self.mean is not None and (missing or not self.by_seed):
            raise ValueError(f"a cell with a mean needs {', '.join(missing)}, by_seed")
        return self

    @property
    def place(self) -> tuple[str, str, Protocol]:
        """Row, column and protocol."""
        return self.row, self.column, self.protocol

    @property
    def on_folds_of_zhang(self) -> bool:
        return self.folds.endswith(ZHANG)

    @property
    def train(self) -> float | None:
        """The mean on the training parts in evaluation mode, if all runs have one."""
        values = [run.train for run in self.runs]
        known = [value for value in values if value is not None]
        return statistics.fmean(known) if known and known == values else None

    @property
    def untried(self) -> list[int]:
        """The s that were not run yet, which only the note says in format 1."""
        found = re.search(r"s = ([\d, ]+) not run yet", self.note)
        return [int(s) for s in found[1].split(", ")] if found else []

    def known_runs(self) -> Iterator[KnownRun]:
        """All runs that the cell stands for.

        Format 1 lists those with the chosen s alone; but s was chosen on seeds that
        every s was run with.
        """
        for run in (*self.runs, *(self.other_runs or ())):
            s = self.s if run.s is None else run.s
            yield KnownRun(s, run.seed, run.fold, run.epochs, run.valid)
        if self.other_runs is None and self.protocol != "gin":
            for s in set(self.tried) - {self.s, *self.untried}:
                for run in self.runs:
                    yield KnownRun(s, run.seed, run.fold, run.epochs, None)

    def joined(self, other: "CellResult") -> "CellResult":
        """The cell of the seeds of both, or the one with more runs where they share
        seeds or cannot be one: with folds, a choice of s, another length or other data.
        Time and memory are those of this one's runs."""
        alike = (self.s, self.epochs) == (other.s, other.epochs)
        data = {run.data for run in (*self.runs, *other.runs)} - {None}
        chosen = self.folds or len(self.tried) > 1
        shared = self.by_seed.keys() & other.by_seed.keys()
        if not alike or chosen or shared or len(data) > 1:
            return max(self, other, key=lambda cell: (bool(cell.by_seed), cell.done))
        by_seed = dict(sorted({**self.by_seed, **other.by_seed}.items()))
        shares = [len(cell.by_seed) / len(by_seed) for cell in (self, other)]

        def mean(*values: float | None) -> float | None:
            known = [value for value in values if value is not None]
            return rounded(sum(map(mul, shares, known))) if known == [*values] else None

        return self.model_copy(
            update={
                "done": self.done + other.done,
                "mean": statistics.fmean(by_seed.values()),
                "std": statistics.stdev(by_seed.values()),
                "by_seed": by_seed,
                "curves": {
                    part: list(map(mean, curve, other.curves[part]))
                    for part, curve in self.curves.items()
                    if part in other.curves
                },
                "runs": in_order([*self.runs, *other.runs]),
            }
        )


class MissingCell(_Part):
    """A cell without a finished run; `runs` are wanted."""

    row: str
    column: str
    protocol: Protocol
    runs: int


class PublishedCell(_Part):
    """A number as the paper prints it."""

    row: str
    column: str
    mean: float
    std: float | None


class TableRow(_Part):
    """A model; `cited` if we do not run it."""

    name: str
    cited: bool


class TableColumn(_Part):
    """A data set or target by one protocol."""

    name: str
    protocol: Protocol
    metric: str
    better: Better


class TableResult(_Part):
    """A table at one scale, ours and published."""

    name: str
    title: str
    scale: str
    about: str
    rows: list[TableRow]
    columns: list[TableColumn]
    cells: list[CellResult]
    missing: list[MissingCell]
    published: list[PublishedCell]

    def cell(self, row: str, column: str, protocol: str) -> CellResult | None:
        wanted = (row, column, protocol)
        return next((cell for cell in self.cells if cell.place == wanted), None)


class RunCounts(_Part):
    """What a folder of runs holds.

    Attributes:
        finished: How many runs.
        unfinished: Ids of those that have no result yet.
        unread: Why a run could not be read, by its folder's name.
    """

    finished: int
    unfinished: list[str]
    unread: dict[str, str]


class ResultsRecord(_Part):
    """Everything that the runs say about the paper.

    Attributes:
        fullrank: The version that made it.
        made: When.
        rule: How claims are judged.
    """

    format: Literal[3] = FORMAT
    fullrank: str
    made: str
    runs: RunCounts
    rule: str
    claims: list[ClaimResult]
    tables: list[TableResult]
    figures: dict[str, PaperFigure]

    def write(self, file: Path) -> None:
        """Write it, all of it or nothing."""
        values = self.model_dump(mode="json")
        text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
        write_text(file, text + "\n")


def read_record(file: Path) -> ResultsRecord:
    """Read what `ResultsRecord.write` wrote, also by earlier versions."""
    hint = "`fullrank report RUNS` makes such a file from a folder of runs"
    try:
        values = parse_json(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise RunError(f"{file} is not a results.json: {error}; {hint}") from None
    if not isinstance(values, dict) or "format" not in values:
        raise RunError(f"{file} is not a results.json: it has no format; {hint}")
    if values["format"] not in _READABLE:
        raise RunError(
            f"{file} has the format {values['format']!r}, but this version of fullrank "
            f"reads {', '.join(map(str, _READABLE))}; use the version that wrote it"
        )
    try:
        return ResultsRecord.model_validate(values | {"format": FORMAT})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise RunError(
            f"{file} is not a results.json, or damaged: {key}: {first['msg']}; {hint}"
        ) from None


def in_order(runs: list[RunRecord]) -> list[RunRecord]:
    """By seed and fold."""
    return sorted(
        runs, key=lambda run: (run.seed, -1 if run.fold is None else run.fold)
    )


def rounded(value: float) -> float | None:
    """A point of a curve as it is written, or None if it is not a number."""
    short = float(f"{value:.{_DIGITS}g}")
    return short if math.isfinite(short) else None
