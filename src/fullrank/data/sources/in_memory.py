"""Graphs in memory: PyG ``Data`` or networkx graphs."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import from_networkx

from fullrank.data.dataset import METRICS, Description, GraphDataset, Target, Task
from fullrank.data.features import Features, degree_columns
from fullrank.data.files import fits_float32
from fullrank.data.packed.graphs import Field, Graph, PackedGraphs, Part
from fullrank.errors import DataError

if TYPE_CHECKING:
    import networkx as nx

_LEVELS = {"x": "node", "pos": "node", "edge_attr": "edge", "y": "graph"}


def from_graphs(
    graphs: "Iterable[Data | nx.Graph]",
    name: str = "graphs",
    task: Task | None = None,
) -> GraphDataset:
    """Pack graphs in memory.

    The attributes ``x``, ``edge_attr``, ``pos`` and ``y`` are kept; in networkx they
    are attributes of nodes, of edges and of the ``graph`` dictionary. Float features
    are numbers, integer features are categories that start at 0. Nodes without ``x``
    get their degree as a feature.

    Args:
        graphs: The graphs.
        name: The name of the data set.
        task: By default ``"multiclass"`` if ``y`` is one integer per graph, otherwise
            ``"regression"``; ``"binary"`` has to be given.
    """
    single = [_as_graph(index, graph) for index, graph in enumerate(graphs)]
    if not single:
        raise DataError("there is no graph to pack")
    for index, graph in enumerate(single):
        _check_like_first(index, graph, single[0])
    packed = PackedGraphs.from_graphs(single)
    arrays, fields = dict(packed.arrays), dict(packed.fields)

    task, y = _targets(arrays["graph.y"], task)
    arrays["graph.y"] = y
    fields["y"] = Field((Part("graph.y"),), "int64" if y.ndim == 1 else "float32")
    if "node.x" in arrays:
        node_features = _features(arrays["node.x"])
    else:
        degrees = degree_columns(packed.edge_index, int(packed.node_ptr[-1]))
        arrays |= degrees.arrays
        fields["x"] = Field(degrees.parts)
        node_features = Features("float", degrees.names)
    edge_attr = arrays.get("edge.edge_attr")
    description = Description(
        name=name,
        task=task,
        targets=tuple(Target(f"y{i}") for i in range(y.shape[1] if y.ndim == 2 else 1)),
        node_features=node_features,
        edge_features=Features() if edge_attr is None else _features(edge_attr),
        metric=METRICS[task],
        default_split="folds" if task == "multiclass" else "random",
        num_classes=int(y.max()) + 1 if task == "multiclass" else None,
        source="graphs in memory",
    )
    info = description.to_json()
    whole = replace(packed, arrays=arrays, fields=fields, info=info)
    return GraphDataset.described(whole)


def _as_graph(index: int, graph: "Data | nx.Graph") -> Graph:
    data = graph if isinstance(graph, Data) else from_networkx(graph)
    if not data.num_nodes:
        raise DataError(f"graph {index} has no nodes; leave such graphs out")
    if data.get("y") is None:
        raise DataError(f"graph {index} has no target y")
    arrays = {}
    for key, level in _LEVELS.items():
        if data.get(key) is not None:
            values = torch.as_tensor(data[key]).detach().cpu()
            if level == "graph":
                values = values.reshape(-1)
            elif values.ndim == 1:
                values = values[:, None]
            arrays[f"{level}.{key}"] = _finite(index, key, values.numpy())
    edges = data.edge_index
    ends = np.zeros((2, 0), np.int64) if edges is None else edges.cpu().numpy()
    return Graph(int(data.num_nodes), ends, arrays)


def _finite(index: int, key: str, values: np.ndarray) -> np.ndarray:
    wrong = ~fits_float32(values)
    if key == "y":  # where nan is a missing target
        wrong &= ~np.isnan(values)
    if wrong.any():
        raise DataError(
            f"graph {index} has {values[wrong][0]} in {key!r}, which is not a finite "
            f"number in single precision"
        )
    return values


def _check_like_first(index: int, graph: Graph, first: Graph) -> None:
    for key in {**first.arrays, **graph.arrays}:
        here, there = (
            g.arrays[key].shape[-1] if key in g.arrays else 0 for g in (graph, first)
        )
        if here != there:
            raise DataError(
                f"graph {index} has {here or 'no'} columns in "
                f"{key.split('.')[1]!r}, but graph 0 has {there or 'none'}"
            )


def _targets(y: np.ndarray, task: Task | None) -> tuple[Task, np.ndarray]:
    whole = y.dtype.kind in "iub" and y.shape[1] == 1
    task = task or ("multiclass" if whole else "regression")
    if task not in ("regression", "binary", "multiclass"):
        raise DataError(f"task must be regression, binary or multiclass, got {task!r}")
    others = y[~(np.isin(y, (0, 1)) | np.isnan(y))]
    if task == "binary" and len(others):
        raise DataError(
            f"binary targets must be 0, 1 or nan (missing), got {others[0]}"
        )
    if task != "multiclass":
        return task, y.astype(np.float64)
    if not whole or y.min() < 0:
        got = y.min() if whole else f"{y.shape[1]} columns of {y.dtype}"
        raise DataError(
            f"multiclass needs one class per graph, numbered from 0; got {got}"
        )
    return task, y[:, 0].astype(np.int64)


def _features(values: np.ndarray) -> Features:
    names = tuple(f"column {i}" for i in range(values.shape[1]))
    if values.dtype.kind == "f":
        return Features("float", names)
    if values.size and values.min() < 0:
        raise DataError(f"categories must not be negative, got {values.min()}")
    sizes = tuple(int(largest) + 1 for largest in values.max(axis=0, initial=0))
    return Features("categorical", names, sizes)
