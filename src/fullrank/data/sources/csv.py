"""Molecules in a table: rows with SMILES and targets."""

import hashlib
import logging
import math
import re
from array import array
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import ValidationInfo, field_validator

from fullrank.data.cache import data_root, prepared, shown
from fullrank.data.dataset import METRICS, Description, GraphDataset, Target
from fullrank.data.descriptors import DescriptorKind
from fullrank.data.featurizers import (
    Featurized,
    MoleculeFeaturizer,
    Reading,
    need_chemistry,
)
from fullrank.data.files import content_digest, fits_float32
from fullrank.data.molecules import (
    Fragments,
    molecule_features,
    rdkit_failures,
)
from fullrank.data.packed.graphs import Field, Graph, PackedGraphs, Part, text_arrays
from fullrank.data.sources.base import Location, PathSource
from fullrank.data.tables import (
    Row,
    TableReader,
    estimated_rows,
    is_missing,
    is_table,
    number,
    open_table,
    same_value,
    table_text,
)
from fullrank.data.workers import available_cpus, batched, for_each, map_blocks
from fullrank.errors import DataError, nearest

TableTask = Literal["regression", "binary", "multiclass"]
_PARTS = {"train": 0, "valid": 1, "val": 1, "validation": 1, "test": 2}
_NO_PART = 255
_ROWS_AT_ONCE = 1000
_log = logging.getLogger(__name__)


