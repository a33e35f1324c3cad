"""QM9: 130,831 small molecules with 12 quantum-chemical properties.

The data come from the PyPI package ``qm9pack``; nothing is downloaded.
"""

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import PositiveInt

from fullrank.data.cache import data_root, prepared, shown
from fullrank.data.conformers import (
    ATOM_FEATURES,
    Distance,
    Edges,
    atoms_of,
    bonds_of,
    conformer_fields,
    edge_features,
    graph_from_conformer,
    relative_lengths,
)
from fullrank.data.dataset import Description, GraphDataset, Target
from fullrank.data.features import Features
from fullrank.data.featurizers import QM9Featurizer
from fullrank.data.packed.graphs import Field, PackedGraphs, Part, text_arrays
from fullrank.data.sources.base import Source
from fullrank.data.workers import available_cpus, map_in_workers
from fullrank.extras import missing, need

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
# The longest bond, as a multiple of the sum of the two covalent radii.
_LONGEST_BOND = 1.3
_ROWS_AT_ONCE = 1000
_MOLECULE = ("Index", "SMILES", "Elements", "XYZ_Ang")


class QM9Source(Source):
    """QM9: 130,831 small molecules with 12 quantum-chemical properties.

    Attributes:
        name: ``qm9``.
        limit: Number of molecules, evenly spaced over the set; all by default.
        edges: ``bonds``, or ``complete`` for all pairs of atoms.
        distance: Whether edge lengths are a feature; ``relative`` divides them by the
            longest one of the molecule, as in the paper.
    """

    kind: Literal["qm9"] = "qm9"
    name: Literal["qm9"] = "qm9"
    limit: PositiveInt | None = None
    edges: Edges = "bonds"
    distance: Distance = True

    @classmethod
    def known_names(cls) -> dict[str, str]:
        return {"qm9": "130,831 molecules, 12 properties (package qm9pack)"}

    def _load(self, labelled: bool, progress: bool) -> GraphDataset:
        variant = ["qm9", self.edges * (self.edges != "bonds"), str(self.limit or "")]
        graphs = prepared(
            data_root(self.root) / "-".join(filter(None, variant)),
            lambda target: _prepare(target, self.limit, self.edges, progress),
        )
        if self.distance == "relative":
            lengths = graphs.array("edge.distance")
            relative = relative_lengths(lengths, graphs.edge_ptr)
            graphs = graphs.with_array("edge", "relative", relative)
        return GraphDataset.described(
            replace(graphs, fields=_fields(self.distance)),
            edge_features=edge_features(self.distance),
            featurizer=QM9Featurizer(edges=self.edges, distance=self.distance),
        )


def QM9(
    root: str | Path | None = None,
    limit: int | None = None,
    edges: Edges = "bonds",
    distance: Distance = True,
    progress: bool = True,
) -> GraphDataset:
    """QM9, prepared on the first call; see `QM9Source`."""
    options = {"root": root, "limit": limit, "edges": edges, "distance": distance}
    return QM9Source.checked("qm9", **options).load(progress=progress)


def _fields(distance: Distance = True) -> dict[str, Field]:
    return conformer_fields(distance) | {"y": Field((Part("graph.y"),))}


def _prepare(folder: Path, limit: int | None, edges: Edges, progress: bool) -> None:
    need("rdkit")
    notes = _no_notes()
    parts = _parts(_table(limit), edges, progress, notes)
    # The notes are complete when the molecules have been written.
    PackedGraphs.write(folder, parts, lambda: _description(notes).to_json())


def _no_notes() -> dict[str, Any]:
    """How atoms were assigned to coordinates, by QM9 number."""
    return {"in order": 0, "matched": [], "matched loosely": [], "left out": []}


def _description(notes: dict[str, Any]) -> Description:
    return Description(
        name="qm9",
        task="regression",
        targets=tuple(Target(name, unit) for name, (_, unit) in TARGETS.items()),
        node_features=Features("float", ATOM_FEATURES),
        edge_features=edge_features(distance=True),
        metric="mae",
        source="qm9pack 1.0.3 (PyPI)",
        notes=notes,
    )


def _table(limit: int | None) -> "pd.DataFrame":
    """The rows of qm9pack, or ``limit`` of them."""
    import pandas as pd

    # Not imported, because the package needs pkg_resources.
    spec = importlib.util.find_spec("qm9pack")
    if spec is None or spec.origin is None:
        raise missing("qm9pack")
    columns = [*_MOLECULE, *(column for column, _ in TARGETS.values())]
    files = sorted((Path(spec.origin).parent / "data").glob("qm9_part*.csv"))
    table = pd.concat(pd.read_csv(f, usecols=columns) for f in files)
    if limit is not None and limit < len(table):
        table = table.iloc[np.linspace(0, len(table) - 1, limit).astype(int)]
    return table


def _parts(
    table: "pd.DataFrame", edges: Edges, progress: bool, notes: dict[str, Any]
) -> Iterator[PackedGraphs]:
    """Packed molecules in blocks, prepared on all cores."""
    pieces = [table[i : i + _ROWS_AT_ONCE] for i in range(0, len(table), _ROWS_AT_ONCE)]
    pack = partial(_pack_rows, edges=edges)
    made = map_in_workers(pack, pieces, available_cpus(), items_at_once=1)
    for found in shown(made, len(pieces), "QM9", progress):
        if isinstance(found, Exception):
            raise found
        graphs, noted = found
        for key, value in noted.items():
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
    return PackedGraphs.from_graphs(graphs, arrays, _fields()), notes


def _molecule(
    smiles: str, symbols: list[str], pos: np.ndarray
) -> tuple["Chem.Mol | None", str]:
    """The molecule with its coordinates, and how they were assigned.

    None if the bonds of the SMILES do not match the coordinates.
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
    """Whether the elements agree and all bond lengths are plausible."""
    if [atom.GetSymbol() for atom in atoms_of(mol)] != symbols:
        return False
    ends, _ = bonds_of(mol)
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
    """The atom of ``mol`` for each point of ``pos``, and how well it matches.

    The bond graph is matched to the graph of contacts between the points: first as an
    isomorphism; if there is none, loosely, so that every bond is a contact and the
    total length of the bonds is minimal.
    """
    import networkx as nx
    from networkx.algorithms.isomorphism import GraphMatcher, categorical_node_match

    molecule = nx.Graph()
    molecule.add_nodes_from((a.GetIdx(), {"e": a.GetSymbol()}) for a in atoms_of(mol))
    molecule.add_edges_from(bonds_of(mol)[0].T.tolist())
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
