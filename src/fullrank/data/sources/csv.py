"""The user's own molecules: a CSV file with SMILES and targets.

Atoms and bonds carry OGB's features, which keep chirality and double-bond stereo.
"""

import csv
import hashlib
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fullrank.data.cache import data_root, prepared, shown
from fullrank.data.dataset import (
    METRICS,
    Description,
    GraphDataset,
    Target,
    Task,
    described,
)
from fullrank.data.packages import need
from fullrank.data.packed.graphs import Field, Graph, PackedGraphs, Part, text_arrays
from fullrank.data.packed.storage import write
from fullrank.data.sources.ogb_raw import molecule_features
from fullrank.data.tables import ENCODING, check_columns, delimiter_of, reading_table
from fullrank.errors import DataError

if TYPE_CHECKING:
    from rdkit import Chem

Fragments = Literal["keep", "largest"]
# What a batch of molecules carries when nothing is known about them but the SMILES.
MOLECULE_FIELDS = {
    "x": Field((Part("node.x"),), "int64"),
    "edge_attr": Field((Part("edge.attr"),), "int64"),
}
_PARTS = {"train": 0, "valid": 1, "val": 1, "validation": 1, "test": 2}
_MISSING = {"", "na", "nan", "none", "null"}
_ROWS_AT_ONCE = 1000
_log = logging.getLogger(__name__)


def molecule(smiles: str, fragments: Fragments = "keep") -> "Chem.Mol":
    """The molecule that ``smiles`` describes; a `DataError` says why there is none.

    Args:
        fragments: ``"largest"`` strips salts and solvents.
    """
    need("rdkit")
    from rdkit import Chem, rdBase

    if fragments not in ("keep", "largest"):
        raise DataError(f"fragments must be 'keep' or 'largest', got {fragments!r}")
    if not smiles.strip():
        raise DataError("the SMILES is empty")
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(smiles.strip())
        if mol is None:
            raise DataError(_why_not(smiles.strip()))
        if fragments == "largest":
            mol = _chooser().choose(mol)
    if mol.GetNumAtoms() == 0:
        raise DataError(f"the SMILES {smiles!r} has no atoms")
    return mol


def graph_from_molecule(mol: "Chem.Mol") -> Graph:
    """Atoms and bonds with OGB's features, to be packed with `MOLECULE_FIELDS`."""
    need("ogb")
    from ogb.utils.features import atom_to_feature_vector, bond_to_feature_vector

    atoms = [atom_to_feature_vector(atom) for atom in mol.GetAtoms()]
    ends, bonds = [], []
    for bond in mol.GetBonds():
        first, second = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        try:
            features = bond_to_feature_vector(bond)
        except ValueError as error:
            raise DataError(f"OGB's features know no {bond.GetStereo()}") from error
        ends += [(first, second), (second, first)]
        bonds += [features, features]
    arrays = {
        "node.x": np.array(atoms, dtype=np.uint8),
        "edge.attr": np.array(bonds, dtype=np.uint8).reshape(-1, 3),
    }
    return Graph(len(atoms), np.array(ends, dtype=np.int64).reshape(-1, 2).T, arrays)


def graph_from_smiles(smiles: str, fragments: Fragments = "keep") -> Graph:
    """`graph_from_molecule` of ``smiles``; a `DataError` says why it cannot be."""
    return graph_from_molecule(molecule(smiles, fragments))


def scaffold(smiles: str) -> str:
    """The Bemis-Murcko scaffold, without stereo; empty for a molecule without rings."""
    need("rdkit")
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    return MurckoScaffoldSmiles(mol=molecule(smiles), includeChirality=False)


