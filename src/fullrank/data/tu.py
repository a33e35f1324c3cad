"""The TU collection, and any folder in its layout.

A set ``NAME`` is a folder of text files, nodes and graphs counted from 1:
``NAME_A.txt`` (an edge a line), ``NAME_graph_indicator.txt`` (the graph of each node),
``NAME_graph_labels.txt`` or ``NAME_graph_attributes.txt`` (what to predict), and where
the set has them ``NAME_node_labels.txt``, ``NAME_node_attributes.txt``,
``NAME_edge_labels.txt`` and ``NAME_edge_attributes.txt``.

Edges stay as they are in the file, self-loops included.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np

from fullrank.data.cache import data_root, prepared
from fullrank.data.dataset import (
    Description,
    Features,
    GraphDataset,
    Target,
    Task,
    described,
)
from fullrank.data.degree import Columns, degree_columns
from fullrank.data.errors import DataError
from fullrank.data.files import local_copy, read_numbers, unpacked
from fullrank.data.packed import Field, PackedGraphs, Part

ADDRESS = "https://www.chrsmrrs.com/graphkerneldatasets/{name}.zip"
NAMES = (
    "COLLAB",
    "REDDIT-BINARY",
    "REDDIT-MULTI-5K",
    "REDDIT-MULTI-12K",
    "IMDB-BINARY",
    "IMDB-MULTI",
    "MUTAG",
    "PROTEINS",
    "ENZYMES",
    "NCI1",
    "NCI109",
    "DD",
    "PTC_MR",
)


class TU(GraphDataset):
    """A set of the TU collection, prepared at the first call.

    Nodes without labels and attributes get their degree as feature, as in the paper:
    one-hot if the largest is below 1,000, otherwise with mean 0 and deviation 1.

    Args:
        name: As the collection spells it, such as ``"IMDB-BINARY"``.
        root: Folder of prepared sets; the user's cache by default.
        mirror: A folder with ``NAME.zip`` or ``NAME/`` to take it from instead of the
            official address; ``$FULLRANK_MIRROR`` by default.
    """

    def __init__(
        self,
        name: str,
        root: str | Path | None = None,
        mirror: str | Path | None = None,
    ) -> None:
        home = data_root(root)
        address = ADDRESS.format(name=name)

        def prepare(folder: Path) -> None:
            source = local_copy(address, home, mirror)
            with unpacked(source, home) as raw:
                _pack(_files_in(raw, name), name, address).save(folder)

        graphs = prepared(home / name, prepare)
        super().__init__(graphs=graphs, **described(graphs.info))


def read_tu_folder(folder: str | Path, name: str | None = None) -> GraphDataset:
    """Read your own graphs in TU layout; ``name`` is what the files begin with."""
    found = sorted(Path(folder).glob("*_A.txt"))
    if name is None and len(found) != 1:
        raise DataError(
            f"{folder} must hold one NAME_A.txt, found {len(found)}; say which NAME"
        )
    name = name or found[0].name.removesuffix("_A.txt")
    graphs = _pack(_files_in(Path(folder), name), name, str(folder))
    return GraphDataset(graphs=graphs, **described(graphs.info))


def _files_in(raw: Path, name: str) -> Mapping[str, Path]:
    """The files of a set by what they hold, such as ``A`` or ``node_labels``."""
    files = {
        file.stem.removeprefix(f"{name}_"): file
        for folder in (raw, raw / name)
        for file in folder.glob(f"{name}_*.txt")
    }
    for needed in ("A", "graph_indicator"):
        if needed not in files:
            raise DataError(f"{raw / f'{name}_{needed}.txt'} is missing")
    return files


def _pack(files: Mapping[str, Path], name: str, source: str) -> PackedGraphs:
    num_nodes = _nodes_of_graphs(files["graph_indicator"])
    first_node = np.concatenate([[0], np.cumsum(num_nodes)])
    edges = _edges(files["A"], int(first_node[-1]))  # [2, E], counted over all graphs
    _check_edges_stay_within_graphs(files["A"], edges, first_node)
    nodes = _columns(files, "node", int(first_node[-1]))
    if nodes is None:
        nodes = degree_columns(edges, int(first_node[-1]))
    edge = _columns(files, "edge", edges.shape[1])
    task, y, targets = _targets(files, len(num_nodes))

    description = Description(
        name=name,
        task=task,
        targets=targets,
        node_features=Features("float", nodes.names),
        edge_features=Features("float", edge.names) if edge else Features(),
        metric="accuracy" if task == "multiclass" else "mae",
        default_split="folds" if task == "multiclass" else "random",
        num_classes=int(y.max()) + 1 if task == "multiclass" else None,
        source=source,
    )
    fields = {
        "x": Field(nodes.parts),
        "y": Field((Part("graph.y"),), "int64" if task == "multiclass" else "float32"),
    }
    if edge:
        fields["edge_attr"] = Field(edge.parts)
    arrays = nodes.arrays | (edge.arrays if edge else {}) | {"graph.y": y}
    return PackedGraphs.pack(num_nodes, edges, arrays, fields, asdict(description))


def _nodes_of_graphs(file: Path) -> np.ndarray:
    """How many nodes each graph has: ``[G]``."""
    graph = read_numbers(file).reshape(-1)
    if len(graph) == 0:
        raise DataError(f"{file} names no node")
    steps = np.diff(graph, prepend=0)
    wrong = np.flatnonzero((steps < 0) | (steps > 1))
    if len(wrong):
        line, before = wrong[0] + 1, graph[wrong[0] - 1] if wrong[0] else 0
        reason = (
            f"graph {before + 1} has no nodes"
            if steps[wrong[0]] > 1
            else "the graphs must come one after the other"
        )
        raise DataError(
            f"{file}, line {line}: graph {graph[wrong[0]]} follows graph {before}; "
            f"{reason}"
        )
    return np.bincount(graph - 1)


def _edges(file: Path, num_nodes: int) -> np.ndarray:
    edges = read_numbers(file)
    if edges.size == 0:
        return np.empty((2, 0), np.int64)
    if edges.shape[1] != 2:
        raise DataError(
            f"{file}, line 1: an edge needs two nodes, got {edges.shape[1]}"
        )
    outside = np.flatnonzero(((edges < 1) | (edges > num_nodes)).any(axis=1))
    if len(outside):
        edge = tuple(edges[outside[0]].tolist())
        raise DataError(
            f"{file}, line {outside[0] + 1}: the edge {edge} is outside the "
            f"{num_nodes} nodes of the graph indicator"
        )
    return edges.T - 1


def _check_edges_stay_within_graphs(
    file: Path, edges: np.ndarray, first_node: np.ndarray
) -> None:
    graph_of_node = np.repeat(np.arange(len(first_node) - 1), np.diff(first_node))
    graph, other = graph_of_node[edges]
    between = np.flatnonzero(graph != other)
    if len(between):
        raise DataError(
            f"{file}, line {between[0] + 1}: the edge joins graph "
            f"{graph[between[0]] + 1} and graph {other[between[0]] + 1}"
        )


def _columns(files: Mapping[str, Path], level: str, rows: int) -> Columns | None:
    """Attributes, then labels one-hot; None if the set has neither."""
    columns = Columns({}, (), ())
    if f"{level}_attributes" in files:
        values = _checked(files[f"{level}_attributes"], rows, np.float64)
        columns.arrays[f"{level}.attributes"] = values.astype(np.float32)
        columns.parts += (Part(f"{level}.attributes"),)
        columns.names += tuple(f"attribute {i}" for i in range(values.shape[1]))
    if f"{level}_labels" in files:
        for i, values in enumerate(_checked(files[f"{level}_labels"], rows).T):
            kinds, codes = np.unique(values, return_inverse=True)
            columns.arrays[f"{level}.label{i}"] = codes.astype(np.int32)
            columns.parts += (Part(f"{level}.label{i}", one_hot=len(kinds)),)
            columns.names += tuple(f"label {i} is {kind}" for kind in kinds)
    return columns if columns.parts else None


def _targets(
    files: Mapping[str, Path], num_graphs: int
) -> tuple[Task, np.ndarray, tuple[Target, ...]]:
    if "graph_attributes" in files:
        values = _checked(files["graph_attributes"], num_graphs, np.float64)
        names = tuple(Target(f"attribute {i}") for i in range(values.shape[1]))
        return "regression", values, names
    if "graph_labels" not in files:
        raise DataError(f"no graph_labels or graph_attributes beside {files['A']}")
    labels = _checked(files["graph_labels"], num_graphs)[:, 0]
    return "multiclass", np.unique(labels, return_inverse=True)[1], (Target("class"),)


def _checked(file: Path, rows: int, dtype: type = np.int64) -> np.ndarray:
    values = read_numbers(file, dtype)
    if len(values) != rows:
        line = min(len(values), rows) + 1
        raise DataError(f"{file}, line {line}: {len(values)} lines instead of {rows}")
    return values
