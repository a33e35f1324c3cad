"""From a molecule or a folder of graphs to arrays.

A featurizer is saved with the model, and used again to predict with it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field as Discriminated

from fullrank.data.conformers import (
    Distance,
    Edges,
    conformer_fields,
    embedded,
    graph_from_conformer,
    with_hydrogens,
)
from fullrank.data.descriptors import (
    DescriptorKind,
    descriptor_arrays,
    descriptor_fields,
)
from fullrank.data.features import Features
from fullrank.data.fingerprints import fingerprints, nearest_similarity
from fullrank.data.molecules import (
    MOLECULE_FIELDS,
    Fragments,
    graph_from_molecule,
    graphs_from_molecules,
    largest_fragment,
    molecule,
    parsed,
    rdkit_failures,
)
from fullrank.data.options import Options
from fullrank.data.packed.graphs import Field, Graph, PackedGraphs
from fullrank.data.tu_files import (
    files_in,
    name_in,
    read_columns,
    stored_columns,
    unknown_values,
)
from fullrank.data.workers import for_each, map_blocks
from fullrank.errors import DataError
from fullrank.extras import need

if TYPE_CHECKING:
    from rdkit import Chem


class MoleculeFeaturizer(Options):
    """A molecule as a graph of its heavy atoms with OGB's features.

    Attributes:
        fragments: ``keep`` salts and solvents, or keep the ``largest`` fragment only.
        descriptors: Numbers about the whole molecule beside the graph: ``rdkit`` for
            physical properties and counts, ``morgan`` for hashed neighbourhoods.
    """

    kind: Literal["molecule"] = "molecule"
    fragments: Fragments = "keep"
    descriptors: tuple[DescriptorKind, ...] = ()

    #: Whether 3D coordinates are computed for a SMILES.
    makes_conformers: ClassVar[bool] = False
    #: Whether hydrogens are nodes of the graph.
    keeps_hydrogens: ClassVar[bool] = False

    @property
    def fields(self) -> dict[str, Field]:
        """What a batch of these graphs carries."""
        return MOLECULE_FIELDS | descriptor_fields(self.descriptors)

    def from_smiles(self, smiles: str) -> Graph:
        """The graph of a molecule; a `DataError` says why there is none."""
        with rdkit_failures(smiles):
            return self.from_molecule(molecule(smiles))

    def from_molecule(self, mol: "Chem.Mol | None") -> Graph:
        """The graph of RDKit's molecule; a `DataError` says why there is none."""
        chosen = self.chosen_fragments(_present(mol))
        return self._described(graph_from_molecule(chosen), chosen)

    def molecules(
        self, smiles: Sequence[str | DataError]
    ) -> "list[Chem.Mol | DataError]":
        """The molecules that become graphs; a `DataError` says why there is none."""
        from rdkit import rdBase

        def chosen(text: str) -> "Chem.Mol":
            with rdkit_failures(text):
                return self.chosen_fragments(parsed(text))

        with rdBase.BlockLogs():
            return for_each(chosen, smiles)

    def graphs(self, mols: "Sequence[Chem.Mol | DataError]") -> list[Graph | DataError]:
        """The graphs of molecules whose fragments are chosen, with descriptors."""
        made = graphs_from_molecules(mols)
        if not self.descriptors:
            return made
        pairs: list[Any] = [
            graph if isinstance(graph, DataError) else (graph, mol)
            for graph, mol in zip(made, mols, strict=True)
        ]
        return for_each(lambda pair: self._described(*pair), pairs)

    def _described(self, graph: Graph, mol: "Chem.Mol") -> Graph:
        with rdkit_failures("this molecule"):
            arrays = descriptor_arrays(mol, self.descriptors)
        return graph._replace(arrays={**graph.arrays, **arrays})

    def chosen_fragments(self, mol: "Chem.Mol") -> "Chem.Mol":
        """The part of the molecule that becomes the graph."""
        return largest_fragment(mol) if self.fragments == "largest" else mol


class QM9Featurizer(Options):
    """A molecule as a graph of all its atoms with the features of PyG's QM9.

    Attributes:
        edges: ``bonds``, or ``complete`` for all pairs of atoms.
        distance: Whether the length of an edge is one of its features; ``relative``
            is the length over the longest one of the molecule.
    """

    kind: Literal["qm9"] = "qm9"
    edges: Edges = "bonds"
    distance: Distance = True

    #: Whether hydrogens are nodes of the graph.
    keeps_hydrogens: ClassVar[bool] = True

    @property
    def makes_conformers(self) -> bool:
        """Whether 3D coordinates are computed for a SMILES."""
        return bool(self.distance) or self.edges == "complete"

    @property
    def fields(self) -> dict[str, Field]:
        """What a batch of these graphs carries."""
        return conformer_fields(self.distance)

    def from_smiles(self, smiles: str) -> Graph:
        """The graph of a molecule; a `DataError` says why there is none."""
        return self._embedded(molecule(smiles))

    def molecules(
        self, smiles: Sequence[str | DataError]
    ) -> "list[Chem.Mol | DataError]":
        """The molecules, without hydrogens; a `DataError` says why there is none."""
        return for_each(molecule, smiles)

    def graphs(self, mols: "Sequence[Chem.Mol | DataError]") -> list[Graph | DataError]:
        """The graphs of molecules that have neither hydrogens nor coordinates."""
        return for_each(self._embedded, mols)

    def _embedded(self, mol: "Chem.Mol") -> Graph:
        with rdkit_failures("this molecule"):
            mol = with_hydrogens(mol)
            return graph_from_conformer(
                embedded(mol) if self.makes_conformers else mol,
                self.edges,
                self.distance,
            )

    def from_molecule(self, mol: "Chem.Mol | None") -> Graph:
        """The graph of RDKit's molecule with its hydrogens and coordinates."""
        mol = _present(mol)
        if any(atom.GetTotalNumHs() for atom in mol.GetAtoms()):
            raise DataError("hydrogens are missing; add them, with coordinates")
        is_3d = mol.GetNumConformers() and mol.GetConformer().Is3D()
        if self.makes_conformers and not is_3d:
            raise DataError("the coordinates are not 3D; give 3D ones, or a SMILES")
        return graph_from_conformer(mol, self.edges, self.distance)


