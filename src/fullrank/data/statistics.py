"""What a data set looks like in numbers."""

from dataclasses import dataclass

import numpy as np

from fullrank.data.dataset import GraphDataset
from fullrank.data.packed.graphs import PackedGraphs
from fullrank.data.structure import hash_rows


@dataclass(frozen=True)
class TargetStatistics:
    """One target over all graphs; missing values count only as missing."""

    name: str
    unit: str
    mean: float
    std: float
    smallest: float
    largest: float
    missing: int


@dataclass(frozen=True)
class Statistics:
    """The usual numbers of a data set.

    In an undirected set ``mean_edges`` counts both directions of an edge, and each
    self-loop, once.
    """

    num_graphs: int
    mean_nodes: float
    mean_edges: float
    undirected: bool
    self_loops: int
    degrees: np.ndarray  # how many nodes have 0, 1, 2, … incoming edges
    sizes: np.ndarray  # nodes of each graph
    class_counts: np.ndarray | None
    targets: tuple[TargetStatistics, ...]


def statistics(dataset: GraphDataset) -> Statistics:
    """Count everything once."""
    graphs = dataset.graphs
    loops = int(np.count_nonzero(graphs.src == graphs.dst))
    edges = len(graphs.src)
    undirected = is_undirected(graphs)
    if undirected:
        edges = (edges - loops) // 2 + loops
    into = np.bincount(graphs.edge_index[1], minlength=graphs.node_ptr[-1])
    multiclass = dataset.task == "multiclass"
    return Statistics(
        num_graphs=len(dataset),
        mean_nodes=float(graphs.node_ptr[-1] / len(dataset)),
        mean_edges=edges / len(dataset),
        undirected=undirected,
        self_loops=loops,
        degrees=np.bincount(into),
        sizes=graphs.num_nodes,
        class_counts=np.bincount(dataset.labels) if multiclass else None,
        targets=_targets(dataset),
    )


def is_undirected(graphs: PackedGraphs) -> bool:
    """Whether every edge has its inverse.

    The edges and their inverses are compared as multisets, by the sum of a hash.
    """
    edges = graphs.edge_index.T  # [E, 2]
    there, back = (hash_rows(e, len(e)).sum() for e in (edges, edges[:, ::-1]))
    return bool(there == back)


def _targets(dataset: GraphDataset) -> tuple[TargetStatistics, ...]:
    if dataset.task not in ("regression", "binary"):
        return ()
    found = []
    for target, values in zip(dataset.targets, dataset.labels.T, strict=True):
        known = values[~np.isnan(values)]
        some = known if len(known) else np.array([np.nan])
        found.append(
            TargetStatistics(
                target.name,
                target.unit,
                mean=float(some.mean()),
                std=float(some.std()),
                smallest=float(some.min()),
                largest=float(some.max()),
                missing=len(values) - len(known),
            )
        )
    return tuple(found)
