"""The tables of a run folder: one line for each epoch, cut back when a run resumes."""

import csv
from collections.abc import Mapping
from pathlib import Path

from fullrank.train.files import replacing


class Journal:
    """A CSV file with one line for each epoch.

    Args:
        file: Where.
        epochs: Keep this many epochs of what is there; later ones are done again.
    """

    def __init__(self, file: Path, epochs: int) -> None:
        self.file = file
        rows = [row for row in read_rows(file) if int(row["epoch"]) < epochs]
        self.columns = list(rows[0]) if rows else []
        with replacing(file, newline="", encoding="utf-8") as stream:
            if rows:
                writer = csv.DictWriter(stream, self.columns)
                writer.writeheader()
                writer.writerows(rows)

    def add(self, epoch: int, row: Mapping[str, float]) -> None:
        """Append the line of an epoch."""
        line = {"epoch": epoch, **row}
        with self.file.open("a", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, self.columns or list(line))
            if not self.columns:
                self.columns = list(line)
                writer.writeheader()
            writer.writerow(line)


def read_rows(file: Path) -> list[dict[str, str]]:
    """The complete lines of a journal; a kill may have left half a line at its end."""
    if not file.exists():
        return []
    text = file.read_text(encoding="utf-8")
    complete = text[: text.rfind("\n") + 1]
    return list(csv.DictReader(complete.splitlines()))


def read_curve(file: Path, column: str) -> list[float]:
    """One column of a journal, epoch by epoch."""
    return [float(row[column]) for row in read_rows(file)]
