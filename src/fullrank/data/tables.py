"""Tables: text with a header, separated by commas or tabs.

Training and prediction read tables here, so that both see the same rows.
"""

import csv
import io
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

from fullrank.errors import DataError, nearest

DELIMITERS = {".csv": ",", ".tsv": "\t"}
_NAMES = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "vertical bars"}
_FORMULA_STARTS = tuple("'=+-@\t\r")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.I)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?", re.I)


def is_table(name: str | Path) -> bool:
    """Whether the name ends as that of a table does."""
    return Path(name).suffix.lower() in DELIMITERS


def delimiter_of(file: Path) -> str:
    """A tab for ``.tsv``, else a comma."""
    return DELIMITERS.get(file.suffix.lower(), ",")


def estimated_rows(file: Path) -> int:
    """About how many rows a table has: one for each line after the first."""
    with file.open("rb") as stream:
        lines = sum(
            block.count(b"\n") for block in iter(lambda: stream.read(1 << 20), b"")
        )
    return max(lines - 1, 0)


class Row(NamedTuple):
    """The cells of a row, and the line it begins in; the header begins in line 1."""

    line: int
    cells: list[str]


class TableReader:
    """A table whose rows are read as they are asked for.

    Attributes:
        file: Where it is.
        header: The names of its columns.
    """

    def __init__(self, file: Path, stream: IO[str]) -> None:
        self.file = file
        self._delimiter = delimiter_of(file)
        self._other_signs = [sign for sign in _NAMES if sign != self._delimiter]
        self._stream = stream
        self._record: list[str] = []  # the lines of the row that is being read
        csv.field_size_limit(sys.maxsize)
        self._reader = csv.reader(self._lines(), delimiter=self._delimiter, strict=True)
        first = next(self._rows(), None)
        if first is None:
            raise DataError(f"{file} is empty; its first line must name its columns")
        self._first_line = "".join(self._record)
        self.header = [cell.strip() for cell in first.cells]
        for name in self.header:
            if name and self.header.count(name) > 1:
                raise DataError(
                    f"{file} has {self.header.count(name)} columns {name!r}; rename "
                    f"all but one"
                )

    def __iter__(self) -> Iterator[Row]:
        return self._rows()

    def column(self, name: str) -> int:
        """The position of a column; a `DataError` says which ones there are."""
        if name in self.header:
            return self.header.index(name)
        for sign in self._other_signs:
            found, expected = map(self._first_line.count, (sign, self._delimiter))
            if found and found >= expected:
                raise DataError(
                    f"{self.file} seems to be separated by {_NAMES[sign]}; it must be "
                    f"separated by {_NAMES[self._delimiter]}"
                )
        raise DataError(
            f"{self.file} has no column {name!r}{nearest(name, self.header)}; it has "
            f"{', '.join(self.header)}"
        )

    def misfit(self, cells: list[str]) -> str | None:
        """Why these cells are not a row of the table; None if they are one."""
        if not any(cell.strip() for cell in cells):
            return "the row is empty"
        if len(cells) == len(self.header):
            return None
        problem = f"{len(cells)} cells instead of {len(self.header)}"
        for sign in self._other_signs:
            count = sum(cell.count(sign) for cell in cells)
            if count and count == len(self.header) - 1:
                return f"{problem}: it seems to be separated by {_NAMES[sign]}"
        if self._delimiter == "," and len(cells) > len(self.header):
            pairs = (",".join(pair) for pair in pairwise(cells))
            commas = [pair for pair in pairs if _DECIMAL_COMMA.fullmatch(pair)]
            if commas:
                return f"{problem}: is {commas[0]!r} a number with a decimal comma?"
        return problem

    def _rows(self) -> Iterator[Row]:
        while True:
            self._record.clear()
            line = self._reader.line_num + 1
            try:
                cells = next(self._reader)
            except StopIteration:
                return
            except csv.Error as error:
                opened = line + _line_of_open_quote(self._record, self._delimiter)
                raise DataError(
                    f"{self.file}, line {opened}: the quote that opens here is not "
                    f"closed before the end of its cell ({error}); close it, or double "
                    f"the quotes within the cell"
                ) from None
            yield Row(line, [_unescaped(cell) for cell in cells])

    def _lines(self) -> Iterator[str]:
        for number, line in enumerate(self._stream, start=1):
            if "\0" in line:
                raise DataError(
                    f"{self.file}, line {number}: there is a NUL byte, so this is not "
                    f"a text file in UTF-8"
                )
            self._record.append(line)
            yield line


@contextmanager
def open_table(file: str | Path) -> Iterator[TableReader]:
    """Open a table; what cannot be read is a `DataError` that names file and line."""
    file = Path(file)
    try:
        # UTF-8, with or without the mark that Excel puts first. Lines end as csv wants
        # them to: not at U+2028, U+0085 or a vertical tab.
        with file.open(newline="", encoding="utf-8-sig") as stream:
            yield TableReader(file, stream)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file} is not UTF-8 text ({error}); save it as UTF-8"
        ) from None
    except OSError as error:
        if error.filename != str(file):  # of another file that the caller has opened
            raise
        if isinstance(error, FileNotFoundError):
            raise DataError(f"there is no file {str(file)!r}; check its path") from None
        raise DataError(f"cannot open {str(file)!r}: {error.strerror}") from None


def table_text(rows: Iterable[Sequence[Any]], delimiter: str = ",") -> str:
    """Rows as the text of a table, in which no cell is a formula to a spreadsheet: one
    that would be gets an apostrophe, which `TableReader` removes."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter)
    for row in rows:
        writer.writerow(["'" + c if _is_formula(c) else c for c in row])
    return text.getvalue()


def _is_formula(cell: Any) -> bool:
    """Whether a cell, without apostrophes in front of it, is one to a spreadsheet."""
    if not isinstance(cell, str) or cell[:1] not in _FORMULA_STARTS:
        return False
    content = cell.lstrip("'")
    return content[:1] in _FORMULA_STARTS and not _NUMBER.fullmatch(content)


def _unescaped(cell: str) -> str:
    return cell[1:] if cell[:1] == "'" and _is_formula(cell) else cell


def number(text: str) -> float:
    """The number in a cell; a `DataError` says what is wrong with it."""
    if _DECIMAL_COMMA.fullmatch(text):
        point = text.replace(",", ".")
        raise DataError(f"{text!r} has a decimal comma; write {point} instead")
    try:
        if "_" in text:  # which Python allows in a number
            raise ValueError
        return float(text)
    except ValueError:
        raise DataError(f"{text!r} is not a number") from None


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
