"""Run folders: the only code that knows their files and formats."""

import csv
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout
from pydantic import Field

from fullrank.data import Split
from fullrank.errors import FullrankError, RunError, quoted
from fullrank.pretrained import names, resolve, unknown
from fullrank.train.config import Config, load_config
from fullrank.train.environment import Environment
from fullrank.train.files import Record, remove_leftovers, write_json, write_text

Checkpoint = Literal["last", "best"]
Measures = dict[str, float | None]
_IDENTITY = "run.json"
_SUMMARY = "summary.json"


class Identity(Record):
    """The identity of a run, determined when it starts.

    Attributes:
        format: The format version of the run folder.
        id: The name of the folder.
        data: The fingerprint of the data.
        folds: The fingerprint of the files that define the folds, if any.
        dataset: The name of the data set.
        graphs: Number of graphs in the data set.
    """

    format: Literal[2] = 2
    id: str
    data: str
    folds: str | None
    dataset: str
    graphs: int


def measures(values: Mapping[str, float]) -> Measures:
    """The values with NaN replaced by None, for JSON."""
    return {k: None if math.isnan(v) else float(v) for k, v in values.items()}


class Result(Record):
    """The result of a finished run.

    Attributes:
        run: The id of the run.
        metric: The metric that chooses the best epoch.
        best_epoch: The epoch of the scores, numbered from 0.
        train, valid, test: The scores of each part; None means undefined. Those of the
            training part are averages over the epoch, with dropout.
        train_eval: The scores of the training part in evaluation mode, with the weights
            of the best epoch.
        graphs: Number of graphs in each part.
        seconds: Total time of all epochs.
        seconds_per_epoch: Median time per epoch.
        peak_memory: In bytes.
    """

    run: str
    dataset: str
    conv: str
    seed: int
    fold: int | None
    metric: str
    epochs: int
    stopped_early: bool
    best_epoch: int
    train: Measures
    valid: Measures
    test: Measures
    train_eval: Measures = Field(default_factory=dict)
    graphs: dict[str, int]
    parameters: int
    seconds: float
    seconds_per_epoch: float
    peak_memory: int


class MetricSummary(Record):
    """A metric over several runs."""

    mean: float | None
    std: float | None
    values: list[float | None]


class Summary(Record):
    """The combined results of the runs of an experiment.

    Attributes:
        experiment: The name of the experiment's folder; the id of a single run.
        protocol: ``gin``, ``fair``, or ``split`` for one split.
        epochs: ``gin``: the epoch chosen for each seed.
        ensemble: Number of runs per ensemble, if more than one; ``test`` then contains
            the scores of these ensembles.
        runs: The ids of the runs.
    """

    experiment: str
    dataset: str
    conv: str
    protocol: str
    metric: str
    epochs: list[int] | None
    test: dict[str, MetricSummary]
    parameters: int
    seconds: float
    seconds_per_epoch: float
    peak_memory: int
    runs: list[str]
    ensemble: int | None = None


@dataclass(frozen=True)
class Curve:
    """One row of numbers per epoch."""

    rows: tuple[Mapping[str, float], ...]
    file: Path = field(compare=False)

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[float]:
        """The values of one column."""
        for epoch, row in enumerate(self.rows):
            if name not in row:
                raise RunError(
                    f"{self.file} has no {name!r} for epoch {epoch}, only "
                    f"{', '.join(row)}"
                )
        return [row[name] for row in self.rows]


