"""Tables of molecules in the usual formats, read row by row.

``.csv``, ``.tsv`` and ``.txt`` are text with a header, separated by commas, semicolons,
tabs or vertical bars, whichever the header has most of. ``.smi`` holds SMILES and a
name in each line, with or without a header. All of these may be compressed (``.gz``).
``.parquet`` has columns of its own; those of an ``.sdf`` file are ``smiles``, ``name``
and the properties of its entries.

Training and prediction read tables here, so that both see the same rows.
"""

import csv
import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

from fullrank.data.sdf import sdf_columns, sdf_entries
from fullrank.errors import DataError, nearest

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t", ".smi": "\t"}
ENDINGS = (*DELIMITERS, ".parquet", ".sdf")
_NAMES = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "vertical bars"}
_FORMULA_STARTS = tuple("'=+-@\t\r")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.I)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?", re.I)
_QUOTED = re.compile(r'"[^"]*"')


def is_table(name: str | Path) -> bool:
    """Whether the name has the extension of a table."""
    return ending(name) in ENDINGS


def ending(name: str | Path) -> str:
    """The extension in lower case, ignoring ``.gz``."""
    path = Path(name)
    return Path(path.stem if path.suffix.lower() == ".gz" else path).suffix.lower()


def delimiter_of(file: Path) -> str:
    """The usual delimiter of a table with this extension."""
    return DELIMITERS.get(ending(file), ",")


def estimated_rows(file: Path) -> int | None:
    """About how many rows a table has: in plain text, one for each line but one."""
    if file.suffix.lower() not in DELIMITERS:
        return None
    with file.open("rb") as stream:
        lines = sum(
            block.count(b"\n") for block in iter(lambda: stream.read(1 << 20), b"")
        )
    return max(lines - 1, 0)


class Row(NamedTuple):
    """The cells of a row, and the line it begins in; the header begins in line 1.

    In a format without lines it is the number of the row, the header counted as 1.
    ``problem`` is the reason why a row of a format without SMILES has no molecule.
    """

    line: int
    cells: list[str]
    problem: str | None = None


class TableReader:
    """A table whose rows are read as they are asked for.

    Attributes:
        file: Where it is.
        header: The names of its columns.
    """

    def __init__(
        self,
        file: Path,
        header: Iterable[str],
        rows: Iterator[Row],
        delimiter: str | None = None,
    ) -> None:
        self.file = file
        self.header = [name.strip() for name in header]
        self._rows = rows
        self._delimiter = delimiter
        for name in self.header:
            if name and self.header.count(name) > 1:
                raise DataError(
                    f"{file} has {self.header.count(name)} columns {name!r}; rename "
                    f"all but one"
                )

    def __iter__(self) -> Iterator[Row]:
        return self._rows

    def column(self, name: str) -> int:
        """The position of a column; a `DataError` says which ones there are."""
        if name in self.header:
            return self.header.index(name)
        raise DataError(
            f"{self.file} has no column {name!r}{nearest(name, self.header)}; it has "
            f"{', '.join(self.header)}"
        )

    def misfit(self, cells: Sequence[str]) -> str | None:
        """Why these cells are not a row of the table; None if they are one."""
        if not any(cell.strip() for cell in cells):
            return "the row is empty"
        if len(cells) == len(self.header):
            return None
        problem = f"{len(cells)} cells instead of {len(self.header)}"
        for sign in _NAMES.keys() - {self._delimiter}:
            count = sum(cell.count(sign) for cell in cells)
            if count and count == len(self.header) - 1:
                return f"{problem}: it seems to be separated by {_NAMES[sign]}"
        if self._delimiter == "," and len(cells) > len(self.header):
            pairs = (",".join(pair) for pair in pairwise(cells))
            commas = list(filter(has_decimal_comma, pairs))
            if commas:
                return f"{problem}: is {commas[0]!r} a number with a decimal comma?"
        return problem


@contextmanager
def open_table(file: str | Path) -> Iterator[TableReader]:
    """Open a table; what cannot be read is a `DataError` that names file and line."""
    file = Path(file)
    try:
        if ending(file) == ".parquet":
            yield _parquet_table(file)
            return
        if ending(file) == ".sdf":
            yield _sdf_table(file)
            return
        # UTF-8, with or without the mark that Excel puts first. Lines end as csv wants
        # them to: not at U+2028, U+0085 or a vertical tab.
        opened = gzip.open if file.suffix.lower() == ".gz" else open
        with opened(file, "rt", newline="", encoding="utf-8-sig") as stream:
            yield (_smi_table if ending(file) == ".smi" else text_table)(file, stream)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file} is not UTF-8 text ({error}); save it as UTF-8"
        ) from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{file} is not a complete gzip file: {error}") from None
    except OSError as error:
        if error.filename != str(file):  # of another file that the caller has opened
            raise
        if isinstance(error, FileNotFoundError):
            raise DataError(f"there is no file {str(file)!r}; check its path") from None
        raise DataError(f"cannot open {str(file)!r}: {error.strerror}") from None


def text_table(file: Path, stream: IO[str]) -> TableReader:
    """A table of cells with a delimiter; ``file`` is what errors call it."""
    text = _Text(file, stream)
    rows = text.rows()
    return TableReader(file, _header(file, rows).cells, rows, text.delimiter)


def _header(file: Path, rows: Iterator[Row]) -> Row:
    first = next(rows, None)
    if first is None:
        raise DataError(f"{file} is empty; its first line must name its columns")
    return first


