"""A data set of molecules as a table, which trains with descriptors like any other."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fullrank.data.dataset import GraphDataset
from fullrank.data.splits import PARTS
from fullrank.data.tables import delimiter_of, table_text
from fullrank.errors import DataError

_ROWS_AT_ONCE = 10_000


def write_molecule_table(
    dataset: GraphDataset, file: Path, columns: Sequence[str] | None = None
) -> None:
    """Write the SMILES, the targets and, if the set has its own, the split of a set.

    Args:
        dataset: Molecules with values, labels or classes.
        file: A CSV or TSV file.
        columns: Names of the targets; by default those of the set.
    """
    if not dataset.has_text("smiles") or dataset.task == "tokens":
        raise DataError(f"{dataset.name} is not a set of molecules with their SMILES")
    targets = columns or [target.name for target in dataset.targets]
    if len(targets) != len(dataset.targets):
        raise DataError(
            f"{len(targets)} names ({', '.join(targets)}) for {len(dataset.targets)} "
            f"targets of {dataset.name}"
        )
    given = "graph.split" in dataset.graphs.arrays
    header = ["smiles", *targets, *(["split"] if given else [])]
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        raise DataError(f"the table would have several columns {', '.join(repeated)}")
    if file.suffix.lower() not in (".csv", ".tsv"):
        raise DataError(f"a table is a .csv or .tsv file, got {str(file)!r}")
    if file.exists():
        raise DataError(f"{str(file)!r} exists already; give another name")
    with file.open("w", encoding="utf-8", newline="") as stream:
        stream.write(table_text([header], delimiter_of(file)))
        for start in range(0, len(dataset), _ROWS_AT_ONCE):
            block = slice(start, start + _ROWS_AT_ONCE)
            rows = _rows(dataset, block, given)
            stream.write(table_text(rows, delimiter_of(file)))


def _rows(dataset: GraphDataset, block: slice, given: bool) -> Iterator[list[Any]]:
    labels = np.asarray(dataset.labels[block])
    if dataset.task == "multiclass":
        names = dataset.classes or tuple(map(str, range(dataset.num_classes or 0)))
        cells: list[list[Any]] = [[names[label]] for label in labels.tolist()]
    else:
        kind = int if dataset.task == "binary" else float
        cells = [
            ["" if value != value else kind(value) for value in row]
            for row in labels.tolist()
        ]
    smiles = dataset.texts("smiles")[block]
    parts = dataset.graphs.array("graph.split")[block].tolist() if given else ()
    for place, (text, values) in enumerate(zip(smiles, cells, strict=True)):
        yield [text, *values, *([_part(parts[place])] if given else [])]


def _part(number: int) -> str:
    if number >= len(PARTS):
        raise DataError("a molecule is in no part of the split of the set")
    return PARTS[number]