class CurveFile:
    """A CSV file with one row per epoch, written atomically."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def read(self) -> Curve:
        """The complete rows."""
        if not self.file.exists():
            return Curve((), self.file)
        try:
            lines = self.file.read_text(encoding="utf-8").split("\n")[:-1]
            rows = [
                {name: float(text) for name, text in row.items() if text}
                for row in csv.DictReader(lines)
            ]
        except (ValueError, TypeError, csv.Error) as error:
            raise RunError(
                f"{self.file} is not a table of numbers: {quoted(str(error))}"
            ) from None
        return Curve(tuple(rows), self.file)

    def cut(self, epochs: int) -> None:
        """Keep the rows of the first ``epochs``; later epochs are repeated."""
        rows = self.read().rows
        if len(rows) < epochs:
            raise RunError(
                f"{self.file} has {len(rows)} rows, but {epochs} epochs are saved; "
                f"restore it, or move the run folder away to start again"
            )
        self._write(rows[:epochs])

    def add(self, epoch: int, row: Mapping[str, float]) -> None:
        """Append the row of an epoch; new columns may be added later."""
        self._write([*self.read().rows, {"epoch": epoch, **row}])

    def _write(self, rows: Any) -> None:
        columns = list(dict.fromkeys(name for row in rows for name in row))
        lines = [columns] if columns else []
        lines += [[_text(name, row.get(name)) for name in columns] for row in rows]
        write_text(self.file, "".join(",".join(line) + "\n" for line in lines))


def _text(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return str(int(value)) if name == "epoch" else repr(float(value))


class RunFolder:
    """The folder of one run.

    The properties read typed objects and recompute nothing. A file that is damaged or
    of another version raises a `RunError`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunFolder) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    @classmethod
    def open(cls, path: str | Path) -> "RunFolder":
        """Open an existing run folder."""
        run = cls(path)
        if not run.begun:
            raise RunError(
                f"{str(path)!r} is not a run folder; training prints where its runs are"
            )
        return run

    @classmethod
    def all_in(cls, folder: Path) -> list["RunFolder"]:
        """All runs in a folder of runs, sorted by name."""
        return [cls(file.parent) for file in sorted(folder.glob(f"*/{_IDENTITY}"))]

    @property
    def id(self) -> str:
        return Path(os.path.abspath(self.path)).name  # works for ".", too

    @property
    def begun(self) -> bool:
        """Whether a run was started in this folder."""
        return (self.path / _IDENTITY).exists()

    @property
    def identity(self) -> Identity:
        found = Identity.read(self.path / _IDENTITY)
        if found.id != self.id:
            raise RunError(
                f"{self.path} contains the run {found.id}; rename the folder back to "
                f"this name"
            )
        return found

    @property
    def config(self) -> Config:
        """The configuration, with ``runs`` set to the current parent folder."""
        try:
            found = load_config(self.path / "config.yaml")
        except FullrankError as error:
            raise RunError(
                f"the configuration of {self.path} is not valid in this version of "
                f"fullrank: {error}"
            ) from None
        return found.model_copy(update={"runs": self.path.parent})

    @property
    def split(self) -> Split:
        return Split.load(self.path / "split.json")

    @property
    def environment(self) -> Environment:
        return Environment.read(self.path / "environment.json")

    @property
    def curve(self) -> Curve:
        """The metrics of each epoch."""
        return self.metrics_file.read()

    @property
    def seconds(self) -> list[float]:
        """The duration of each epoch."""
        return self.times_file.read().column("seconds")

    @property
    def metrics_file(self) -> CurveFile:
        return CurveFile(self.path / "metrics.csv")

    @property
    def times_file(self) -> CurveFile:
        return CurveFile(self.path / "times.csv")

    @property
    def model_file(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def checkpoint(self, name: Checkpoint) -> Path:
        return self.checkpoints / f"{name}.ckpt"

    @property
    def result(self) -> Result | None:
        """The result, or None if the run is not finished."""
        file = self.path / "result.json"
        return Result.read(file) if file.exists() else None

    def check_finished(self) -> None:
        """Refuse a run that has no model yet."""
        if self.result is None:
            raise RunError(
                f"the run {self.path} is not finished and has no model; resume it with "
                f"the same command"
            )

    def begin(
        self, identity: Identity, config: Config, split: Split, here: Environment
    ) -> None:
        """Write the files that define the run."""
        remove_leftovers(self.path)
        write_text(self.path / "config.yaml", config.text())
        write_json(self.path / "split.json", split.to_json())
        here.write(self.path / "environment.json")
        identity.write(self.path / _IDENTITY)

    def finish(self, result: Result) -> None:
        """Write the result."""
        result.write(self.path / "result.json")

    def small_files(self) -> dict[str, str]:
        """All files except the weights, to be sent to another machine."""
        return {
            file.name: file.read_text(encoding="utf-8")
            for pattern in ("*.json", "*.yaml", "*.csv")
            for file in self.path.glob(pattern)
        }

    def write_small_files(self, files: Mapping[str, str]) -> None:
        """Write the files that `small_files` returned on another machine."""
        self.path.mkdir(parents=True, exist_ok=True)
        for name in sorted(files, key=lambda name: name == "result.json"):
            write_text(self.path / Path(name).name, files[name])

    @contextmanager
    def locked(self, wait: float = 0) -> Iterator[None]:
        """Lock the run; remove the folder if the run does not start."""
        self.path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path / ".lock")
        try:
            lock.acquire(timeout=wait)
        except Timeout:
            raise RunError(
                f"another process is already working on the run {self.path}"
            ) from None
        with lock:
            try:
                yield
            finally:
                if [file.name for file in self.path.iterdir()] == [".lock"]:
                    shutil.rmtree(self.path)


class ExperimentFolder:
    """The folder of an experiment; the folders of its runs are its siblings."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def exists(self) -> bool:
        return (self.path / _SUMMARY).exists()

    @property
    def summary(self) -> Summary:
        return Summary.read(self.path / _SUMMARY)

    @property
    def runs(self) -> list[RunFolder]:
        """The folders of the runs."""
        names = self.summary.runs
        for name in names:
            if not re.fullmatch(r"[^/\\\0]+", name) or name.startswith("."):
                raise RunError(
                    f"{self.path / _SUMMARY} refers to the run {name!r}, which is not "
                    f"a folder next to it"
                )
        return [RunFolder.open(self.path.parent / name) for name in names]

    def write(self, config: Config, summary: Summary) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        write_text(self.path / "config.yaml", config.text())
        summary.write(self.path / _SUMMARY)


def open_runs(folder: str | Path) -> list[RunFolder]:
    """The run in ``folder``, or the runs of the experiment there."""
    experiment = ExperimentFolder(folder)
    return experiment.runs if experiment.exists else [RunFolder.open(folder)]


def model_files(model: str | Path) -> list[Path]:
    """The model files that a path or a name stands for.

    Args:
        model: A model file, a run folder, the folder of an experiment with several
            runs, or the name of a model that comes with the package.
    """
    path = resolve(model)
    if not path.exists():
        raise unknown(model)
    if path.is_file():
        return [path]
    try:
        runs = open_runs(path)
    except RunError as error:
        if str(model) not in names():
            raise
        raise RunError(
            f"{error}; it hides the model {str(model)!r} that comes with fullrank: "
            f"rename it, or run the program in another folder"
        ) from None
    for run in runs:
        run.check_finished()
    return [run.model_file for run in runs]