class _Text:
    """The rows of a text table, and the line in which each begins."""

    def __init__(self, file: Path, stream: IO[str]) -> None:
        self._file = file
        self._stream = stream
        self._record: list[str] = []  # the lines of the row that is being read
        first = next(self._stream, "")
        self.delimiter = _delimiter(file, first)
        csv.field_size_limit(sys.maxsize)
        lines = self._lines(chain([first] if first else [], stream))
        self._reader = csv.reader(lines, delimiter=self.delimiter, strict=True)

    def rows(self) -> Iterator[Row]:
        while True:
            self._record.clear()
            line = self._reader.line_num + 1
            try:
                cells = next(self._reader)
            except StopIteration:
                return
            except csv.Error as error:
                opened = line + _line_of_open_quote(self._record, self.delimiter)
                raise DataError(
                    f"{self._file}, line {opened}: the quote that opens here is not "
                    f"closed before the end of its cell ({error}); close it, or double "
                    f"the quotes within the cell"
                ) from None
            yield Row(line, [_unescaped(cell) for cell in cells])

    def _lines(self, lines: Iterable[str]) -> Iterator[str]:
        for number, line in enumerate(lines, start=1):
            if "\0" in line:
                raise DataError(
                    f"{self._file}, line {number}: there is a NUL byte, so this is not "
                    f"a text file in UTF-8"
                )
            self._record.append(line)
            yield line


def _delimiter(file: Path, header: str) -> str:
    """The sign that the header has most of, outside quotes."""
    bare = _QUOTED.sub("", header)
    usual = delimiter_of(file)
    return max([usual, *_NAMES], key=bare.count)  # the usual one of several


def _smi_table(file: Path, stream: IO[str]) -> TableReader:
    """SMILES, then whatever follows; the first line is a header if it begins so."""
    lines = (Row(n, line.split()) for n, line in enumerate(stream, start=1))
    rows = (row for row in lines if row.cells)
    first = _header(file, rows)
    if first.cells[0].lower() == "smiles":
        return TableReader(file, first.cells, rows)
    names = ["smiles", "name", *(f"column {i}" for i in range(3, 100))]
    return TableReader(file, names[: len(first.cells)], chain([first], rows))


def _parquet_table(file: Path) -> TableReader:
    from pyarrow import parquet

    with _parquet_errors(file):
        content = parquet.ParquetFile(file)

    def rows() -> Iterator[Row]:
        number = 1
        batches = content.iter_batches(batch_size=1000)
        while True:
            with _parquet_errors(file):
                batch = next(batches, None)
                if batch is None:
                    return
                columns = batch.to_pydict().values()
            for row in zip(*columns, strict=True):
                number += 1
                yield Row(number, ["" if cell is None else str(cell) for cell in row])

    return TableReader(file, content.schema_arrow.names, rows())


@contextmanager
def _parquet_errors(file: Path) -> Iterator[None]:
    """Turn the errors that pyarrow raises for a damaged file into a `DataError`."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        if getattr(error, "filename", None) is not None:  # it cannot be opened
            raise
        reason = str(error).strip().partition("\n")[0]
        raise DataError(f"{file} is not a valid Parquet file: {reason}") from None


def _sdf_table(file: Path) -> TableReader:
    columns = sdf_columns(file)

    def rows() -> Iterator[Row]:
        for number, entry in enumerate(sdf_entries(file), start=2):
            cells = [entry.properties.get(name, "") for name in columns]
            yield Row(number, [entry.smiles, entry.name, *cells], entry.problem)

    return TableReader(file, ["smiles", "name", *columns], rows())


def table_text(rows: Iterable[Sequence[Any]], delimiter: str = ",") -> str:
    """Rows as the text of a table. A cell that a spreadsheet would run as a formula
    gets an apostrophe, which `TableReader` removes."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter)
    for row in rows:
        writer.writerow(["'" + c if _is_formula(c) else c for c in row])
    return text.getvalue()


def _is_formula(cell: Any) -> bool:
    """Whether a spreadsheet would run a cell, ignoring leading apostrophes."""
    if not isinstance(cell, str) or cell[:1] not in _FORMULA_STARTS:
        return False
    content = cell.lstrip("'")
    return content[:1] in _FORMULA_STARTS and not _NUMBER.fullmatch(content)


def _unescaped(cell: str) -> str:
    return cell[1:] if cell[:1] == "'" and _is_formula(cell) else cell


def number(text: str) -> float:
    """The number in a cell; a `DataError` says what is wrong with it."""
    if has_decimal_comma(text):
        point = text.replace(",", ".")
        raise DataError(f"{text!r} has a decimal comma; write {point} instead")
    try:
        if "_" in text:  # which Python allows in a number
            raise ValueError
        return float(text)
    except ValueError:
        raise DataError(f"{text!r} is not a number") from None


def has_decimal_comma(text: str) -> bool:
    """Whether a cell is a number but for a comma in the place of the point."""
    return _DECIMAL_COMMA.fullmatch(text) is not None


def is_missing(text: str) -> bool:
    """Whether a cell means that the value is missing."""
    return text.lower() in ("", "na", "nan", "none", "null")


def same_value(one: str, other: str) -> bool:
    """Whether two cells contain the same number or the same text."""
    try:
        return number(one) == number(other)
    except DataError:
        return one == other


def _line_of_open_quote(record: list[str], delimiter: str) -> int:
    """In which of the lines of a row the last quoted cell begins, counted from 0."""
    opened, quoted, before = 0, False, delimiter
    for number, line in enumerate(record):
        for sign in line:
            if sign == '"' and quoted:
                quoted = False
            elif sign == '"' and before in (delimiter, '"'):
                # Either a new cell, or the second of two quotes within one.
                opened, quoted = (number if before == delimiter else opened), True
            before = sign
    return opened
