"""SDF files as rows: the SMILES, the name and the properties of each entry."""

import io
import re
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fullrank.data.featurizers import Featurized, Reading
from fullrank.data.molecules import rdkit_failures
from fullrank.data.packed.graphs import Graph
from fullrank.data.workers import for_each, map_in_workers
from fullrank.errors import DataError
from fullrank.extras import need

if TYPE_CHECKING:
    from rdkit import Chem

_PROPERTY = re.compile(r"^>[^<\n]*<([^>\n]*)>[^\n]*\n(.*?)(?:\n\s*\n|\Z)", re.M | re.S)


class SdfEntry(NamedTuple):
    """One molecule of an SDF file; ``problem`` says why it has no SMILES."""

    name: str
    smiles: str
    properties: dict[str, str]
    problem: str | None = None


def sdf_texts(file: Path) -> Iterator[str]:
    """The text of each entry."""
    lines: list[str] = []
    with file.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            if line.startswith("$$$$"):
                yield "".join(lines)
                lines = []
            else:
                lines.append(line)
    if "".join(lines).strip():
        yield "".join(lines)


def sdf_columns(file: Path) -> list[str]:
    """The names of the properties, in the order in which they appear first."""
    names = (name for text in sdf_texts(file) for name in _properties(text))
    return list(dict.fromkeys(names))


def sdf_entries(file: Path) -> Iterator[SdfEntry]:
    """The entries in order, read in a process of their own, because RDKit can crash."""
    need("rdkit")
    waiting: deque[str] = deque()

    def texts() -> Iterator[str]:
        for text in sdf_texts(file):
            waiting.append(text)
            yield text

    for found in map_in_workers(_smiles, texts()):
        text = waiting.popleft()
        name = text.partition("\n")[0].strip()
        if isinstance(found, DataError):
            yield SdfEntry(name, "", _properties(text), str(found))
        else:
            yield SdfEntry(name, found, _properties(text))


def _properties(text: str) -> dict[str, str]:
    return {name.strip(): value.strip() for name, value in _PROPERTY.findall(text)}


def read_entries(
    reading: Reading, texts: Sequence[str | DataError]
) -> tuple[list[str], Featurized]:
    """The SMILES and the graphs of entries; without a molecule, the SMILES is empty."""
    from rdkit import Chem, rdBase

    keeps_hydrogens = reading.featurizer.keeps_hydrogens

    def smiles(mol: Chem.Mol) -> str:
        with rdkit_failures("this entry"):
            return Chem.MolToSmiles(Chem.RemoveHs(mol))

    def graph(mol: Chem.Mol) -> Graph:
        with rdkit_failures("this entry"):
            return reading.featurizer.from_molecule(mol)

    with rdBase.BlockLogs():
        mols = for_each(partial(_molecule, remove_hydrogens=not keeps_hydrogens), texts)
        written = for_each(smiles, mols)
        made = reading.pack(mols, for_each(graph, mols))
    return ["" if isinstance(text, DataError) else text for text in written], made


def _smiles(text: str) -> str:
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs(), rdkit_failures("this entry"):
        return Chem.MolToSmiles(_molecule(text))


def _molecule(text: str, remove_hydrogens: bool = True) -> "Chem.Mol":
    from rdkit import Chem

    stream = io.BytesIO(f"{text}$$$$\n".encode())
    mol = next(Chem.ForwardSDMolSupplier(stream, removeHs=remove_hydrogens), None)
    if mol is None:
        raise DataError("RDKit cannot read this entry")
    return mol