def read_smiles_csv(
    file: str | Path,
    targets: Sequence[str] | None = (),
    smiles: str = "smiles",
    task: Task = "regression",
    split_column: str | None = None,
    fragments: Fragments = "keep",
    root: str | Path | None = None,
    rejected: str | Path | None = None,
    progress: bool = True,
) -> GraphDataset:
    """Read molecules from a CSV file.

    Rows that cannot be used never stop the others: they are kept in
    ``notes["rejected"]``, and logged and written to a file when the set is prepared.
    The rows of a table are counted as in an editor, the header being row 1.

    Args:
        file: With a header; tab-separated if its name ends in ``.tsv``.
        targets: The columns to predict; empty, ``NA`` and ``nan`` are missing. None
            for the molecules alone, which cannot be trained on.
        smiles: The column of SMILES.
        task: ``"regression"``, ``"binary"`` for 0 and 1, or ``"multiclass"`` for one
            column of class names.
        split_column: It says ``train``, ``valid`` or ``test``.
        fragments: ``"keep"`` salts and solvents, or keep the ``"largest"`` fragment.
        root: Folder of prepared sets; the user's cache by default.
        rejected: Where to write the rejected rows, if there are any: by default
            ``rejected.csv`` beside the file, or ``NAME.rejected.csv`` if there is
            such a file already.
    """
    file = Path(file)
    table = _Table(file, targets, smiles, task, split_column, fragments)
    key = repr([table.targets, smiles, task, split_column, fragments]).encode()
    digest = hashlib.sha256(table.content + key).hexdigest()[:12]
    folder = data_root(root) / f"{file.stem}-{digest}"
    graphs = prepared(folder, lambda target: table.write_to(target, progress))
    dataset = GraphDataset(graphs=graphs, **described(graphs.info))
    # A table has them only if it was prepared now.
    if rejected or (table.rejected and targets is not None):
        _report(dataset, Path(rejected or _beside(file)))
    return dataset


@dataclass
class _Row:
    """A usable row: what is known of a molecule."""

    graph: Graph
    smiles: str
    canonical: str
    targets: list[Any]
    part: int


