"""The text files of a set in the layout of the TU collection.

A set ``NAME`` is a folder of text files, nodes and graphs counted from 1:
``NAME_A.txt`` (an edge per line), ``NAME_graph_indicator.txt`` (the graph of each
node), ``NAME_graph_labels.txt`` or ``NAME_graph_attributes.txt`` (what to predict), and
where the set has them ``NAME_node_labels.txt``, ``NAME_node_attributes.txt``,
``NAME_edge_labels.txt`` and ``NAME_edge_attributes.txt``.

Edges stay as they are in the file, self-loops included.
"""

from collections.abc import Iterator, Mapping
from glob import escape
from pathlib import Path

import numpy as np

from fullrank.data.features import Columns, degree_columns
from fullrank.data.files import read_column, read_numbers
from fullrank.data.packed.graphs import Field, PackedGraphs, Part
from fullrank.errors import DataError


def name_in(folder: str | Path) -> str:
    """The NAME of the only set in ``folder``."""
    found = sorted(Path(folder).glob("*_A.txt"))
    if len(found) != 1:
        raise DataError(f"{folder} must contain one NAME_A.txt, found {len(found)}")
    return found[0].name.removesuffix("_A.txt")


def files_in(folder: Path, name: str) -> Mapping[str, Path]:
    """The files of a set by what they hold, such as ``A`` or ``node_labels``."""
    files = {
        file.stem.removeprefix(f"{name}_"): file
        for place in (folder, folder / name)
        for file in place.glob(f"{escape(name)}_*.txt")
    }
    for needed in ("A", "graph_indicator"):
        if needed not in files:
            raise DataError(f"{folder / f'{name}_{needed}.txt'} is missing")
    return files


def read_columns(
    files: Mapping[str, Path],
    names: Mapping[str, tuple[str, ...]] | None = None,
    degree_moments: tuple[float, float] | None = None,
) -> tuple[np.ndarray, np.ndarray, dict[str, Columns]]:
    """The sizes of the graphs, their edges and the columns of nodes and edges.

    Args:
        names: The columns of another set, whose categories are used.
        degree_moments: Mean and deviation of its degrees, if they are normalised.

    Returns:
        Nodes per graph ``[G]``, edges with nodes counted over all graphs ``[2, E]``,
        and the columns by level.
    """
    num_nodes = _nodes_of_graphs(files["graph_indicator"])
    total = int(num_nodes.sum())
    edges = _edges(files["A"], num_nodes)
    names = names or {}
    nodes = _columns(files, "node", total, names.get("node", ()))
    if not nodes.parts:
        largest = len(names["node"]) - 1 if names else None
        nodes = degree_columns(edges, total, largest, degree_moments)
    edge = _columns(files, "edge", edges.shape[1], names.get("edge", ()))
    return num_nodes, edges, {"node": nodes, "edge": edge}


def stored_columns(
    columns: Mapping[str, Columns],
) -> tuple[dict[str, np.ndarray], dict[str, Field]]:
    """The arrays of nodes and edges, and how batches give them out."""
    attributes = {"node": "x", "edge": "edge_attr"}
    arrays = columns["node"].arrays | columns["edge"].arrays
    fields = {attributes[k]: Field(c.parts) for k, c in columns.items() if c.parts}
    return arrays, fields


def unknown_values(
    graphs: PackedGraphs, columns: Mapping[str, Columns]
) -> Iterator[tuple[int, str]]:
    """The graphs with a label or degree for which there is no column."""
    starts = {"node": graphs.node_ptr, "edge": graphs.edge_ptr}
    for level, found in columns.items():
        for part in found.parts:
            if part.one_hot is None:
                continue
            codes = graphs.arrays[part.array]
            names = found.categories.get(part.array)
            what = "degree" if names is None else f"{level} label"
            for row in np.flatnonzero(codes >= part.one_hot):
                graph = int(np.searchsorted(starts[level], row, side="right")) - 1
                value = codes[row] if names is None else names[codes[row]]
                yield graph, f"no training graph has the {what} {value}"


def _nodes_of_graphs(file: Path) -> np.ndarray:
    """How many nodes each graph has: ``[G]``."""
    graph = read_column(file)
    if len(graph) == 0:
        raise DataError(f"{file} is empty; it must give the graph of each node")
    steps = np.diff(graph, prepend=0)
    wrong = np.flatnonzero((steps < 0) | (steps > 1))
    if len(wrong):
        row = wrong[0]
        before = graph[row] - steps[row]
        reason = "the graphs must come one after the other"
        if steps[row] > 1:
            reason = f"graph {before + 1} has no nodes"
        raise DataError(
            f"{file}, line {row + 1}: graph {graph[row]} follows graph {before}; "
            f"{reason}"
        )
    if graph[0] != 1:
        raise DataError(f"{file}, line 1: the first graph must be 1, not {graph[0]}")
    return np.bincount(graph - 1)


def _edges(file: Path, num_nodes: np.ndarray) -> np.ndarray:
    """The edges with nodes counted over all graphs: ``[2, E]``."""
    edges = read_numbers(file)
    if edges.size == 0:
        return np.empty((2, 0), np.int64)
    if edges.shape[1] != 2:
        raise DataError(
            f"{file}, line 1: an edge needs two nodes, got {edges.shape[1]}"
        )
    graph_of_node = np.repeat(np.arange(len(num_nodes)), num_nodes)
    total = len(graph_of_node)
    for row in np.flatnonzero(((edges < 1) | (edges > total)).any(axis=1))[:1]:
        raise DataError(
            f"{file}, line {row + 1}: the edge {tuple(edges[row].tolist())} is outside "
            f"the {total} nodes of the graph indicator"
        )
    graph, other = graph_of_node[edges.T - 1] + 1
    for row in np.flatnonzero(graph != other)[:1]:
        raise DataError(
            f"{file}, line {row + 1}: the edge joins graph {graph[row]} and graph "
            f"{other[row]}"
        )
    return edges.T - 1


def _columns(
    files: Mapping[str, Path], level: str, rows: int, names: tuple[str, ...]
) -> Columns:
    """Attributes, then labels one-hot; without ``names`` a column for each label."""
    columns = Columns({}, (), ())
    if f"{level}_attributes" in files:
        values = read_numbers(files[f"{level}_attributes"], np.float64, rows)
        columns.arrays[f"{level}.attributes"] = values.astype(np.float32)
        columns.parts += (Part(f"{level}.attributes"),)
        columns.names += tuple(f"attribute {i}" for i in range(values.shape[1]))
    if f"{level}_labels" in files:
        labels = read_numbers(files[f"{level}_labels"], rows=rows)
        for i, values in enumerate(labels.T):
            kinds = _kinds(i, names)
            if not len(kinds):
                kinds = np.unique(values)
            # Labels without a column come after those that have one.
            kinds_here = np.concatenate([kinds, np.setdiff1d(values, kinds)])
            order = np.argsort(kinds_here)
            codes = order[np.searchsorted(kinds_here, values, sorter=order)]
            columns.categories[f"{level}.label{i}"] = kinds_here
            columns.arrays[f"{level}.label{i}"] = codes.astype(np.int32)
            columns.parts += (Part(f"{level}.label{i}", one_hot=len(kinds)),)
            columns.names += tuple(f"label {i} is {kind}" for kind in kinds)
    return columns


def _kinds(i: int, names: tuple[str, ...]) -> np.ndarray:
    """The labels that have a column, sorted as they were when it was made."""
    start = f"label {i} is "
    return np.array(
        [int(name.removeprefix(start)) for name in names if name.startswith(start)],
        dtype=np.int64,
    )