class CsvSource(PathSource):
    """A table of molecules in one of the formats of `fullrank.data.tables`.

    Rows that cannot be used are rejected: they are listed in ``notes["rejected"]`` and
    in a file. Rows are numbered by their line, the header being row 1.

    Attributes:
        name: The path of the table.
        targets: The columns to predict; empty, ``NA`` and ``nan`` mean missing.
        task: ``regression``, ``binary`` for 0 and 1, or ``multiclass`` for one column
            of class names.
        labels: ``binary``: the values that stand for 0 and 1, such as ``[inactive,
            active]``.
        smiles: The column of SMILES.
        units: Units of targets by name, such as ``{logS: log mol/L}``.
        split_column: The column that contains ``train``, ``valid`` or ``test``.
        fragments: ``keep`` all fragments, including salts and solvents, or only the
            ``largest``.
        rejected: The file that lists rejected rows; by default ``NAME.rejected.csv``
            beside the table.
        allow_rejected: Whether more than half of the rows may be rejected.
    """

    kind: Literal["csv"] = "csv"
    task: TableTask = "regression"
    labels: tuple[str, str] | None = None
    smiles: str = "smiles"
    units: dict[str, str] | None = None
    split_column: str | None = None
    fragments: Fragments = "keep"
    rejected: Location | None = None
    allow_rejected: bool = False

    locations = ("root", "rejected", "allow_rejected")

    @field_validator("units")
    @classmethod
    def _of_targets(
        cls, units: dict[str, str] | None, info: ValidationInfo
    ) -> dict[str, str] | None:
        known = info.data.get("targets") or []
        for name in units or ():
            if name not in known:
                raise ValueError(f"{name!r} is not a target{nearest(name, known)}")
        return units

    @field_validator("rejected")
    @classmethod
    def _another_file(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        if file and str(file) == info.data.get("name"):
            raise ValueError("this is the table itself, which would be overwritten")
        return file

    @classmethod
    def reads(cls, path: Path) -> bool:
        return is_table(path)

    @property
    def label(self) -> str:
        return Path(self.name).name.partition(".")[0].lower()

    def _load(self, labelled: bool, progress: bool) -> GraphDataset:
        return self._load_described(labelled, progress, ())

    def _load_described(
        self, labelled: bool, progress: bool, descriptors: tuple[DescriptorKind, ...]
    ) -> GraphDataset:
        file = Path(self.name)
        featurizer = MoleculeFeaturizer(
            fragments=self.fragments, descriptors=descriptors
        )
        with open_table(file) as table:  # report problems before preparing anything
            self._check_columns(table, labelled)
        options: list[Any] = [self.targets, self.smiles, self.task, self.split_column]
        options += [self.labels] if self.labels else []
        key = repr([content_digest(file), *options, featurizer]).encode()
        digest = hashlib.sha256(key).hexdigest()[:12]
        folder = data_root(self.root) / f"{file.stem}-{digest}"
        preparation = _Preparation(self, featurizer)
        graphs = prepared(folder, lambda to: preparation.write_to(to, progress))
        dataset = GraphDataset.described(graphs, source=str(file))
        if self.units:
            dataset.targets = tuple(
                Target(target.name, self.units.get(target.name, ""))
                for target in dataset.targets
            )
        rejected = (dataset.notes or {})["rejected"]
        if rejected:
            self._report(rejected, len(dataset) + len(rejected))
        return dataset

    def _check_columns(self, table: TableReader, labelled: bool) -> None:
        targets = self.targets or []
        split = [self.split_column] if self.split_column else []
        for column in (self.smiles, *targets, *split):
            table.column(column)
        multiclass = self.task == "multiclass"
        if (not targets and (labelled or multiclass)) or (
            multiclass and len(targets) > 1
        ):
            raise DataError(
                f"{self.task} needs {'one target' if multiclass else 'a target'}, got "
                f"{len(targets)}: choose from the columns {', '.join(table.header)} of "
                f"{table.file} with the option targets"
            )

    def _report(self, rows: Sequence[dict[str, Any]], total: int) -> None:
        where = f"the first is row {rows[0]['row']}: {rows[0]['reason']}"
        if self.rejected or self.targets:  # not when only inspecting molecules
            file = self.rejected or Path(self.name).with_suffix(".rejected.csv")
            if _write_rejected(file, rows):
                where = f"see {file}"
        share = f"{len(rows):,} of {total:,} rows ({len(rows) / total:.0%})"
        if 2 * len(rows) > total and not self.allow_rejected:
            raise DataError(
                f"{share} of {self.name} cannot be used, most often because "
                f"{_most_frequent(rows)}; {where}. Correct the table, or set "
                f"allow_rejected to use the remaining rows"
            )
        _log.warning("%s of %s cannot be used; %s", share, self.name, where)


def read_smiles_csv(
    file: str | Path,
    targets: Sequence[str] | None = (),
    progress: bool = True,
    **options: Any,
) -> GraphDataset:
    """Read molecules from a table.

    Args:
        file: The table.
        targets: The columns to predict. None for the molecules alone, which cannot be
            trained on.
        progress: Show a bar while the table is prepared.
        options: The others of `CsvSource`.
    """
    wanted = list(targets) if targets else None
    source = CsvSource.checked(str(file), name=str(file), targets=wanted, **options)
    return source.load(labelled=targets is not None, progress=progress)


class _Checked(NamedTuple):
    """A row whose cells can be used; of its molecule nothing is known yet."""

    line: int
    smiles: str
    targets: list[Any]
    part: int


class _Made(NamedTuple):
    """The molecules of some rows, and the canonical SMILES of those with a graph."""

    featurized: Featurized
    canonical: list[str]


class _Preparation:
    """Packs the usable rows of a table, and remembers why the others are not."""

    def __init__(self, options: CsvSource, featurizer: MoleculeFeaturizer) -> None:
        self._options = options
        self._featurizer = featurizer
        self._multiclass = options.task == "multiclass"
        self._rejected: list[dict[str, Any]] = []
        self._codes: dict[str, int] = {}  # of the classes as they are met
        self._code_of_row = array("q")

    def write_to(self, folder: Path, progress: bool) -> None:
        """Pack the usable rows."""
        need_chemistry()
        file = Path(self._options.name)
        with open_table(file) as table:
            self._table = table
            total = estimated_rows(file) if progress else None
            rows = shown(table, total, file.name, progress)
            PackedGraphs.write(folder, self._blocks(rows), self._info, self._last)

    def _blocks(self, rows: Iterable[Row]) -> Iterator[PackedGraphs]:
        waiting: deque[list[_Checked]] = deque()

        def smiles() -> Iterator[list[str]]:
            checked = filter(None, map(self._checked, rows))
            for block in batched(checked, _ROWS_AT_ONCE):
                waiting.append(block)
                yield [row.smiles for row in block]

        make = partial(_make, self._featurizer)
        empty = True
        for made in map_blocks(make, smiles(), available_cpus()):
            block = waiting.popleft()
            usable = []
            for row, reason in zip(block, made.featurized.reasons, strict=True):
                if reason is None:
                    usable.append(row)
                else:
                    self._reject(row.line, row.smiles, reason)
            if made.featurized.graphs is not None:
                empty = False
                yield self._labelled(made.featurized.graphs, usable, made.canonical)
        if empty:
            reason = "it has no rows"
            if self._rejected:
                reason = f"most often because {_most_frequent(self._rejected)}"
            raise DataError(f"{self._options.name} has no usable row: {reason}")

    def _checked(self, row: Row) -> _Checked | None:
        options, smiles = self._options, ""
        try:
            problem = row.problem or self._table.misfit(row.cells)
            cells = dict(zip(self._table.header, row.cells, strict=False))
            smiles = cells.get(options.smiles, "").strip()
            if problem:
                raise DataError(problem)
            targets = [self._target(n, cells[n].strip()) for n in options.targets or ()]
            return _Checked(row.line, smiles, targets, self._part(cells))
        except DataError as error:
            self._reject(row.line, smiles, str(error))
            return None

    def _part(self, cells: dict[str, str]) -> int:
        if self._options.split_column is None:
            return _NO_PART
        text = cells[self._options.split_column].strip()
        if text.lower() not in _PARTS:
            raise DataError(f"{text!r} is not train, valid or test")
        return _PARTS[text.lower()]

    def _target(self, name: str, text: str) -> Any:
        missing = is_missing(text)
        if self._multiclass:
            if missing:
                raise DataError(f"{name!r} has no class")
            return text
        if missing:
            return math.nan
        if self._options.labels:
            return self._label(name, text)
        try:
            value = number(text)
        except DataError as error:
            raise DataError(f"column {name!r}: {error}") from None
        if not fits_float32(value):
            raise DataError(f"{name!r} is {text!r}, not finite in single precision")
        if self._options.task == "binary" and value not in (0, 1):
            raise DataError(f"{name!r} is {text!r}, not 0 or 1")
        return value

    def _label(self, name: str, text: str) -> float:
        found = [same_value(text, label) for label in self._options.labels or ()]
        if not any(found):
            labels = " nor ".join(map(repr, self._options.labels or ()))
            raise DataError(f"{name!r} is {text!r}, neither {labels}")
        return float(found.index(True))

    def _reject(self, line: int, smiles: str, reason: str) -> None:
        self._rejected.append({"row": line, "reason": reason, "smiles": smiles})

    def _labelled(
        self, graphs: PackedGraphs, rows: list[_Checked], canonical: list[str]
    ) -> PackedGraphs:
        """The graphs with what the table says of them."""
        arrays = dict(graphs.arrays)
        if self._multiclass:
            for row in rows:
                code = self._codes.setdefault(row.targets[0], len(self._codes))
                self._code_of_row.append(code)
        else:
            y = np.array([row.targets for row in rows], dtype=np.float64)
            arrays["graph.y"] = y.reshape(len(rows), -1)
        arrays |= text_arrays("smiles", [row.smiles for row in rows])
        arrays |= text_arrays("canonical", canonical)
        if self._options.split_column:
            arrays["graph.split"] = np.array([row.part for row in rows], np.uint8)
        dtype = "int64" if self._multiclass else "float32"
        fields = {**graphs.fields, "y": Field((Part("graph.y"),), dtype)}
        return replace(graphs, arrays=arrays, fields=fields)

    def _last(self) -> dict[str, np.ndarray]:
        """The classes, which count in alphabetical order once all of them are known."""
        if not self._multiclass:
            return {}
        rank = {name: i for i, name in enumerate(sorted(self._codes))}
        ranks = np.array([rank[name] for name in self._codes])
        return {"graph.y": ranks[np.array(self._code_of_row)]}

    def _info(self) -> dict[str, Any]:
        options = self._options
        atoms, bonds = molecule_features()
        rejected = sorted(self._rejected, key=lambda row: row["row"])
        return Description(
            name=Path(options.name).stem,
            task=options.task,
            targets=tuple(Target(name) for name in options.targets or ()),
            node_features=atoms,
            edge_features=bonds,
            metric=METRICS[options.task],
            default_split="given" if options.split_column else "random",
            num_classes=len(self._codes) or None,
            featurizer=self._featurizer,
            notes={"rejected": rejected, "classes": sorted(self._codes)},
        ).to_json()


def _make(featurizer: MoleculeFeaturizer, smiles: Sequence[str | DataError]) -> _Made:
    from rdkit import Chem

    def canonical(mol: Chem.Mol) -> str:
        with rdkit_failures("this molecule"):
            return Chem.MolToSmiles(mol)

    mols = featurizer.molecules(smiles)
    texts = for_each(canonical, mols)
    both = zip(texts, mols, strict=True)
    graphs = featurizer.graphs([t if isinstance(t, DataError) else m for t, m in both])
    return _Made(
        Reading(featurizer).pack(mols, graphs),
        [str(t) for t, g in zip(texts, graphs, strict=True) if isinstance(g, Graph)],
    )


def _most_frequent(rows: Sequence[dict[str, Any]]) -> str:
    """The first of the reasons that occur most often, whatever values they quote."""
    kinds = [re.sub(r"'[^']*'|[-+]?\d+", "", row["reason"]) for row in rows]
    most = Counter(kinds).most_common(1)[0][0]
    return rows[kinds.index(most)]["reason"]


def _write_rejected(file: Path, rows: Sequence[dict[str, Any]]) -> bool:
    """List the rows in ``file``; returns whether that was possible."""
    columns = ("row", "reason", "smiles")
    cells = [[row[column] for column in columns] for row in rows]
    content = table_text([columns, *cells]).encode()
    try:
        if not file.exists() or file.read_bytes() != content:
            file.write_bytes(content)
    except OSError as error:
        _log.warning("cannot write %s: %s", file, error.strerror)
        return False
    return True
