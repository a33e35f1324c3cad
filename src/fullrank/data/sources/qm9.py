"""QM9: 130,831 small molecules with 12 quantum-chemical properties.

The numbers come from the PyPI package ``qm9pack``; nothing is downloaded. Atom features
are the 11 columns of PyG's QM9: one-hot H C N O F, atomic number, aromatic, sp, sp2,
sp3, number of hydrogens. Edge features are one-hot single, double, triple, aromatic
and the distance between the two atoms in Å.
"""

import importlib.util
import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fullrank.data.cache import data_root, prepared, shown
from fullrank.data.dataset import Description, Features, GraphDataset, Target, described
from fullrank.data.packages import need
from fullrank.data.packed.graphs import Field, Graph, PackedGraphs, Part, text_arrays
from fullrank.data.packed.storage import write
from fullrank.errors import DataError, MissingPackage

if TYPE_CHECKING:
    import pandas as pd
    from rdkit import Chem

TARGETS = {
    "mu": ("Dipole_debye", "D"),
    "alpha": ("Polarizability_bohr3", "bohr³"),
    "homo": ("HOMO_au", "Hartree"),
    "lumo": ("LUMO_au", "Hartree"),
    "gap": ("HOMO_LUMO_gap_au", "Hartree"),
    "r2": ("R2_bohr2", "bohr²"),
    "zpve": ("ZPVE_au", "Hartree"),
    "U0": ("InternalEnergy_0K_au", "Hartree"),
    "U": ("InternalEnergy_298K_au", "Hartree"),
    "H": ("Enthalphy_298K_au", "Hartree"),
    "G": ("GibbsFreeEnergy_298K_au", "Hartree"),
    "Cv": ("Heatcapacity_Cv_cal_mol_K", "cal/(mol K)"),
}
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

# A bond is never longer than this many times the sum of the two covalent radii.
_LONGEST_BOND = 1.3
_ROWS_AT_ONCE = 1000
_MOLECULE = ("Index", "SMILES", "Elements", "XYZ_Ang")


class QM9(GraphDataset):
    """QM9, prepared at the first call.

    Args:
        root: Folder of prepared sets; the user's cache by default.
        limit: Only so many molecules, spread evenly over the set.
        edges: ``"bonds"``, or ``"complete"`` for all pairs of atoms.
        distance: Give the length of each edge as its fifth feature.
        progress: Show a bar while preparing.
    """

    def __init__(
        self,
        root: str | Path | None = None,
        limit: int | None = None,
        edges: Edges = "bonds",
        distance: bool = True,
        progress: bool = True,
    ) -> None:
        if edges not in ("bonds", "complete"):
            raise DataError(f"edges must be 'bonds' or 'complete', got {edges!r}")
        if limit is not None and limit < 1:
            raise DataError(f"limit must be at least 1, got {limit}")
        variant = ["qm9", edges * (edges != "bonds"), str(limit or "")]
        folder = data_root(root) / "-".join(filter(None, variant))
        graphs = prepared(
            folder, lambda target: _prepare(target, limit, edges, progress)
        )
        known = described(graphs.info)
        known["edge_features"] = edge_features(distance)
        super().__init__(graphs=replace(graphs, fields=batch_fields(distance)), **known)


def edge_features(distance: bool) -> Features:
    """The columns of ``edge_attr``."""
    names = tuple(bond.lower() for bond in BONDS)
    return Features("float", (*names, "distance") if distance else names)


def batch_fields(distance: bool = True, targets: bool = True) -> dict[str, Field]:
    """What a batch of molecules carries; one that is only predicted has no targets."""
    bond = Part("edge.bond", one_hot=len(BONDS))
    length = Part("edge.distance")
    fields = {
        "x": Field((Part("node.x"),)),
        "edge_attr": Field((bond, length) if distance else (bond,)),
        "pos": Field((Part("node.pos"),)),
        "z": Field((Part("node.z"),), "int64"),
    }
    return fields | ({"y": Field((Part("graph.y"),))} if targets else {})


