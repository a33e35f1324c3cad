"""Predictions for tables of SMILES, SDF files and folders of graphs.

Only a few blocks of a file are in memory at a time. The output gets its final name when
it is complete; an interrupted prediction can be resumed.
"""

import hashlib
import io
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from fullrank import interrupt
from fullrank.data.cache import shown
from fullrank.data.featurizers import (
    GraphFeaturizer,
    featurize,
    need_chemistry,
)
from fullrank.data.files import content_digest
from fullrank.data.sdf import read_entries, sdf_texts
from fullrank.data.tables import (
    TableReader,
    delimiter_of,
    estimated_rows,
    open_table,
    table_text,
)
from fullrank.data.workers import available_cpus, batched, map_blocks
from fullrank.errors import ConfigError, DataError, FullrankError
from fullrank.interrupt import Interrupted, stoppable
from fullrank.train.config import digest_of
from fullrank.train.files import Record
from fullrank.train.predict import MOLECULES_AT_ONCE, Predictor, predicted_row
from fullrank.train.predict_on_ray import predict_on_ray

Rows = list[list[Any]]


@dataclass(frozen=True)
class FileOptions:
    """Options for predicting a file.

    Attributes:
        smiles: Column of the SMILES; by default named as in training.
        columns: Columns of the table to copy; all by default.
        replace: Whether to overwrite columns of the table that have the name of a
            prediction.
        prefix: Prefix of the names of the predictions.
        interval: Coverage of the intervals in percent; none by default.
        workers: Number of featurisation processes; by default one per processor.
        ray: Address of a Ray cluster that predicts a table, or ``auto``.
        resume: Whether to resume an interrupted prediction.
        progress: Whether to show a progress bar.
    """

    smiles: str | None = None
    columns: Sequence[str] | None = None
    replace: bool = False
    prefix: str = ""
    interval: float | None = None
    workers: int | None = None
    ray: str | None = None
    resume: bool = False
    progress: bool = False


@dataclass(frozen=True)
class PredictionCount:
    """The number of rows that were predicted, and why the others were not.

    Attributes:
        resumed: Number of rows from an interrupted prediction.
    """

    predicted: int = 0
    failed: int = 0
    first_reason: str = ""
    resumed: int = 0

    @property
    def total(self) -> int:
        return self.predicted + self.failed

    def plus(self, rows: Rows) -> "PredictionCount":
        """The count with these rows, whose last cell is the reason or None."""
        reasons = [row[-1] for row in rows if row[-1] is not None]
        return PredictionCount(
            self.predicted + len(rows) - len(reasons),
            self.failed + len(reasons),
            self.first_reason or next(iter(reasons), ""),
            self.resumed,
        )


def predict_file(
    predictor: Predictor, source: Path, output: Path, options: FileOptions | None = None
) -> PredictionCount:
    """Predict for a table of SMILES, an SDF file or a folder of graphs.

    The output has the rows and columns of a table in order, followed by the
    predictions.
    """
    options = options or FileOptions()
    if not source.exists():
        raise DataError(f"there is no file or folder {str(source)!r}")
    if output.resolve() == source.resolve():
        raise ConfigError(f"{output} is the input; choose another output")
    is_table = source.is_file() and source.suffix.lower() != ".sdf"
    if options.ray is not None and not is_table:
        raise ConfigError(f"{source} is not a table; a cluster supports only tables")
    if source.is_dir():
        read = _folder_rows
    else:
        read = _sdf_rows if source.suffix.lower() == ".sdf" else _table_rows
    unfinished = _Unfinished(output, _key(predictor, source, options), options.resume)
    blocks = read(predictor, source, options, unfinished.count.total)
    with stoppable(), unfinished:
        unfinished.begin(next(blocks)[0])
        for rows in blocks:
            unfinished.append(rows)
            if interrupt.asked():
                raise Interrupted(
                    f"stopped; {unfinished.part} contains {unfinished.count.total:,} "
                    f"rows, and resuming continues after them"
                )
        unfinished.complete()
    return unfinished.count


