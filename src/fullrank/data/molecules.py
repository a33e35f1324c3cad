"""Molecules: from SMILES to RDKit's molecule to a graph with OGB's features.

OGB's atom and bond features keep chirality and double-bond stereo.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fullrank.data.features import Features
from fullrank.data.packed.graphs import Field, Graph, Part
from fullrank.errors import DataError
from fullrank.extras import need

if TYPE_CHECKING:
    from rdkit import Chem

Fragments = Literal["keep", "largest"]
MOLECULE_FIELDS = {
    "x": Field((Part("node.x"),), "int64"),
    "edge_attr": Field((Part("edge.attr"),), "int64"),
}
_ATOMS = (
    "atomic number",
    "chirality",
    "degree",
    "formal charge",
    "hydrogens",
    "radical electrons",
    "hybridisation",
    "aromatic",
    "in ring",
)
_BONDS = ("bond type", "stereo", "conjugated")
_LONGEST_QUOTE = 60


def molecule(smiles: str) -> "Chem.Mol":
    """The molecule that ``smiles`` describes; a `DataError` says why there is none."""
    need("rdkit")
    from rdkit import Chem, rdBase

    smiles = smiles.strip()
    if not smiles:
        raise DataError("the SMILES is empty")
    with rdBase.BlockLogs(), rdkit_failures(smiles):
        mol = Chem.MolFromSmiles(smiles)
        if mol is None:
            raise DataError(f"the SMILES {quoted(smiles)} {_problem(smiles)}")
    if mol.GetNumAtoms() == 0:
        raise DataError(f"the SMILES {quoted(smiles)} has no atoms")
    return mol


def _problem(smiles: str) -> str:
    """What RDKit finds wrong with it."""
    from rdkit import Chem

    mol = Chem.MolFromSmiles(smiles, sanitize=False)
    if mol is None:
        return "cannot be parsed"
    problems = Chem.DetectChemistryProblems(mol)
    reason = problems[0].Message() if problems else "it cannot be sanitised"
    return f"is not a valid molecule: {reason}"


@contextmanager
def rdkit_failures(smiles: str) -> Iterator[None]:
    """Turn an exception of RDKit into a `DataError` about the molecule."""
    try:
        yield
    except (RuntimeError, MemoryError, UnicodeError) as error:
        lines = [line.strip("* \t") for line in str(error).splitlines()]
        reason = next(filter(None, lines), type(error).__name__)
        raise DataError(f"RDKit fails on {quoted(smiles)}: {reason}") from error


def quoted(text: str) -> str:
    """The text in quotes, shortened if it is long."""
    if len(text) <= _LONGEST_QUOTE:
        return repr(text)
    return f"{text[:_LONGEST_QUOTE]!r}… ({len(text):,} characters)"


def largest_fragment(mol: "Chem.Mol") -> "Chem.Mol":
    """The molecule without its salts and solvents."""
    from rdkit import rdBase

    with rdBase.BlockLogs():
        return _chooser().choose(mol)


@cache
def _chooser() -> Any:
    from rdkit.Chem.MolStandardize import rdMolStandardize

    return rdMolStandardize.LargestFragmentChooser()


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
            raise DataError(f"OGB's features lack {bond.GetStereo()}") from error
        ends += [(first, second), (second, first)]
        bonds += [features, features]
    arrays = {
        "node.x": np.array(atoms, dtype=np.uint8),
        "edge.attr": np.array(bonds, dtype=np.uint8).reshape(-1, 3),
    }
    return Graph(len(atoms), np.array(ends, dtype=np.int64).reshape(-1, 2).T, arrays)


def molecule_features() -> tuple[Features, Features]:
    """OGB's nine atom and three bond features."""
    need("ogb")
    from ogb.utils.features import get_atom_feature_dims, get_bond_feature_dims

    return (
        Features("categorical", _ATOMS, tuple(get_atom_feature_dims())),
        Features("categorical", _BONDS, tuple(get_bond_feature_dims())),
    )


def scaffold(smiles: str) -> str:
    """The Bemis-Murcko scaffold, without stereo; empty for a molecule without rings."""
    need("rdkit")
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    return MurckoScaffoldSmiles(mol=molecule(smiles), includeChirality=False)
