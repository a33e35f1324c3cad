"""Download, unpack and read files, with errors that name the line."""

import gzip
import hashlib
import os
import shutil
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from fullrank.errors import DataError, quoted

MIRROR_VARIABLE = "FULLRANK_MIRROR"
_LARGEST_UNPACKED_RATIO = 200
_CORRUPT = (EOFError, gzip.BadGzipFile, zipfile.BadZipFile, zlib.error)


class _Empty(DataError):
    """A file without any line."""


def in_mirror(url: str, mirror: Path | None, *other_names: str) -> Path | None:
    """The mirror's copy of the archive at ``url``; None if there is no mirror.

    Args:
        url: The official address.
        mirror: A folder that contains the archive, or its unpacked content as a folder;
            ``$FULLRANK_MIRROR`` by default.
        other_names: Alternative names of the copy.
    """
    chosen = mirror or os.environ.get(MIRROR_VARIABLE)
    if not chosen:
        return None
    name = url.rsplit("/", 1)[-1]
    names = (name, Path(name).stem, *other_names)
    for candidate in (Path(chosen).expanduser() / n for n in names):
        if candidate.exists():
            return candidate
    raise DataError(f"the mirror {chosen} contains none of {', '.join(names)}")


def downloaded(url: str, root: Path) -> Path:
    """The archive at ``url``, downloaded to ``root/raw`` if it is not there yet."""
    kept = root / "raw" / url.rsplit("/", 1)[-1]
    if not kept.exists():
        _download(url, kept)
    return kept


def content_digest(path: Path) -> str:
    """A hash of the content of a file, or of all files in a folder."""
    if path.is_file():
        with reading(path), path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    return files_digest(path, sorted(f for f in path.rglob("*") if f.is_file()))


def files_digest(folder: Path, files: Iterable[Path]) -> str:
    """A hash of the names and contents of these files in ``folder``."""
    found = [
        (file.relative_to(folder).as_posix(), content_digest(file)) for file in files
    ]
    return hashlib.sha256(repr(found).encode()).hexdigest()


def _download(url: str, file: Path) -> None:
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with (
            urllib.request.urlopen(url, timeout=60) as stream,
            unfinished.open("wb") as target,
        ):
            shutil.copyfileobj(stream, target)
        announced = stream.headers.get("Content-Length", unfinished.stat().st_size)
        if unfinished.stat().st_size != int(announced):
            raise ConnectionError(f"the connection closed before all {announced} bytes")
        os.replace(unfinished, file)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        raise DataError(
            f"cannot download {url} ({reason}); save this file as {file}, or set the "
            f"option mirror or ${MIRROR_VARIABLE} to a folder that contains it"
        ) from error
    except OSError as error:
        raise DataError(f"cannot write {file}: {error.strerror}") from error
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def unpacked(source: Path, scratch: Path) -> Iterator[Path]:
    """A folder with the content of ``source``, which is a folder or a zip archive.

    An archive is unpacked to a temporary folder in ``scratch``.
    """
    if source.is_dir():
        yield source
        return
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".unpacked-") as folder:
        try:
            with zipfile.ZipFile(source) as archive:
                _refuse_bomb(source, archive)
                for member in archive.namelist():
                    inside = (Path(folder) / member).resolve()
                    if not inside.is_relative_to(Path(folder).resolve()):
                        raise DataError(
                            f"{source} contains {member!r}, which would be unpacked "
                            f"outside the target folder; do not trust this file"
                        )
                archive.extractall(folder)
        except DataError:
            raise
        except (
            *_CORRUPT,
            RuntimeError,
            ValueError,
        ) as error:  # encrypted, for example
            raise DataError(
                f"{source} is not an intact zip archive ({error}); delete it and "
                f"download it again"
            ) from error
        except OSError as error:
            raise DataError(f"cannot unpack {source} to {scratch}: {error}") from error
        yield Path(folder)


def _refuse_bomb(source: Path, archive: zipfile.ZipFile) -> None:
    """Refuse an archive with a compression ratio that data files do not reach."""
    packed = source.stat().st_size
    size = sum(member.file_size for member in archive.infolist())
    if size > _LARGEST_UNPACKED_RATIO * packed:
        raise DataError(
            f"{source} has {packed:,} bytes and would unpack to {size:,}; do not trust "
            f"this file"
        )