def _key(predictor: Predictor, source: Path, options: FileOptions) -> str:
    """The values that must not change when a prediction is resumed."""
    how = asdict(replace(options, workers=None, ray=None, resume=False, progress=False))
    content = None if source.is_dir() else content_digest(source)
    return digest_of([[m.digest for m in predictor.models], content, how])


class _Progress(Record):
    """The progress of a prediction.

    Attributes:
        key: The result of `_key`.
        size: Size of the complete rows in bytes.
        count: Counts of these rows.
        sha256: Checksum of all of this and of the rows.
    """

    key: str
    size: int
    count: PredictionCount
    sha256: str

    @classmethod
    def of(cls, key: str, size: int, count: PredictionCount, rows: str) -> "_Progress":
        """The progress with its checksum; ``rows`` is the hash of the rows."""
        sha256 = digest_of([key, size, asdict(count), rows])
        return cls(key=key, size=size, count=count, sha256=sha256)


class _Unfinished:
    """The rows of an incomplete table, and a file with the progress."""

    def __init__(self, file: Path, key: str, resume: bool) -> None:
        self.file, self._key = file, key
        self.part = file.with_name(f"{file.name}.part")
        self._note = file.with_name(f"{file.name}.part.json")
        self._delimiter = delimiter_of(file)
        self.count, self._size, self._hash = PredictionCount(), 0, hashlib.sha256()
        if self._note.exists():
            self._continue(_Progress.read(self._note), resume)

    def _continue(self, before: _Progress, resume: bool) -> None:
        rows = f"{before.count.total:,} rows of an interrupted prediction"
        if not resume:
            raise ConfigError(
                f"{self.part} contains {rows}: resume it, or delete {self._note}"
            )
        if before.key != self._key:
            raise ConfigError(
                f"{self.part} contains {rows} with another model, input or options; "
                f"delete {self._note} to start again"
            )
        self._read_rows(before.size)
        found = self._hash.hexdigest()
        if before != _Progress.of(before.key, self._size, before.count, found):
            raise DataError(
                f"{self.part} or {self._note} is damaged; delete both to start again"
            )
        self.count = replace(before.count, resumed=before.count.total)

    def _read_rows(self, size: int) -> None:
        """Hash the complete rows."""
        with self.part.open("rb") if self.part.exists() else io.BytesIO() as stream:
            while block := stream.read(max(0, min(size - self._size, 2**20))):
                self._hash.update(block)
                self._size += len(block)

    def __enter__(self) -> "_Unfinished":
        # Unbuffered, so that the recorded progress is on disk.
        self._stream = self.part.open("r+b" if self._size else "wb", buffering=0)
        self._stream.truncate(self._size)
        self._stream.seek(self._size)
        return self

    def __exit__(self, kind: type | None, *_: Any) -> None:
        self._stream.close()
        # An error in the input would occur again; an interruption can be resumed.
        if kind is not None and (issubclass(kind, FullrankError) or not self._size):
            self._remove()

    def begin(self, header: list[str]) -> None:
        if not self._size:
            self._write([header])

    def append(self, rows: Rows) -> None:
        self._write(rows)
        self.count = self.count.plus(rows)
        rows_so_far = self._hash.hexdigest()
        now = _Progress.of(self._key, self._size, self.count, rows_so_far)
        now.write(self._note)

    def complete(self) -> None:
        os.fsync(self._stream.fileno())
        os.replace(self.part, self.file)
        self._remove()

    def _write(self, rows: Iterable[Sequence[Any]]) -> None:
        content = memoryview(table_text(rows, self._delimiter).encode())
        self._size += len(content)
        self._hash.update(content)
        while content:
            content = content[self._stream.write(content) :]

    def _remove(self) -> None:
        for file in (self._note, self.part):
            file.unlink(missing_ok=True)


# Readers: each function yields the header as a list of one row, then rows


