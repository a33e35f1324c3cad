"""Arrays on disk: a folder of plain files and a header with their checksums.

``header.json`` names the format and its version, and gives the data type, shape and
SHA-256 of each array, and its own SHA-256; ``NAME.bin`` contains the numbers,
little-endian, row by row. `read` checks the header and the sizes and maps the files;
`verify` reads the files and compares them with their checksums.
"""

import hashlib
import json
import math
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import NonNegativeInt, StringConstraints, TypeAdapter, ValidationError

from fullrank.data.parsing import parse_json
from fullrank.errors import DataError

FORMAT = "fullrank packed graphs"
VERSION = 2
HEADER = "header.json"
_KEYS = {"format", "version", "arrays", "fields", "info", "sha256"}
Arrays = Mapping[str, np.ndarray]


class PackedFileError(DataError):
    """A folder that is not a complete packed set, or is damaged."""


@dataclass
class _Entry:
    """The header's entry for one array."""

    dtype: str
    shape: list[NonNegativeInt]
    sha256: str


# File names that cannot leave the folder.
_Name = Annotated[str, StringConstraints(pattern=r"^[\w ]+(\.[\w ]+)*$")]
_ENTRIES = TypeAdapter(dict[_Name, _Entry])


class Stored(NamedTuple):
    """The arrays in a folder, their SHA-256 by name, and the rest of the header."""

    arrays: dict[str, np.ndarray]
    digests: dict[str, str]
    header: dict[str, Any]


def write(
    folder: Path,
    parts: Iterable[Arrays],
    header: Callable[[], Mapping[str, Any]],
    last: Callable[[], Arrays] = dict,
) -> None:
    """Write the rows of all ``parts`` to ``folder``, replacing what is there.

    Only one part is in memory at a time. Writing is atomic: the folder appears under
    its name only when it is complete and its checksums are verified.

    Args:
        parts: Arrays by name. Arrays whose names end in ``ptr`` are offsets, which
            continue from the end of the previous part.
        header: Returns the other entries of the header; called after the last part.
        last: Returns arrays that are known only after the last part.
    """
    with replacing(folder) as unfinished, ExitStack() as files:
        writer = _Writer(unfinished, files)
        for part in parts:
            with writing(folder):
                writer.append(part)
        with writing(folder):
            for name, values in last().items():
                writer.append_rows(name, values)
            files.close()
            writer.finish(header())
        verify(unfinished)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Convert an OSError, such as a full disk, to an error that names the folder."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(f"cannot write {folder}: {reason}") from error


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """A new folder next to ``folder``, which replaces it on success."""
    unfinished = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}")
    with writing(folder):
        unfinished.mkdir(parents=True)
    try:
        yield unfinished
        with writing(folder):
            old = folder.with_name(f"{unfinished.name}.old")
            if folder.exists():
                os.replace(folder, old)
            os.replace(unfinished, folder)
            shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def read(folder: Path) -> Stored:
    """Check the header and the sizes of the files in ``folder`` and map the arrays."""
    entries, header = _header(folder)
    arrays = {n: _map(folder / f"{n}.bin", e) for n, e in entries.items()}
    return Stored(arrays, {n: e.sha256 for n, e in entries.items()}, header)


def digest(values: np.ndarray) -> str:
    """The SHA-256 of an array in its stored form."""
    return hashlib.sha256(_bytes(values)).hexdigest()


def stored_dtype(values: np.ndarray) -> str:
    """The data type of an array in its stored form."""
    return values.dtype.newbyteorder("<").str


def _bytes(values: np.ndarray) -> memoryview:
    little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).data


def verify(folder: Path) -> int:
    """Compare every file in ``folder`` with its checksum; returns the bytes read."""
    size = 0
    for name, entry in _header(folder)[0].items():
        file = folder / f"{name}.bin"
        _map(file, entry)
        with file.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != entry.sha256:
            raise PackedFileError(
                f"{file} has changed since it was written (SHA-256 {found[:12]}…, "
                f"expected {entry.sha256[:12]}…); delete {folder} and prepare again"
            )
        size += file.stat().st_size
    return size


