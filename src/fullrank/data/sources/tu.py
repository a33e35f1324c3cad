"""The TU collection, and any folder in its layout.

A set ``NAME`` is a folder of text files, nodes and graphs counted from 1:
``NAME_A.txt`` (an edge a line), ``NAME_graph_indicator.txt`` (the graph of each node),
``NAME_graph_labels.txt`` or ``NAME_graph_attributes.txt`` (what to predict), and where
the set has them ``NAME_node_labels.txt``, ``NAME_node_attributes.txt``,
``NAME_edge_labels.txt`` and ``NAME_edge_attributes.txt``.

Edges stay as they are in the file, self-loops included.
"""

from collections.abc import Iterator, Mapping
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
from fullrank.data.degree import NORMALISED, Columns, degree_columns
from fullrank.data.files import local_copy, read_numbers, unpacked
from fullrank.data.packed.graphs import Field, PackedGraphs, Part
from fullrank.errors import DataError

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
    name = name or _name_in(folder)
    graphs = _pack(_files_in(Path(folder), name), name, str(folder))
    return GraphDataset(graphs=graphs, **described(graphs.info))


def read_tu_inputs(
    folder: str | Path, node_features: Features, edge_features: Features
) -> tuple[PackedGraphs, dict[int, str]]:
    """Read new graphs in TU layout, labelled or not, with the features of another set.

    Returns:
        The graphs, and for those that have a label or degree which the other set does
        not know, what it is.
    """
    if NORMALISED in node_features.names:
        raise DataError(
            "the model reads degrees that are normalised over its own training set, "
            "which graphs of another set do not have: it cannot predict for them"
        )
    files = _files_in(Path(folder), _name_in(folder))
    known = {"node": node_features.names, "edge": edge_features.names}
    num_nodes, edges, columns = _inputs(files, known)
    for level, wanted in known.items():
        found = columns[level].names
        if found != wanted:
            raise DataError(
                f"the graphs in {folder} have the {level} features "
                f"{', '.join(found[:20]) or 'none'}; the model reads "
                f"{', '.join(wanted[:20]) or 'none'}"
            )
    graphs = PackedGraphs.pack(num_nodes, edges, *_stored(columns))
    return graphs, dict(_strangers(graphs, columns))


def _name_in(folder: str | Path) -> str:
    found = sorted(Path(folder).glob("*_A.txt"))
    if len(found) != 1:
        raise DataError(
            f"{folder} must hold one NAME_A.txt, found {len(found)}; say which NAME"
        )
    return found[0].name.removesuffix("_A.txt")


def _strangers(
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
    num_nodes, edges, columns = _inputs(files)
    nodes, edge = columns["node"], columns["edge"]
    task, y, targets = _targets(files, len(num_nodes))

    description = Description(
        name=name,
        task=task,
        targets=targets,
        node_features=Features("float", nodes.names),
        edge_features=Features("float", edge.names) if edge.parts else Features(),
        metric="accuracy" if task == "multiclass" else "mae",
        default_split="folds" if task == "multiclass" else "random",
        num_classes=int(y.max()) + 1 if task == "multiclass" else None,
        source=source,
    )
    arrays, fields = _stored(columns)
    arrays["graph.y"] = y
    dtype = "int64" if task == "multiclass" else "float32"
    fields["y"] = Field((Part("graph.y"),), dtype)
    return PackedGraphs.pack(num_nodes, edges, arrays, fields, asdict(description))


def _stored(
    columns: Mapping[str, Columns],
) -> tuple[dict[str, np.ndarray], dict[str, Field]]:
    """The arrays of nodes and edges, and how batches give them out."""
    names = {"node": "x", "edge": "edge_attr"}
    arrays = columns["node"].arrays | columns["edge"].arrays
    fields = {names[k]: Field(c.parts) for k, c in columns.items() if c.parts}
    return arrays, fields


def _inputs(
    files: Mapping[str, Path], known: Mapping[str, tuple[str, ...]] = {}
) -> tuple[np.ndarray, np.ndarray, dict[str, Columns]]:
    """The sizes of the graphs, their edges counted over all of them, and the columns of
    nodes and edges; categories are those of the columns ``known``, if they are."""
    num_nodes = _nodes_of_graphs(files["graph_indicator"])
    first_node = np.concatenate([[0], np.cumsum(num_nodes)])
    total = int(first_node[-1])
    edges = _edges(files["A"], total)  # [2, E]
    _check_edges_stay_within_graphs(files["A"], edges, first_node)
    nodes = _columns(files, "node", total, known.get("node"))
    if not nodes.parts:
        largest = len(known["node"]) - 1 if known else None
        nodes = degree_columns(edges, total, largest)
    edge = _columns(files, "edge", edges.shape[1], known.get("edge"))
    return num_nodes, edges, {"node": nodes, "edge": edge}


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


def _columns(
    files: Mapping[str, Path], level: str, rows: int, names: tuple[str, ...] | None
) -> Columns:
    """Attributes, then labels one-hot; by default with a column for each label."""
    columns = Columns({}, (), ())
    if f"{level}_attributes" in files:
        values = _checked(files[f"{level}_attributes"], rows, np.float64)
        columns.arrays[f"{level}.attributes"] = values.astype(np.float32)
        columns.parts += (Part(f"{level}.attributes"),)
        columns.names += tuple(f"attribute {i}" for i in range(values.shape[1]))
    if f"{level}_labels" in files:
        for i, values in enumerate(_checked(files[f"{level}_labels"], rows).T):
            kinds = _kinds(i, names or ())
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
