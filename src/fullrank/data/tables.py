"""Tables: text with a header, separated by commas or tabs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fullrank.errors import DataError, nearest

DELIMITERS = {".csv": ",", ".tsv": "\t"}
ENCODING = "utf-8-sig"  # UTF-8, with or without the mark that Excel puts first


def is_table(name: str | Path) -> bool:
    """Whether the name ends as that of a table does."""
    return Path(name).suffix.lower() in DELIMITERS


def delimiter_of(file: Path) -> str:
    """A tab for ``.tsv``, else a comma."""
    return DELIMITERS.get(file.suffix.lower(), ",")


@contextmanager
def reading_table(file: Path) -> Iterator[None]:
    """Name the file in what can go wrong while it is read."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"there is no file {str(file)!r}; check its path") from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file} is not UTF-8 text ({error}); save it as UTF-8"
        ) from None


def check_columns(file: Path, header: Sequence[str], wanted: Sequence[str]) -> None:
    """Complain about the first column that the table does not have."""
    missing = [column for column in wanted if column not in header]
    if not missing:
        return
    if not header:
        raise DataError(f"{file} is empty; its first line must name its columns")
    for sign in ";,\t|":
        if len(header) == 1 and sign in header[0]:
            raise DataError(
                f"{file} seems to be separated by {sign!r}; a .csv is separated by "
                f"commas, a .tsv by tabs"
            )
    raise DataError(
        f"{file} has no column {missing[0]!r}{nearest(missing[0], header)}; it has "
        f"{', '.join(header)}"
    )


class _T:
    def __init__(self, file, stream):
        import csv

        self.file = file
        self._r = csv.reader(stream, delimiter=delimiter_of(file))
        self.header = next(self._r, [])

    def check_columns(self, wanted):
        check_columns(self.file, self.header, wanted)

    def rows(self):
        from types import SimpleNamespace

        for cells in self._r:
            yield SimpleNamespace(line=self._r.line_num, cells=cells)


@contextmanager
def open_table(file):
    with reading_table(file), file.open(newline="", encoding=ENCODING) as stream:
        yield _T(file, stream)