class _Writer:
    """Appends parts to one file per array and collects the entries of the header."""

    def __init__(self, folder: Path, files: ExitStack) -> None:
        self._folder, self._files = folder, files
        self._streams: dict[str, Any] = {}
        self._digests: dict[str, Any] = {}
        self._entries: dict[str, dict[str, Any]] = {}
        self._ends: dict[str, int] = {}

    def append(self, part: Arrays) -> None:
        if self._entries and list(part) != list(self._entries):
            raise DataError(
                f"parts of one set must store the same arrays, got {list(part)} after "
                f"{list(self._entries)}"
            )
        for name, values in part.items():
            self.append_rows(name, values)

    def append_rows(self, name: str, values: np.ndarray) -> None:
        if name.endswith("ptr"):
            end = self._ends.get(name)
            self._ends[name] = int(values[-1]) + (end or 0)
            values = values if end is None else values[1:] + end
        dtype, columns = stored_dtype(values), list(values.shape[1:])
        if name not in self._streams:
            file = self._folder / f"{name}.bin"
            # Unbuffered, so that closing has nothing left to write to a full disk.
            stream = self._files.enter_context(file.open("wb", buffering=0))
            self._streams[name] = stream
            self._digests[name] = hashlib.sha256()
            self._entries[name] = {"dtype": dtype, "shape": [0, *columns]}
        entry = self._entries[name]
        if [dtype, *columns] != [entry["dtype"], *entry["shape"][1:]]:
            raise DataError(
                f"array {name!r} is {entry['dtype']} {entry['shape'][1:]} in one part "
                f"and {dtype} {columns} in another"
            )
        entry["shape"][0] += len(values)
        content = _bytes(values)
        self._digests[name].update(content)
        while content:
            content = content[self._streams[name].write(content) :]

    def finish(self, header: Mapping[str, Any]) -> None:
        if not self._entries:
            raise DataError("there is no graph to write")
        for name, entry in self._entries.items():
            entry["sha256"] = self._digests[name].hexdigest()
        content = {
            "format": FORMAT,
            "version": VERSION,
            "arrays": self._entries,
            **header,
        }
        plain = json.loads(json.dumps(content, default=_plain))
        plain["sha256"] = header_checksum(plain)
        text = json.dumps(plain, indent=1)
        (self._folder / HEADER).write_text(text, encoding="utf-8")


def _plain(value: Any) -> Any:
    """Convert a value to one that JSON supports."""
    if isinstance(value, Mapping):
        return dict(value)
    return value.item() if isinstance(value, np.generic) else value.tolist()


def header_checksum(header: Mapping[str, Any]) -> str:
    """The SHA-256 of a header without its own checksum."""
    content = {key: value for key, value in header.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _header(folder: Path) -> tuple[dict[str, _Entry], dict[str, Any]]:
    """The entries of the arrays, and the rest of the header."""
    file = folder / HEADER
    try:
        header = parse_json(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise PackedFileError(
            f"{folder} is not a packed set ({HEADER}: {error.strerror})"
        ) from error
    except ValueError as error:
        raise PackedFileError(f"{file} is not a header: {error}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise PackedFileError(f"{file} is not the header of a packed set")
    if header.get("version") != VERSION:
        raise PackedFileError(
            f"{file} has version {header.get('version')}, not {VERSION}; "
            f"delete {folder} and prepare again"
        )
    # Headers of fullrank 0.1 have no checksum.
    written = header.get("sha256")
    if (written is None and header.keys() - _KEYS) or (
        written is not None and written != header_checksum(header)
    ):
        raise PackedFileError(
            f"{file} has changed since it was written; delete {folder} and prepare "
            f"the set again"
        )
    try:
        return _ENTRIES.validate_python(header.pop("arrays", None)), header
    except ValidationError as error:
        raise malformed(file, "arrays", error) from error


def malformed(header: Path, part: str, error: ValidationError) -> PackedFileError:
    """An error with the first problem in this part of a header."""
    first = error.errors()[0]
    place = " ".join(map(str, (part, *first["loc"])))
    return PackedFileError(f"{header} is malformed: {place!r}: {first['msg']}")


def _map(file: Path, entry: _Entry) -> np.ndarray:
    shape = tuple(entry.shape)
    try:
        dtype = np.dtype(entry.dtype)
    except (TypeError, ValueError, SyntaxError) as error:
        raise PackedFileError(f"{file} has an unknown data type: {error}") from error
    if dtype.hasobject:
        raise PackedFileError(
            f"{file} contains Python objects, which are not supported"
        )
    wanted = dtype.itemsize * math.prod(shape)  # of Python's integers: no overflow
    size = file.stat().st_size if file.exists() else 0
    if size != wanted:
        raise PackedFileError(
            f"{file} has {size} bytes instead of {wanted}; delete {file.parent} and "
            f"prepare again"
        )
    if wanted == 0:  # an empty file cannot be mapped
        return np.empty(shape, dtype)
    # A plain array over the map: the subclass np.memmap slows down every gather.
    return np.asarray(np.memmap(file, dtype=dtype, mode="r", shape=shape))
