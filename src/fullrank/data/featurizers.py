from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fullrank.data.dataset import Features
from fullrank.data.packed.graphs import Graph, PackedGraphs
from fullrank.errors import DataError


class _F(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MoleculeFeaturizer(_F):
    kind: Literal["molecule"] = "molecule"
    fragments: str = "keep"
    makes_conformers: Literal[False] = False
    keeps_hydrogens: Literal[False] = False

    @property
    def fields(self) -> Any:
        from fullrank.data.sources.csv import MOLECULE_FIELDS

        return MOLECULE_FIELDS

    def from_smiles(self, text: str) -> Graph:
        from fullrank.data.sources.csv import graph_from_smiles

        return graph_from_smiles(text, self.fragments)

    def from_molecule(self, mol: Any) -> Graph:
        from fullrank.data.sources.csv import graph_from_molecule

        return graph_from_molecule(mol)


class QM9Featurizer(MoleculeFeaturizer):
    kind: Literal["qm9"] = "qm9"


class GraphFeaturizer(_F):
    kind: Literal["graph"] = "graph"
    node_features: Features
    edge_features: Features

    def read_folder(self, folder: Any) -> tuple[PackedGraphs, dict[int, str]]:
        from fullrank.data.sources.tu import read_tu_inputs

        return read_tu_inputs(folder, self.node_features, self.edge_features)


AnyFeaturizer = Annotated[
    MoleculeFeaturizer | QM9Featurizer | GraphFeaturizer, Field(discriminator="kind")
]


def featurize(
    featurizer: Any, items: Iterable[str], workers: int = 1
) -> Iterator[Graph | DataError]:
    for item in items:
        try:
            yield featurizer.from_smiles(item)
        except DataError as error:
            yield error
