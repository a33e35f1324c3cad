"""Molecules with 3D coordinates as graphs with the features of PyG's QM9.

Atoms have 11 columns: one-hot H C N O F, atomic number, aromatic, sp, sp2, sp3, number
of hydrogens. Edges have one-hot single, double, triple, aromatic and the distance
between the two atoms in Å.
"""

from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fullrank.data.features import Features
from fullrank.data.packed.graphs import Field, Graph, Part
from fullrank.errors import DataError

if TYPE_CHECKING:
    from rdkit import Chem

ELEMENTS = {1: "H", 6: "C", 7: "N", 8: "O", 9: "F"}
ATOM_FEATURES = (
    *ELEMENTS.values(),
    "number",
    "aromatic",
    "sp",
    "sp2",
    "sp3",
    "hydrogens",
)
BONDS = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
NO_BOND = len(BONDS)  # one-hot of this gives zeros only
Edges = Literal["bonds", "complete"]
Distance = bool | Literal["relative"]


def edge_features(distance: Distance) -> Features:
    """The columns of ``edge_attr``."""
    names = tuple(bond.lower() for bond in BONDS)
    return Features("float", (*names, "distance") if distance else names)


def relative_lengths(distance: np.ndarray, edge_ptr: np.ndarray) -> np.ndarray:
    """Lengths of edges over the longest one of their molecule, as `T.Distance` of PyG
    has them.

    Args:
        distance: Lengths, molecule by molecule, ``[E]``.
        edge_ptr: Where each molecule's edges start, and their total.
    """
    edges = np.diff(edge_ptr)
    longest = np.maximum.reduceat(distance, edge_ptr[:-1][edges > 0])
    return distance / np.repeat(longest, edges[edges > 0])


def conformer_fields(distance: Distance = True) -> dict[str, Field]:
    """What a batch of molecules carries beside its targets."""
    bond = Part("edge.bond", one_hot=len(BONDS))
    length = Part("edge.relative" if distance == "relative" else "edge.distance")
    return {
        "x": Field((Part("node.x"),)),
        "edge_attr": Field((bond, length) if distance else (bond,)),
        "pos": Field((Part("node.pos"),)),
        "z": Field((Part("node.z"),), "int64"),
    }


def with_hydrogens(mol: "Chem.Mol") -> "Chem.Mol":
    """The molecule with all its hydrogens, and coordinates that are all zero."""
    from rdkit import Chem

    mol = Chem.AddHs(mol)
    mol.AddConformer(Chem.Conformer(mol.GetNumAtoms()))
    return mol


def embedded(mol: "Chem.Mol") -> "Chem.Mol":
    """The molecule with 3D coordinates, the same ones every time."""
    from rdkit import rdBase
    from rdkit.Chem import rdDistGeom, rdForceFieldHelpers

    parameters: Any = rdDistGeom.ETKDGv3()
    parameters.randomSeed = 0
    with rdBase.BlockLogs():
        if rdDistGeom.EmbedMolecule(mol, parameters) < 0:
            raise DataError("RDKit finds no 3D conformer of the molecule")
        if rdForceFieldHelpers.MMFFHasAllMoleculeParams(mol):
            rdForceFieldHelpers.MMFFOptimizeMolecule(mol)
    return mol


def graph_from_conformer(
    mol: "Chem.Mol", edges: Edges = "bonds", distance: Distance = True
) -> Graph:
    """The graph of a molecule with all its hydrogens and 3D coordinates, to be packed
    with `conformer_fields`."""
    if not mol.GetNumConformers():
        raise DataError("the molecule has no 3D coordinates; embed it first")
    atoms = atoms_of(mol)
    numbers = np.array([atom.GetAtomicNum() for atom in atoms], np.uint8)
    others = sorted(set(numbers.tolist()) - set(ELEMENTS))
    if others:
        raise DataError(f"QM9 has H, C, N, O and F only, not element {others[0]}")
    bonds, kinds = bonds_of(mol)
    pos = mol.GetConformer().GetPositions()  # [N, 3]
    edge_index = np.concatenate([bonds, bonds[::-1]], axis=1)  # [2, E]
    kinds = np.concatenate([kinds, kinds])
    if edges == "complete":
        edge_index, kinds = _complete(len(numbers), edge_index, kinds)
    length = np.linalg.norm(pos[edge_index[0]] - pos[edge_index[1]], axis=1)
    arrays = {
        "node.x": _atom_features(atoms, numbers, bonds),
        "node.z": numbers,
        "node.pos": pos.astype(np.float32),
        "edge.bond": kinds,
        "edge.distance": length.astype(np.float32),
    }
    if distance == "relative":
        whole = np.array([0, len(length)])
        arrays["edge.relative"] = relative_lengths(arrays["edge.distance"], whole)
    return Graph(len(numbers), edge_index, arrays)


def bonds_of(mol: "Chem.Mol") -> tuple[np.ndarray, np.ndarray]:
    """Both ends ``[2, B]`` and the kind ``[B]`` of every bond, each bond once."""
    bonds = [mol.GetBondWithIdx(i) for i in range(mol.GetNumBonds())]
    known = _bond_ids()
    kinds = [known.get(bond.GetBondType(), NO_BOND) for bond in bonds]
    if NO_BOND in kinds:
        other = bonds[kinds.index(NO_BOND)].GetBondType()
        raise DataError(f"QM9 has no bond of type {other}")
    ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in bonds]
    index = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    return index, np.array(kinds, dtype=np.uint8)


@cache
def _bond_ids() -> dict[Any, int]:
    from rdkit.Chem import BondType

    return {BondType.names[name]: i for i, name in enumerate(BONDS)}


def atoms_of(mol: "Chem.Mol") -> list["Chem.Atom"]:
    """The atoms in order."""
    # Several times faster than list(mol.GetAtoms()), which goes through Python.
    return [mol.GetAtomWithIdx(i) for i in range(mol.GetNumAtoms())]


def _complete(
    num_atoms: int, bonds: np.ndarray, kinds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """All ordered pairs of different atoms, with the kind of bond or none."""
    table = np.full((num_atoms, num_atoms), NO_BOND, dtype=np.uint8)
    table[bonds[0], bonds[1]] = kinds
    pairs = np.stack(np.nonzero(~np.eye(num_atoms, dtype=bool)))  # [2, N (N - 1)]
    return pairs, table[pairs[0], pairs[1]]


def _atom_features(
    atoms: list["Chem.Atom"], numbers: np.ndarray, bonds: np.ndarray
) -> np.ndarray:
    from rdkit.Chem import HybridizationType

    hybrid = [atom.GetHybridization() for atom in atoms]
    kinds = [HybridizationType.names[name] for name in ("SP", "SP2", "SP3")]
    x = np.zeros((len(atoms), len(ATOM_FEATURES)), dtype=np.uint8)  # [N, 11]
    x[:, :5] = numbers[:, None] == list(ELEMENTS)
    x[:, 5] = numbers
    x[:, 6] = [atom.GetIsAromatic() for atom in atoms]
    x[:, 7:10] = [[found == kind for kind in kinds] for found in hybrid]
    for here, there in (bonds, bonds[::-1]):
        x[:, 10] += np.bincount(here, numbers[there] == 1, len(x)).astype(np.uint8)
    return x
