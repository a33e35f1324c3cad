"""Data sets: QM9, TU, OGB and the user's own graphs, packed for speed."""

from fullrank.data.catalog import load
from fullrank.data.dataset import Features, GraphDataset, Target
from fullrank.data.errors import DataError
from fullrank.data.loader import PackedLoader
from fullrank.data.packed import Field, Graph, PackedGraphs, Part
from fullrank.data.qm9 import QM9
from fullrank.data.splits import (
    Split,
    hold_out,
    random_split,
    scaffold_split,
    stratified_folds,
    zhang_folds,
)

__all__ = [
    "QM9",
    "DataError",
    "Features",
    "Field",
    "Graph",
    "GraphDataset",
    "PackedGraphs",
    "PackedLoader",
    "Part",
    "Split",
    "Target",
    "hold_out",
    "load",
    "random_split",
    "scaffold_split",
    "stratified_folds",
    "zhang_folds",
]