def graph_from_conformer(mol: "Chem.Mol", edges: Edges = "bonds") -> Graph:
    """The graph of a molecule with all its hydrogens and 3D coordinates.

    Pack such graphs with `batch_fields` to get just what a model trained on QM9 reads.
    """
    if not mol.GetNumConformers():
        raise DataError("the molecule has no 3D coordinates; embed it first")
    atoms = _atoms(mol)
    numbers = np.array([atom.GetAtomicNum() for atom in atoms], np.uint8)
    strange = sorted(set(numbers.tolist()) - set(ELEMENTS))
    if strange:
        raise DataError(f"QM9 knows H, C, N, O and F only, not element {strange[0]}")
    bonds, kinds = _bonds(mol)
    pos = mol.GetConformer().GetPositions()  # [N, 3]
    edge_index = np.concatenate([bonds, bonds[::-1]], axis=1)  # [2, E]
    kinds = np.concatenate([kinds, kinds])
    if edges == "complete":
        edge_index, kinds = _complete(len(numbers), edge_index, kinds)
    distance = np.linalg.norm(pos[edge_index[0]] - pos[edge_index[1]], axis=1)
    arrays = {
        "node.x": _atom_features(atoms, numbers, bonds),
        "node.z": numbers,
        "node.pos": pos.astype(np.float32),
        "edge.bond": kinds,
        "edge.distance": distance.astype(np.float32),
    }
    return Graph(len(numbers), edge_index, arrays)


def _bonds(mol: "Chem.Mol") -> tuple[np.ndarray, np.ndarray]:
    """Both ends ``[2, B]`` and the kind ``[B]`` of every bond, each bond once."""
    bonds = [mol.GetBondWithIdx(i) for i in range(mol.GetNumBonds())]
    known = _bond_ids()
    kinds = [known.get(bond.GetBondType(), NO_BOND) for bond in bonds]
    if NO_BOND in kinds:
        strange = bonds[kinds.index(NO_BOND)].GetBondType()
        raise DataError(f"QM9 knows no bond of type {strange}")
    ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in bonds]
    index = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    return index, np.array(kinds, dtype=np.uint8)


@cache
def _bond_ids() -> dict[Any, int]:
    from rdkit.Chem import BondType

    return {BondType.names[name]: i for i, name in enumerate(BONDS)}


def _atoms(mol: "Chem.Mol") -> list["Chem.Atom"]:
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


def _prepare(folder: Path, limit: int | None, edges: Edges, progress: bool) -> None:
    need("rdkit")
    notes = _no_notes()
    table = _table(limit)
    write(folder, _parts(table, edges, progress, notes), _description(notes))


def _no_notes() -> dict[str, Any]:
    """How the atoms of the SMILES found their coordinates, by number in QM9."""
    return {"in order": 0, "matched": [], "matched loosely": [], "left out": []}


def _description(notes: dict[str, Any]) -> dict[str, Any]:
    description = Description(
        name="qm9",
        task="regression",
        targets=tuple(Target(name, unit) for name, (_, unit) in TARGETS.items()),
        node_features=Features("float", ATOM_FEATURES),
        edge_features=edge_features(distance=True),
        metric="mae",
        source="qm9pack 1.0.3 (PyPI)",
    )
    # The notes fill while the molecules are written, and are written after them.
    return asdict(description) | {"notes": notes}


def _table(limit: int | None) -> "pd.DataFrame":
    """The rows of qm9pack, or ``limit`` of them."""
    import pandas as pd

    # Found, not imported: the module of this data package needs pkg_resources.
    spec = importlib.util.find_spec("qm9pack")
    if spec is None or spec.origin is None:
        raise MissingPackage(
            "QM9 comes from the package qm9pack: pip install 'fullrank[chem]'"
        )
    columns = [*_MOLECULE, *(column for column, _ in TARGETS.values())]
    files = sorted((Path(spec.origin).parent / "data").glob("qm9_part*.csv"))
    table = pd.concat(pd.read_csv(f, usecols=columns) for f in files)
    if limit is not None and limit < len(table):
        table = table.iloc[np.linspace(0, len(table) - 1, limit).astype(int)]
    return table


def _parts(
    table: "pd.DataFrame", edges: Edges, progress: bool, notes: dict[str, Any]
) -> Iterator[PackedGraphs]:
    """Packed molecules, piece by piece, made on all cores where processes can fork."""
    pieces = [table[i : i + _ROWS_AT_ONCE] for i in range(0, len(table), _ROWS_AT_ONCE)]
    arguments = (pieces, [edges] * len(pieces))
    if sys.platform == "linux" and len(pieces) > 1:
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(mp_context=context) as pool:
            made = pool.map(_pack_rows, *arguments)
            yield from _noting(shown(made, len(pieces), "QM9", progress), notes)
    else:
        made = map(_pack_rows, *arguments)
        yield from _noting(shown(made, len(pieces), "QM9", progress), notes)


def _noting(
    made: Iterator[tuple[PackedGraphs, dict[str, Any]]], notes: dict[str, Any]
) -> Iterator[PackedGraphs]:
    for graphs, found in made:
        for key, value in found.items():
            notes[key] += value
        yield graphs


