"""Data sets: QM9, TU, OGB and the user's own graphs, packed for speed."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fullrank.extras import need

need("pydantic")

from fullrank.data.dataset import GraphDataset, Target
from fullrank.data.features import Features
from fullrank.data.featurizers import (
    AnyFeaturizer,
    GraphFeaturizer,
    MoleculeFeaturizer,
    QM9Featurizer,
    Reading,
    featurize,
)
from fullrank.data.packed.graphs import Field, Graph, PackedGraphs, Part
from fullrank.data.packed.loader import PackedLoader
from fullrank.data.sources import AnySource, known_names, load_dataset, source
from fullrank.data.sources.base import (
    ContinuousStructureOptions,
    Source,
    StructureOptions,
)
from fullrank.data.sources.csv import CsvSource, read_smiles_csv
from fullrank.data.sources.ogb import OGB, OGBSource
from fullrank.data.sources.python_code import PythonCodeSource, python_code
from fullrank.data.sources.qm9 import QM9, QM9Source
from fullrank.data.sources.tu import TU, TUFolderSource, TUSource, read_tu_folder
from fullrank.data.splits import (
    Split,
    folds_fingerprint,
    hold_out,
    random_split,
    scaffold_split,
    stratified_folds,
    zhang_folds,
)
from fullrank.data.tables import TableReader, open_table
from fullrank.errors import DataError

if TYPE_CHECKING:
    from fullrank.data.pair_structure import continuous_structure
    from fullrank.data.sources.in_memory import from_graphs
    from fullrank.data.structure import StructuralColors, structural_colors
    from fullrank.data.transforms import AddContinuousStructure, AddStructuralColors

__all__ = [
    "OGB",
    "QM9",
    "TU",
    "AddContinuousStructure",
    "AddStructuralColors",
    "AnyFeaturizer",
    "AnySource",
    "ContinuousStructureOptions",
    "CsvSource",
    "DataError",
    "Features",
    "Field",
    "Graph",
    "GraphDataset",
    "GraphFeaturizer",
    "MoleculeFeaturizer",
    "OGBSource",
    "PackedGraphs",
    "PackedLoader",
    "Part",
    "PythonCodeSource",
    "QM9Featurizer",
    "QM9Source",
    "Reading",
    "Source",
    "Split",
    "StructuralColors",
    "StructureOptions",
    "TUFolderSource",
    "TUSource",
    "TableReader",
    "Target",
    "continuous_structure",
    "featurize",
    "folds_fingerprint",
    "from_graphs",
    "hold_out",
    "known_names",
    "load_dataset",
    "open_table",
    "python_code",
    "random_split",
    "read_smiles_csv",
    "read_tu_folder",
    "scaffold_split",
    "source",
    "stratified_folds",
    "structural_colors",
    "zhang_folds",
]

# Imported on demand: these need torch or SciPy, which listing data sets does not.
_MODULES = {
    "AddContinuousStructure": "transforms",
    "AddStructuralColors": "transforms",
    "StructuralColors": "structure",
    "continuous_structure": "pair_structure",
    "from_graphs": "sources.in_memory",
    "structural_colors": "structure",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