class GraphFeaturizer(Options):
    """Graphs in the layout of the TU collection, with the columns of the training set.

    Attributes:
        node_features, edge_features: The columns.
        degree_moments: Mean and standard deviation of the training set's degrees, where
            nodes have the normalised degree.
    """

    kind: Literal["graph"] = "graph"
    node_features: Features
    edge_features: Features
    degree_moments: tuple[float, float] | None = None

    def read_folder(self, folder: str | Path) -> tuple[PackedGraphs, dict[int, str]]:
        """Read new graphs, labelled or not.

        Returns:
            The graphs, and for each graph that cannot be predicted the reason: a label
            or degree that no training graph has.
        """
        files = files_in(Path(folder), name_in(folder))
        names = {"node": self.node_features.names, "edge": self.edge_features.names}
        num_nodes, edges, columns = read_columns(files, names, self.degree_moments)
        for level, wanted in names.items():
            found = columns[level].names
            if found != wanted:
                raise DataError(
                    f"the graphs in {folder} have the {level} features "
                    f"{', '.join(found[:20]) or 'none'}; the model reads "
                    f"{', '.join(wanted[:20]) or 'none'}"
                )
        graphs = PackedGraphs.pack(num_nodes, edges, *stored_columns(columns))
        return graphs, dict(unknown_values(graphs, columns))


SmilesFeaturizer = MoleculeFeaturizer | QM9Featurizer
AnyFeaturizer = Annotated[
    MoleculeFeaturizer | QM9Featurizer | GraphFeaturizer,
    Discriminated(discriminator="kind"),
]


class Featurized(NamedTuple):
    """A block of molecules as graphs.

    Attributes:
        graphs: Those of the molecules that have one, or None if there are none.
        reasons: For each molecule why it has no graph, or None.
        similarity: Of each graph's molecule to the nearest known one, if asked for.
    """

    graphs: PackedGraphs | None
    reasons: list[str | None]
    similarity: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Reading:
    """Turns blocks of molecules into graphs.

    Attributes:
        featurizer: Makes the graphs.
        known: Fingerprints that molecules are compared with, see
            `fullrank.data.fingerprints`.
    """

    featurizer: SmilesFeaturizer
    known: np.ndarray | None = None

    def __call__(self, smiles: Sequence[str | DataError]) -> Featurized:
        mols = self.featurizer.molecules(smiles)
        return self.pack(mols, self.featurizer.graphs(mols))

    def pack(
        self,
        mols: "Sequence[Chem.Mol | DataError]",
        graphs: Sequence[Graph | DataError],
    ) -> Featurized:
        """Pack the graphs that there are."""
        both = zip(graphs, mols, strict=True)
        usable = [(graph, mol) for graph, mol in both if isinstance(graph, Graph)]
        reasons = [str(g) if isinstance(g, DataError) else None for g in graphs]
        if not usable:
            return Featurized(None, reasons)
        chosen, of_mols = zip(*usable, strict=True)
        packed = PackedGraphs.from_graphs(chosen, fields=self.featurizer.fields)
        similarity = None
        if self.known is not None:
            similarity = nearest_similarity(fingerprints(of_mols), self.known)
        return Featurized(packed, reasons, similarity)


def featurize(
    reading: Reading, blocks: Iterable[list[str]], workers: int = 1
) -> Iterator[Featurized]:
    """Blocks of SMILES as graphs, in order.

    The work is done in processes of its own: a molecule that crashes RDKit is one
    reason. Only a block for each worker is in memory.
    """
    need_chemistry()
    return map_blocks(reading, blocks, workers)


def fingerprints_of(
    featurizer: SmilesFeaturizer, smiles: Sequence[str | DataError]
) -> np.ndarray:
    """The fingerprints of those molecules that the featurizer reads."""
    mols = featurizer.molecules(smiles)
    return fingerprints([mol for mol in mols if not isinstance(mol, DataError)])


def need_chemistry() -> None:
    """Say what to install here, not in a worker."""
    need("rdkit")
    need("ogb")


def _present(mol: "Chem.Mol | None") -> "Chem.Mol":
    if mol is None:
        raise DataError("RDKit cannot read this entry")
    if mol.GetNumAtoms() == 0:
        raise DataError("the molecule has no atoms")
    return mol
