"""What a table of molecules is about: the column of SMILES and the kind of a target."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from fullrank.data.molecules import molecule
from fullrank.data.tables import (
    Row,
    has_decimal_comma,
    is_missing,
    number,
    open_table,
)
from fullrank.errors import DataError

Kind = Literal["regression", "binary", "multiclass"]
_ROWS_LOOKED_AT = 50
_MOST_CLASSES = 50
# What a value of two is called that counts as 1.
_POSITIVE = ("1", "true", "t", "yes", "y", "active", "positive", "pos", "toxic", "+")


@dataclass(frozen=True)
class Columns:
    """What a table is about.

    Attributes:
        smiles: The column of SMILES.
        task: What kind of prediction the targets are.
        labels: ``binary``: the values that mean 0 and 1, unless they are 0 and 1.
        classes: ``multiclass``: how many there are.
    """

    smiles: str
    task: Kind
    labels: tuple[str, str] | None = None
    classes: int | None = None


def recognize(
    file: str | Path,
    targets: Sequence[str],
    smiles: str | None = None,
    task: Kind | None = None,
) -> Columns:
    """Look at a table; a `DataError` says what must be told instead.

    Args:
        file: The table.
        targets: The columns to predict.
        smiles: The column of SMILES, if it is known.
        task: What kind of prediction, if it is known.
    """
    values: list[dict[str, None]] = [{} for _ in targets]  # in the order they appear
    with open_table(file) as table:
        places = [table.column(name) for name in targets]
        if smiles is not None:
            table.column(smiles)
        rows = [row for row in islice(table, _ROWS_LOOKED_AT) if _fits(table, row)]
        smiles = smiles or _smiles_column(Path(file), table.header, targets, rows)
        while rows:
            for row in rows:
                for place, seen in zip(places, values, strict=True):
                    text = row.cells[place].strip()
                    if len(seen) <= _MOST_CLASSES and not is_missing(text):
                        seen[text] = None
            if all(len(seen) > _MOST_CLASSES for seen in values):
                break
            rows = [row for row in islice(table, 1000) if _fits(table, row)]
    kinds = [
        _kind(Path(file), name, list(seen), task)
        for name, seen in zip(targets, values, strict=True)
    ]
    if len({kind.task for kind in kinds}) > 1:
        found = ", ".join(
            f"{n!r} is {k.task}" for n, k in zip(targets, kinds, strict=True)
        )
        raise DataError(f"all targets of a model must have the same task, but {found}")
    labels = {kind.labels for kind in kinds if kind.task == "binary"}
    if len(labels) > 1:
        raise DataError(
            f"the targets {', '.join(targets)} of {file} have different labels: "
            f"{', '.join(map(str, sorted(labels, key=str)))}; use the same labels"
        )
    first = kinds[0]
    return Columns(smiles, first.task, first.labels, first.classes)


@dataclass(frozen=True)
class _Kind:
    task: Kind
    labels: tuple[str, str] | None = None
    classes: int | None = None


def _fits(table, row: Row) -> bool:
    return table.misfit(row.cells) is None


def _smiles_column(
    file: Path, header: Sequence[str], targets: Sequence[str], rows: Sequence[Row]
) -> str:
    """By its name, or else by its content."""
    names = {name.lower(): name for name in reversed(header) if name not in targets}
    for usual in ("smiles", "canonical_smiles", "smi"):
        if usual in names:
            return names[usual]
    found = [name for lower, name in names.items() if "smiles" in lower]
    if not found:
        found = [
            name for name in names.values() if _holds_smiles(rows, header.index(name))
        ]
    if len(found) != 1:
        what = f"{' and '.join(map(repr, found))} contain" if found else "none contains"
        raise DataError(
            f"cannot detect the SMILES column of {file}: of the columns "
            f"{', '.join(header)}, {what} SMILES; specify it"
        )
    return found[0]


def _holds_smiles(rows: Sequence[Row], place: int) -> bool:
    """Whether most cells of a column are molecules, and not all of them one atom."""
    texts = [text for row in rows if (text := row.cells[place].strip())]
    return (
        any(len(text) > 1 for text in texts)
        and sum(map(_is_molecule, texts)) > len(texts) / 2
    )


def _is_molecule(text: str) -> bool:
    try:
        molecule(text)
    except DataError:
        return False
    return True


def _kind(file: Path, name: str, values: list[str], task: Kind | None) -> _Kind:
    if not values:
        raise DataError(f"the column {name!r} of {file} has no values")
    numbers = [value for value in values if _is_number(value)]
    different = len({float(v) for v in numbers}) + len(values) - len(numbers)
    if different == 1:
        raise DataError(
            f"every value of {name!r} in {file} is {values[0]!r}: there is nothing to "
            f"learn; choose another target"
        )
    commas = [value for value in values if has_decimal_comma(value)]
    mostly_numbers = 2 * (len(numbers) + len(commas)) > len(values)
    if task is None:
        if mostly_numbers and len(commas) > len(numbers):
            raise DataError(
                f"most values of {name!r} in {file} have a decimal comma, such as "
                f"{commas[0]!r}; write {commas[0].replace(',', '.')} instead, or say "
                f"that they are the names of classes"
            )
        if different == 2:
            task = "binary"
        elif 2 * len(numbers) > len(values):
            task = "regression"
        else:
            task = "multiclass"
    if task == "multiclass" and different > _MOST_CLASSES:
        raise DataError(
            f"the column {name!r} of {file} has more than {_MOST_CLASSES} different "
            f"values, such as {values[0]!r}, too many for classes"
        )
    if task == "binary":
        return _Kind(task, _labels(file, name, values))
    return _Kind(task, classes=different if task == "multiclass" else None)


def _labels(file: Path, name: str, values: list[str]) -> tuple[str, str] | None:
    """The values that mean 0 and 1; None if these are 0 and 1."""
    if all(_is_number(value) and float(value) in (0, 1) for value in values):
        return None
    distinct = sorted({str(float(v)) if _is_number(v) else v: v for v in values})
    if len(distinct) != 2:
        raise DataError(
            f"a binary target needs two values; {name!r} in {file} has "
            f"{len(distinct)}, such as {', '.join(map(repr, distinct[:3]))}"
        )
    first, second = distinct
    return (second, first) if first.lower() in _POSITIVE else (first, second)


def _is_number(text: str) -> bool:
    try:
        number(text)
    except DataError:
        return False
    return True
