"""Molecules: from SMILES to RDKit's molecule to a graph with OGB's features.

OGB's atom and bond features keep chirality and double-bond stereo.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fullrank.data.atom_tables import tables
from fullrank.data.features import Features
from fullrank.data.ogb_features import ogb_features
from fullrank.data.packed.graphs import Field, Graph, Part
from fullrank.data.workers import for_each
from fullrank.errors import DataError, quoted
from fullrank.extras import need

if TYPE_CHECKING:
    from rdkit import Chem

# RDKit's time grows with the square of the length, and twice as many atoms in a chain
# overflow its stack.
LONGEST_SMILES = 10_000
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
# Everything that the binary form of a molecule may hold.
_PROBES = (
    "C/C=C/[C@H](N)C(=O)[O-]",
    "[13CH3][C@@H](O)C#N",
    "O=[N+]([O-])c1ccc2[nH]ccc2c1",
    "[CH2]C=C",
    "F[P-](F)(F)(F)(F)F.[Na+]",
    "N->[Pt](<-N)(Cl)Cl",
    "C1CC2CCC1C2",
    "F/C=C\\F",
)


def molecule(smiles: str) -> "Chem.Mol":
    """The molecule that ``smiles`` describes; a `DataError` says why there is none."""
    need("rdkit")
    from rdkit import rdBase

    with rdBase.BlockLogs():
        return parsed(smiles)


def parsed(smiles: str) -> "Chem.Mol":
    """As `molecule`, but RDKit may write to standard error."""
    from rdkit import Chem

    if not isinstance(smiles, str):  # such as the NaN that pandas puts where none is
        raise DataError(f"{smiles!r} is not a SMILES text")
    smiles = smiles.strip()
    if not smiles:
        raise DataError("the SMILES is empty")
    if len(smiles) > LONGEST_SMILES:
        raise DataError(
            f"the SMILES {quoted(smiles)} has more than {LONGEST_SMILES:,} characters"
        )
    with rdkit_failures(smiles):
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


def largest_fragment(mol: "Chem.Mol") -> "Chem.Mol":
    """The molecule without its salts and solvents."""
    from rdkit import rdBase

    with rdBase.BlockLogs():
        return _chooser().choose(mol)


@cache
def _chooser() -> Any:
    from rdkit.Chem.MolStandardize import rdMolStandardize

    return rdMolStandardize.LargestFragmentChooser()


def graphs_from_molecules(
    mols: "Sequence[Chem.Mol | DataError]",
) -> list[Graph | DataError]:
    """`graph_from_molecule` of each molecule, much faster for many of them.

    An error among the molecules stays one.
    """
    usable = [mol for mol in mols if not isinstance(mol, DataError)]
    found = iter(tables(usable) if reads_binaries() else [None] * len(usable))

    def graph(mol: "Chem.Mol") -> Graph:
        table = next(found)
        if table is None:
            return graph_from_molecule(mol)
        return _graph(table.atoms, table.ends, table.bonds)

    return for_each(graph, mols)


def graph_from_molecule(mol: "Chem.Mol") -> Graph:
    """Atoms and bonds with OGB's features, to be packed with `MOLECULE_FIELDS`."""
    ogb = ogb_features()
    atoms = [ogb.atom_to_feature_vector(atom) for atom in mol.GetAtoms()]
    ends, bonds = [], []
    for bond in mol.GetBonds():
        ends.append((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))
        try:
            bonds.append(ogb.bond_to_feature_vector(bond))
        except ValueError as error:
            raise DataError(f"OGB's features lack {bond.GetStereo()}") from error
    return _graph(
        np.array(atoms, dtype=np.uint8),
        np.array(ends, dtype=np.int64).reshape(-1, 2),
        np.array(bonds, dtype=np.uint8).reshape(-1, 3),
    )


def _graph(atoms: np.ndarray, ends: np.ndarray, bonds: np.ndarray) -> Graph:
    """Every bond as two edges, there and back."""
    edges = ends.repeat(2, axis=0).T  # [2, E]
    edges[:, 1::2] = ends.T[::-1]
    arrays = {"node.x": atoms, "edge.attr": bonds.repeat(2, axis=0)}
    return Graph(len(atoms), edges, arrays)


@cache
def reads_binaries() -> bool:
    """Whether this version of RDKit writes molecules as `tables` reads them."""
    probes = [molecule(smiles) for smiles in _PROBES]
    for mol, table in zip(probes, tables(probes), strict=True):
        if table is None:
            return False
        truth = graph_from_molecule(mol)
        found = _graph(table.atoms, table.ends, table.bonds)
        if not (
            np.array_equal(found.edge_index, truth.edge_index)
            and all(
                np.array_equal(found.arrays[k], truth.arrays[k]) for k in truth.arrays
            )
        ):
            return False
    return True


def molecule_features() -> tuple[Features, Features]:
    """OGB's nine atom and three bond features."""
    ogb = ogb_features()
    return (
        Features("categorical", _ATOMS, tuple(ogb.get_atom_feature_dims())),
        Features("categorical", _BONDS, tuple(ogb.get_bond_feature_dims())),
    )


def scaffold(smiles: str) -> str:
    """The Bemis-Murcko scaffold, without stereo; empty for a molecule without rings."""
    need("rdkit")
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    return MurckoScaffoldSmiles(mol=molecule(smiles), includeChirality=False)
