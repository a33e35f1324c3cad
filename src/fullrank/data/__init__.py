"""Data sets: QM9, TU, OGB and the user's own graphs, packed for speed."""

from fullrank.data.catalog import known_names, load
from fullrank.data.dataset import Features, GraphDataset, Target
from fullrank.data.packed.graphs import Field, Graph, PackedGraphs, Part
from fullrank.data.packed.loader import PackedLoader
from fullrank.data.sources.csv import graph_from_smiles, read_smiles_csv
from fullrank.data.sources.in_memory import from_graphs
from fullrank.data.sources.ogb import OGB
from fullrank.data.sources.python_code import python_code
from fullrank.data.sources.qm9 import QM9
from fullrank.data.sources.tu import TU, read_tu_folder, read_tu_inputs
from fullrank.data.splits import (
    Split,
    hold_out,
    random_split,
    scaffold_split,
    stratified_folds,
    zhang_folds,
)
from fullrank.data.structure import StructuralColors, structural_colors
from fullrank.data.transforms import AddStructuralColors
from fullrank.errors import DataError

__all__ = [
    "OGB",
    "QM9",
    "TU",
    "AddStructuralColors",
    "DataError",
    "Features",
    "Field",
    "Graph",
    "GraphDataset",
    "PackedGraphs",
    "PackedLoader",
    "Part",
    "Split",
    "StructuralColors",
    "Target",
    "from_graphs",
    "graph_from_smiles",
    "hold_out",
    "known_names",
    "load",
    "python_code",
    "random_split",
    "read_smiles_csv",
    "read_tu_folder",
    "read_tu_inputs",
    "scaffold_split",
    "stratified_folds",
    "structural_colors",
    "zhang_folds",
]