def _pack_rows(
    rows: "pd.DataFrame", edges: Edges
) -> tuple[PackedGraphs, dict[str, Any]]:
    from rdkit import rdBase

    rdBase.DisableLog("rdApp.*")
    notes = _no_notes()
    graphs, kept = [], []
    molecules = zip(*(rows[name] for name in _MOLECULE), strict=True)
    for position, (number, smiles, elements, coordinates) in enumerate(molecules):
        symbols = elements.strip("[]").replace("'", "").split(",")
        flat = coordinates.replace("[", "").replace("]", "").split(",")
        pos = np.array(flat, dtype=np.float64).reshape(-1, 3)
        mol, how = _molecule(smiles, symbols, pos)
        notes[how] += 1 if how == "in order" else [int(number)]
        if mol is None:
            continue
        graphs.append(graph_from_conformer(mol, edges))
        kept.append(position)
    rows = rows.iloc[kept]
    arrays = {
        "graph.y": rows[[column for column, _ in TARGETS.values()]].to_numpy(
            np.float64
        ),
        "graph.number": rows["Index"].to_numpy(np.int32),
        **text_arrays("smiles", rows["SMILES"].tolist()),
    }
    return PackedGraphs.from_graphs(graphs, arrays, batch_fields()), notes


def _molecule(
    smiles: str, symbols: list[str], pos: np.ndarray
) -> tuple["Chem.Mol | None", str]:
    """The molecule with its coordinates, and how they were found.

    None if the bonds of the SMILES cannot be found in the coordinates.
    """
    from rdkit import Chem

    mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
    how = "in order"
    if not _fits(mol, symbols, pos):
        order, how = _match(mol, symbols, pos)
        if order is None:
            return None, how
        mol = Chem.RenumberAtoms(mol, order)
    conformer = Chem.Conformer(len(symbols))
    conformer.SetPositions(pos)
    mol.AddConformer(conformer)
    return mol, how


def _fits(mol: "Chem.Mol", symbols: list[str], pos: np.ndarray) -> bool:
    """Whether elements agree and every bond is as short as a bond can be."""
    if [atom.GetSymbol() for atom in _atoms(mol)] != symbols:
        return False
    ends, _ = _bonds(mol)
    length = np.linalg.norm(pos[ends[0]] - pos[ends[1]], axis=1)
    radius = _radii(symbols)
    return bool((length <= _LONGEST_BOND * (radius[ends[0]] + radius[ends[1]])).all())


def _radii(symbols: list[str]) -> np.ndarray:
    from rdkit import Chem

    covalent = Chem.GetPeriodicTable().GetRcovalent
    radius = {symbol: covalent(symbol) for symbol in set(symbols)}
    return np.array([radius[symbol] for symbol in symbols])


def _match(
    mol: "Chem.Mol", symbols: list[str], pos: np.ndarray
) -> tuple[list[int] | None, str]:
    """For each point of ``pos`` the atom of ``mol`` that sits there, and how it fits.

    The bonds of the molecule are laid over the contacts between the points: first so
    that they are the same graph, then, loosely, so that every bond is a contact and
    the bonds are as short as possible altogether.
    """
    import networkx as nx
    from networkx.algorithms.isomorphism import GraphMatcher, categorical_node_match

    molecule = nx.Graph()
    molecule.add_nodes_from((a.GetIdx(), {"e": a.GetSymbol()}) for a in _atoms(mol))
    molecule.add_edges_from(_bonds(mol)[0].T.tolist())
    radius = _radii(symbols)
    length = np.linalg.norm(pos[:, None] - pos, axis=-1)  # [N, N]
    relative = length / (radius[:, None] + radius)
    for exact in (True, False):
        for longest in (_LONGEST_BOND, 1.2, 1.5):
            contacts = nx.Graph()
            contacts.add_nodes_from((i, {"e": s}) for i, s in enumerate(symbols))
            near = np.argwhere(np.triu(relative < longest, 1))
            contacts.add_edges_from(near.tolist())
            matcher = GraphMatcher(contacts, molecule, categorical_node_match("e", ""))
            if exact:
                found = list(islice(matcher.isomorphisms_iter(), 1))
            else:
                found = list(islice(matcher.subgraph_monomorphisms_iter(), 10_000))
            if found:
                orders = [[f[point] for point in range(len(symbols))] for f in found]
                best = min(orders, key=lambda o: _total_length(molecule, o, relative))
                return best, "matched" if exact else "matched loosely"
    return None, "left out"


def _total_length(molecule: Any, order: list[int], relative: np.ndarray) -> float:
    point = np.argsort(order)
    return sum(relative[point[a], point[b]] for a, b in molecule.edges)
