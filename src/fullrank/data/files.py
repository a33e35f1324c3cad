"""Files from elsewhere: fetched, unpacked and read with errors that name the line."""

import gzip
import os
import shutil
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fullrank.errors import DataError

MIRROR_VARIABLE = "FULLRANK_MIRROR"
_CORRUPT = (EOFError, gzip.BadGzipFile, zipfile.BadZipFile, zlib.error)


def local_copy(
    url: str, root: Path, mirror: str | Path | None, *other_names: str
) -> Path:
    """The archive at ``url``: from the mirror, from an earlier download, or from there.

    Args:
        url: The official address.
        root: Folder of prepared sets; downloads are kept in its ``raw``.
        mirror: A folder that holds the archive under its own name, or what is in it
            as a folder; ``$FULLRANK_MIRROR`` by default.
        other_names: Under which the mirror may hold it, too.
    """
    name = url.rsplit("/", 1)[-1]
    mirror = mirror or os.environ.get(MIRROR_VARIABLE)
    if mirror:
        names = (name, Path(name).stem, *other_names)
        for candidate in (Path(mirror) / n for n in names):
            if candidate.exists():
                return candidate
        raise DataError(f"the mirror {mirror} holds none of {', '.join(names)}")
    kept = root / "raw" / name
    if not kept.exists():
        _download(url, kept)
    return kept


def _download(url: str, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with (
            urllib.request.urlopen(url, timeout=60) as stream,
            unfinished.open("wb") as target,
        ):
            shutil.copyfileobj(stream, target)
        announced = stream.headers.get("Content-Length", unfinished.stat().st_size)
        if unfinished.stat().st_size != int(announced):
            raise ConnectionError(f"it ended before all {announced} bytes had come")
        os.replace(unfinished, file)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        raise DataError(
            f"cannot download {url} ({reason}); put this file at {file}, or name a "
            f"folder that holds it with --mirror or ${MIRROR_VARIABLE}"
        ) from error
    except OSError as error:
        raise DataError(f"cannot write {file}: {error.strerror}") from error
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def unpacked(source: Path, scratch: Path) -> Iterator[Path]:
    """A folder with what is in ``source``, which is a folder or a zip archive.

    An archive is unpacked below ``scratch`` and removed again.
    """
    if source.is_dir():
        yield source
        return
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".unpacked-") as folder:
        try:
            with zipfile.ZipFile(source) as archive:
                for member in archive.namelist():
                    inside = (Path(folder) / member).resolve()
                    if not inside.is_relative_to(Path(folder).resolve()):
                        raise DataError(
                            f"{source} holds {member!r}, which would land outside the "
                            f"folder it is unpacked to; do not trust this file"
                        )
                archive.extractall(folder)
        except _CORRUPT as error:
            raise DataError(
                f"{source} is not an intact zip archive ({error}); delete it and fetch "
                f"it again"
            ) from error
        except OSError as error:
            raise DataError(f"cannot unpack {source} to {scratch}: {error}") from error
        yield Path(folder)


def read_numbers(file: Path, dtype: type = np.int64) -> np.ndarray:
    """A table of numbers without a header, ``[rows, columns]``; ``.gz`` is unpacked."""
    with reading(file, dtype):
        try:
            return _open(file, dtype).read().to_numpy()
        except pd.errors.EmptyDataError:
            return np.empty((0, 0), dtype)


class NumberStream:
    """A table of numbers without a header, read some rows at a time."""

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
            except (pd.errors.EmptyDataError, StopIteration):
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
        return values

    def finish(self) -> None:
        """Complain if there are rows left."""
        nothing = suppress(StopIteration, pd.errors.EmptyDataError)
        with reading(self._file, self._dtype), nothing:
            self._table = self._table or _open(self._file, self._dtype)
            if len(self._table.get_chunk(1)):
                raise DataError(f"{self._file} has more than {self._line} lines")

    def check(self, right: np.ndarray, problem: Callable[[int], str]) -> None:
        """Complain about the first of the rows taken last that is not right."""
        if right.all():
            return
        row = int(np.flatnonzero(~right)[0])
        line = self._line - len(right) + row + 1
        raise DataError(f"{self._file}, line {line}: {problem(row)}")


def _open(file: Path, dtype: type) -> Any:
    return pd.read_csv(
        file,
        header=None,
        dtype=dtype,
        skipinitialspace=True,
        low_memory=False,
        iterator=True,
    )


@contextmanager
def reading(file: Path, dtype: type) -> Iterator[None]:
    """Turn what can go wrong while reading into an error that names file and line."""
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{file} is missing") from error
    except pd.errors.EmptyDataError as error:
        raise DataError(f"{file} is empty") from error
    except _CORRUPT as error:
        raise DataError(f"{file} is corrupt ({error}); fetch it again") from error
    except (ValueError, OverflowError) as error:
        raise DataError(_first_wrong_line(file, dtype) or f"{file}: {error}") from error


def _first_wrong_line(file: Path, dtype: type) -> str:
    opened = gzip.open if file.suffix == ".gz" else open
    kind = "a whole number" if dtype is np.int64 else "a number"
    columns = None
    with opened(file, "rt", encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            values = line.strip().split(",")
            columns = columns or len(values)
            if len(values) != columns:
                return (
                    f"{file}, line {number}: {len(values)} values, but {columns} above"
                )
            for value in values:
                try:
                    dtype(value)
                except ValueError:
                    return f"{file}, line {number}: {value.strip()!r} is not {kind}"
    return ""