def _table_rows(
    predictor: Predictor, source: Path, options: FileOptions, skip: int
) -> Iterator[Rows]:
    new = [options.prefix + name for name in predictor.all_columns(options.interval)]
    with open_table(source) as table:
        place = table.column(options.smiles or predictor.spec.smiles or "smiles")
        kept = _kept_columns(table, new, predictor, options)
        yield [[*(table.header[column] for column in kept), *new]]
        waiting: deque[Rows] = deque()

        def smiles() -> Iterator[list[Any]]:
            known = estimated_rows(source) if options.progress else None
            total = None if known is None else known - skip
            rows = shown(islice(table, skip, None), total, "predict", options.progress)
            for block in batched(rows, MOLECULES_AT_ONCE):
                cells = [row.cells + [""] * len(table.header) for row in block]
                waiting.append([[row[column] for column in kept] for row in cells])
                problems = [table.misfit(row.cells) for row in block]
                both = zip(problems, cells, strict=True)
                yield [DataError(p) if p else row[place] for p, row in both]

        for predicted in _predicted(predictor, smiles(), options):
            yield _joined(waiting.popleft(), predicted)


def _predicted(
    predictor: Predictor, blocks: Iterable[list[Any]], options: FileOptions
) -> Iterator[Rows]:
    """The predictions for blocks of SMILES, computed here or on a cluster."""
    if options.ray is not None:
        yield from predict_on_ray(predictor, blocks, options.interval, options.ray)
        return
    workers = options.workers or available_cpus()
    for made in featurize(predictor.reading, blocks, workers):
        yield predictor.rows(made, options.interval)


def _kept_columns(
    table: TableReader, new: Sequence[str], predictor: Predictor, options: FileOptions
) -> list[int]:
    """The indices of the columns of the table that are copied.

    Columns that the model may write are dropped together: the uncertainty of an old
    prediction would be mistaken for that of the new one.
    """
    names = table.header if options.columns is None else options.columns
    kept = [table.column(name) for name in names]
    taken = [column for column in kept if table.header[column] in new]
    if taken and not options.replace:
        raise DataError(
            f"{table.file} already has a column {table.header[taken[0]]!r}, which the "
            f"prediction would write: replace it, or choose a prefix"
        )
    old = (
        {options.prefix + name for name in predictor.possible_columns} if taken else ()
    )
    return [column for column in kept if table.header[column] not in old]


def _sdf_rows(
    predictor: Predictor, source: Path, options: FileOptions, skip: int
) -> Iterator[Rows]:
    need_chemistry()
    new = [options.prefix + name for name in predictor.all_columns(options.interval)]
    yield [["name", "smiles", *new]]
    names: deque[list[str]] = deque()

    def entries() -> Iterator[list[str]]:
        left = islice(sdf_texts(source), skip, None)
        found = shown(left, None, "predict", options.progress)
        for block in batched(found, MOLECULES_AT_ONCE):
            names.append([text.partition("\n")[0].strip() for text in block])
            yield block

    read = partial(read_entries, predictor.reading)
    workers = options.workers or available_cpus()
    for smiles, made in map_blocks(read, entries(), workers):
        cells = [list(pair) for pair in zip(names.popleft(), smiles, strict=True)]
        yield _joined(cells, predictor.rows(made, options.interval))


def _folder_rows(
    predictor: Predictor, source: Path, options: FileOptions, skip: int
) -> Iterator[Rows]:
    featurizer = predictor.spec.featurizer
    if not isinstance(featurizer, GraphFeaturizer):
        raise ConfigError(
            f"a model of {predictor.spec.dataset} does not read folders of graphs; "
            f"use a table of SMILES or an SDF file"
        )
    graphs, unusable = featurizer.read_folder(source)
    new = [options.prefix + name for name in predictor.all_columns(options.interval)]
    yield [["graph", *new]]
    values = predictor.values(graphs, options.interval).tolist()
    yield [
        [i, *predicted_row(cells, unusable.get(i))] for i, cells in enumerate(values)
    ]


def _joined(cells: Rows, predicted: Rows) -> Rows:
    return [[*left, *right] for left, right in zip(cells, predicted, strict=True)]