class _Table:
    """The rows of a CSV file, read with the reasons why some cannot be used."""

    def __init__(
        self,
        file: Path,
        targets: Sequence[str] | None,
        smiles: str,
        task: Task,
        split: str | None,
        fragments: Fragments,
    ) -> None:
        if task not in ("regression", "binary", "multiclass"):
            raise DataError(
                f"a CSV is for regression, binary or multiclass, not {task!r}"
            )
        self.file, self.targets, self.task = file, tuple(targets or ()), task
        self.smiles, self.split, self.fragments = smiles, split, fragments
        with reading_table(file):
            self.content = file.read_bytes()
            text = self.content.decode(ENCODING)
        self._lines = text.splitlines(keepends=True)
        self.columns: list[str] = next(self._reader(), [])
        wanted = (smiles, *self.targets, *([split] if split else []))
        check_columns(file, self.columns, wanted)
        if targets is not None or task == "multiclass":
            self._check_number_of_targets()
        self.rejected: list[dict[str, Any]] = []

    def _check_number_of_targets(self) -> None:
        multiclass, given = self.task == "multiclass", len(self.targets)
        if not given or (multiclass and given > 1):
            raise DataError(
                f"{self.task} needs {'one target' if multiclass else 'a target'}, got "
                f"{given}: choose from the columns {', '.join(self.columns)} with "
                f"--target or data.targets"
            )

    def _reader(self) -> Any:
        return csv.reader(self._lines, delimiter=delimiter_of(self.file))

    def write_to(self, folder: Path, progress: bool) -> None:
        """Pack the usable rows."""
        need("rdkit")
        rows = list(shown(self._rows(), len(self._lines), self.file.name, progress))
        if not rows:
            reason = self.rejected[0]["reason"] if self.rejected else "it has no rows"
            raise DataError(f"{self.file} has no usable row: {reason}")
        info = self._description(rows)
        classes = info.notes["classes"] if info.notes else []
        parts = (
            self._pack(rows[i : i + _ROWS_AT_ONCE], classes)
            for i in range(0, len(rows), _ROWS_AT_ONCE)
        )
        write(folder, parts, asdict(info))

    def _rows(self) -> Iterator[_Row]:
        reader = self._reader()
        next(reader)
        for cells in self._checked(reader):
            try:
                yield self._row(cells)
            except DataError as error:
                found = dict(zip(self.columns, cells, strict=False))
                self.rejected.append(
                    {
                        "row": reader.line_num,
                        "reason": str(error),
                        "smiles": found.get(self.smiles, ""),
                    }
                )

    def _checked(self, reader: Any) -> Iterator[list[str]]:
        try:
            yield from reader
        except csv.Error as error:
            raise DataError(f"{self.file}, line {reader.line_num}: {error}") from error

    def _row(self, cells: list[str]) -> _Row:
        from rdkit import Chem

        if not any(cell.strip() for cell in cells):
            raise DataError("the row is empty")
        if len(cells) != len(self.columns):
            raise DataError(f"{len(cells)} cells instead of {len(self.columns)}")
        found = dict(zip(self.columns, map(str.strip, cells), strict=True))
        targets = [self._target(name, found[name]) for name in self.targets]
        part = 255
        if self.split:
            part = _PARTS.get(found[self.split].lower(), 255)
            if part == 255:
                raise DataError(f"{found[self.split]!r} is not train, valid or test")
        mol = molecule(found[self.smiles], self.fragments)
        text = found[self.smiles]
        return _Row(
            graph_from_molecule(mol), text, Chem.MolToSmiles(mol), targets, part
        )

    def _target(self, name: str, text: str) -> Any:
        missing = text.lower() in _MISSING
        if self.task == "multiclass":
            if missing:
                raise DataError(f"{name!r} names no class")
            return text
        if missing:
            return math.nan
        try:
            value = float(text)
        except ValueError as error:
            raise DataError(f"{name!r} is {text!r}, not a number") from error
        if not math.isfinite(value):
            raise DataError(f"{name!r} is {text!r}, not a finite number")
        if self.task == "binary" and value not in (0, 1):
            raise DataError(f"{name!r} is {text!r}, not 0 or 1")
        return value

    def _description(self, rows: list[_Row]) -> Description:
        atoms, bonds = molecule_features()
        multiclass = self.task == "multiclass"
        classes = sorted({row.targets[0] for row in rows}) if multiclass else []
        return Description(
            name=self.file.stem,
            task=self.task,
            targets=tuple(Target(name) for name in self.targets),
            node_features=atoms,
            edge_features=bonds,
            metric=METRICS[self.task],
            default_split="given" if self.split else "random",
            num_classes=len(classes) or None,
            source=str(self.file),
            notes={"rejected": self.rejected, "classes": classes},
        )

    def _pack(self, rows: list[_Row], classes: list[str]) -> PackedGraphs:
        if self.task == "multiclass":
            y = np.array([classes.index(row.targets[0]) for row in rows])
        else:
            y = np.array([row.targets for row in rows], dtype=np.float64)
        arrays = {
            "graph.y": y,
            **text_arrays("smiles", [row.smiles for row in rows]),
            **text_arrays("canonical", [row.canonical for row in rows]),
        }
        if self.split:
            arrays["graph.split"] = np.array([row.part for row in rows], np.uint8)
        dtype = "int64" if self.task == "multiclass" else "float32"
        fields = MOLECULE_FIELDS | {"y": Field((Part("graph.y"),), dtype)}
        return PackedGraphs.from_graphs([row.graph for row in rows], arrays, fields)


def _why_not(smiles: str) -> str:
    """What RDKit finds wrong with it."""
    from rdkit import Chem

    mol = Chem.MolFromSmiles(smiles, sanitize=False)
    if mol is None:
        return f"the SMILES {smiles!r} cannot be parsed"
    problems = Chem.DetectChemistryProblems(mol)
    reason = problems[0].Message() if problems else "it cannot be sanitised"
    return f"the SMILES {smiles!r} is no molecule: {reason}"


@cache
def _chooser() -> Any:
    from rdkit.Chem.MolStandardize import rdMolStandardize

    return rdMolStandardize.LargestFragmentChooser()


def _beside(file: Path) -> Path:
    """Where its rejected rows go without writing over what is there."""
    first = file.with_name("rejected.csv")
    return file.with_suffix(".rejected.csv") if first.exists() else first


def _report(dataset: GraphDataset, file: Path) -> None:
    rows = (dataset.notes or {})["rejected"]
    if not rows:
        return
    _log.warning(
        "%d rows of %s cannot be used; see %s", len(rows), dataset.source, file
    )
    try:
        with file.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, ("row", "reason", "smiles"))
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        _log.warning("cannot write %s: %s", file, error.strerror)