def read_numbers(
    file: Path,
    dtype: type = np.int64,
    rows: int | None = None,
    missing: bool = False,
) -> np.ndarray:
    """A table of numbers without a header, ``[rows, columns]``; may be gzipped.

    Args:
        dtype: ``np.int64``, or ``np.float64`` for numbers that are finite in float32.
        rows: The required number of rows.
        missing: Whether cells may be empty or ``nan``.
    """
    with reading(file, dtype):
        try:
            values = _open(file, dtype).read().to_numpy()
        except _Empty:
            values = np.empty((0, 0), dtype)
    # pandas pads short rows with nan, so this also finds rows of different lengths.
    if dtype is np.float64 and not fits_float32(values).all():
        problem = _first_wrong_line(file, dtype, missing)
        if problem:
            raise DataError(problem)
    if rows is not None and len(values) != rows:
        line = min(len(values), rows) + 1
        raise DataError(f"{file}, line {line}: {len(values)} lines instead of {rows}")
    return values


def read_column(
    file: Path, dtype: type = np.int64, rows: int | None = None
) -> np.ndarray:
    """A table with a single column, ``[rows]``."""
    values = read_numbers(file, dtype, rows)
    if values.shape[1] > 1:
        raise DataError(f"{file}, line 1: {values.shape[1]} columns instead of 1")
    return values.reshape(-1)


def fits_float32(values: Any) -> Any:
    """Whether each number is finite in single precision."""
    return np.abs(values) <= np.finfo(np.float32).max


class NumberStream:
    """A table of numbers without a header that is read in blocks of rows."""

    def __init__(self, file: Path, columns: int, dtype: type = np.int64) -> None:
        self._file, self._columns, self._dtype = file, columns, dtype
        self._line = 0
        self._table: Any = None

    def take(self, rows: int) -> np.ndarray:
        """The next rows, ``[rows, columns]``."""
        if rows == 0:
            return np.empty((0, self._columns), self._dtype)
        with reading(self._file, self._dtype):
            try:
                self._table = self._table or _open(self._file, self._dtype)
                values = self._table.get_chunk(rows).to_numpy()
            except (_Empty, StopIteration):
                values = np.empty((0, self._columns), self._dtype)
        if len(values) != rows:
            end = self._line + len(values)
            wanted = self._line + rows
            raise DataError(f"{self._file} ends after line {end} of at least {wanted}")
        if values.shape[1] != self._columns:
            raise DataError(
                f"{self._file}, line {self._line + 1}: {values.shape[1]} columns "
                f"instead of {self._columns}"
            )
        self._line += rows
        if self._dtype is np.float64:
            finite = fits_float32(values).all(axis=1)
            self.check(finite, lambda row: "a number is not finite")
        return values

    def finish(self) -> None:
        """Raise an error if there are rows left."""
        nothing = suppress(_Empty, StopIteration)
        with reading(self._file, self._dtype), nothing:
            self._table = self._table or _open(self._file, self._dtype)
            if len(self._table.get_chunk(1)):
                raise DataError(f"{self._file} has more than {self._line} lines")

    def check(self, right: np.ndarray, problem: Callable[[int], str]) -> None:
        """Raise an error for the first row of the last block that is not right."""
        if right.all():
            return
        row = int(np.flatnonzero(~right)[0])
        line = self._line - len(right) + row + 1
        raise DataError(f"{self._file}, line {line}: {problem(row)}")


def _open(file: Path, dtype: type) -> Any:
    import pandas as pd

    try:
        return pd.read_csv(
            file,
            header=None,
            dtype=dtype,
            skipinitialspace=True,
            low_memory=False,
            iterator=True,
        )
    except pd.errors.EmptyDataError as error:
        raise _Empty(f"{file} is empty") from error


@contextmanager
def reading(file: Path, dtype: type | None = None) -> Iterator[None]:
    """Convert exceptions while reading to a `DataError` that names the file and, for
    numbers of type ``dtype``, the line."""
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{file} is missing") from error
    except _CORRUPT as error:
        raise DataError(f"{file} is corrupt ({error}); download it again") from error
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error
    except (ValueError, OverflowError) as error:
        problem = _first_wrong_line(file, dtype) if dtype else ""
        raise DataError(problem or f"{file}: {error}") from error


def _first_wrong_line(file: Path, dtype: type, missing: bool = False) -> str:
    opened = gzip.open if file.suffix == ".gz" else open
    kind = "a whole number" if dtype is np.int64 else "a finite number"
    columns = None
    with opened(file, "rt", encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            values = [value.strip() for value in line.split(",")]
            columns = columns or len(values)
            if len(values) != columns:
                return (
                    f"{file}, line {number}: {len(values)} values, but {columns} above"
                )
            for value in values:
                if not (_is_number(value, dtype) or (missing and _is_missing(value))):
                    return f"{file}, line {number}: {quoted(value)} is not {kind}"
    return ""


def _is_number(text: str, dtype: type) -> bool:
    try:
        return "_" not in text and bool(fits_float32(dtype(text)))
    except (ValueError, OverflowError):
        return False


def _is_missing(text: str) -> bool:
    return text.lower() in ("", "na", "nan")
