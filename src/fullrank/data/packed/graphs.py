"""All graphs of a set in a few flat arrays; a batch is index arithmetic.

Arrays are named by their level: ``node.x`` has a row for each node, ``edge.bond`` for
each edge, ``graph.y`` for each graph, always graph by graph. Graph ``g`` owns the node
rows ``node_ptr[g]:node_ptr[g + 1]`` and the edge rows ``edge_ptr[g]:edge_ptr[g + 1]``;
its edges are sorted by destination, so those of every batch are too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter, ValidationError

from fullrank.data.packed.storage import (
    HEADER,
    PackedFileError,
    digest,
    malformed,
    read,
    stored_dtype,
    verify,
    write,
)
from fullrank.errors import DataError

if TYPE_CHECKING:  # preparing and listing data sets must not import torch
    import torch
    from torch_geometric.data import Batch, Data

LEVELS = ("node", "edge", "graph")
LARGEST_ONE_HOT = 2**16
_LARGEST_TABLE = 2**10
_DTYPES = (
    "bool",
    "float16",
    "float32",
    "float64",
    "int16",
    "int32",
    "int64",
    "int8",
    "uint8",
)
_STRUCTURE = ("node_ptr", "edge_ptr", "src", "dst")


@dataclass(frozen=True)
class Part:
    """The part of a field that comes from one stored array.

    Args:
        array: The stored array with its level, such as ``"edge.bond"``.
        one_hot: Encode the integers of this array as one-hot rows of this width;
            integers that are too large become zeros.
        columns: Use only these columns.
    """

    array: str
    one_hot: int | None = None
    columns: tuple[int, ...] | None = None

    def take(self, stored: np.ndarray, rows: np.ndarray, dtype: str) -> np.ndarray:
        values = stored.take(rows, axis=0)
        if self.one_hot is not None:
            return _one_hot(values, self.one_hot, dtype)
        if self.columns is not None:
            values = values[:, self.columns]
        return values.astype(dtype, copy=False)


@dataclass(frozen=True)
class Field:
    """An attribute of a batch: concatenated columns of stored arrays, in one dtype."""

    parts: tuple[Part, ...]
    dtype: str = "float32"

    @cached_property
    def level(self) -> str:
        return self.parts[0].array.split(".")[0]

    def take(
        self, arrays: Mapping[str, np.ndarray], rows: np.ndarray
    ) -> "torch.Tensor":
        import torch

        pieces = [
            part.take(arrays[part.array], rows, self.dtype) for part in self.parts
        ]
        if len(pieces) > 1:
            pieces = [p[:, None] if p.ndim == 1 else p for p in pieces]
            return torch.from_numpy(np.concatenate(pieces, axis=1))
        return torch.from_numpy(pieces[0])


_FIELDS = TypeAdapter(dict[str, Field])


class Texts(Sequence[str]):
    """One string per graph, stored as UTF-8 bytes with offsets."""

    def __init__(self, utf8: np.ndarray, ptr: np.ndarray) -> None:
        self._utf8, self._ptr = utf8, ptr

    def __len__(self) -> int:
        return len(self._ptr) - 1

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"text {index} of {len(self)}")
        start, stop = self._ptr[index % len(self)], self._ptr[index % len(self) + 1]
        return bytes(self._utf8[start:stop]).decode()


class Graph(NamedTuple):
    """A single graph to be packed.

    ``edge_index`` is ``[2, E]``; ``arrays`` are named by level, such as ``node.x``,
    with one value or row in ``graph.NAME``.
    """

    num_nodes: int
    edge_index: np.ndarray
    arrays: Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class PackedGraphs:
    """A set of graphs as flat arrays.

    Args:
        node_ptr: Where each graph's nodes start, and their total: ``[G + 1]``.
        edge_ptr: The same for its edges: ``[G + 1]``.
        src, dst: The two ends of each edge, counted within its graph: ``[E]``.
        arrays: Stored arrays by level and name; ``text.NAME.utf8`` with
            ``text.NAME.ptr`` hold one string per graph.
        fields: The attributes of a batch besides ``edge_index``.
        info: A description of the set that JSON can represent.
        digests: The SHA-256 of the arrays that are stored on disk.
        folder: The folder that the set was opened from, if any.
    """

    node_ptr: np.ndarray
    edge_ptr: np.ndarray
    src: np.ndarray
    dst: np.ndarray
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    fields: Mapping[str, Field] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None

    @classmethod
    def pack(
        cls,
        num_nodes: np.ndarray,
        edge_index: np.ndarray,
        arrays: Mapping[str, np.ndarray] | None = None,
        fields: Mapping[str, Field] | None = None,
        info: Mapping[str, Any] | None = None,
    ) -> "PackedGraphs":
        """Check the graphs, sort their edges by destination and pack them.

        Args:
            num_nodes: Number of nodes of each graph: ``[G]``.
            edge_index: Edges in any order, with nodes numbered over all graphs:
                ``[2, E]``.
            arrays: Arrays with rows in the order of the graphs, nodes and edges.
            fields: By default every array becomes an attribute of the same name.
        """
        arrays = {name: np.asarray(values) for name, values in (arrays or {}).items()}
        node_ptr = offsets(num_nodes)
        _check_rows(arrays, node_ptr[-1], edge_index.shape[1], len(num_nodes))
        graph_of_edge = _graph_of_edges(num_nodes, edge_index)
        first_node = node_ptr[graph_of_edge]  # [E]
        src, dst = ((ends - first_node).astype(np.int32) for ends in edge_index)
        order = _ascending(edge_index[1])  # brings the edges of a graph together, too
        if order is not None:
            src, dst = src.take(order), dst.take(order)
            arrays |= {k: a[order] for k, a in arrays.items() if k.startswith("edge.")}
        return cls(
            node_ptr,
            offsets(np.bincount(graph_of_edge, minlength=len(num_nodes))),
            src,
            dst,
            arrays,
            _own_fields(arrays) if fields is None else fields,
            info or {},
        )

    @classmethod
    def from_graphs(
        cls,
        graphs: Sequence[Graph],
        arrays: Mapping[str, np.ndarray] | None = None,
        fields: Mapping[str, Field] | None = None,
        info: Mapping[str, Any] | None = None,
    ) -> "PackedGraphs":
        """Pack single graphs; ``arrays`` have rows for all of them."""
        if not graphs:
            raise DataError("there is no graph to pack")
        for index, graph in enumerate(graphs):
            num_edges = graph.edge_index.shape[1]
            where = f"graph {index}: "
            _check_rows(graph.arrays, graph.num_nodes, num_edges, None, where)
        joined = {}
        for name in graphs[0].arrays:
            rows = [graph.arrays[name] for graph in graphs]
            one_per_graph = name.startswith("graph.")
            joined[name] = np.stack(rows) if one_per_graph else np.concatenate(rows)
        num_nodes = np.array([graph.num_nodes for graph in graphs])
        edges = [graph.edge_index for graph in graphs]
        per_graph = np.array([ends.shape[1] for ends in edges])
        return cls.pack(
            num_nodes,
            over_all_graphs(num_nodes, per_graph, np.concatenate(edges, axis=1)),
            {**joined, **(arrays or {})},
            fields,
            info,
        )

    def __len__(self) -> int:
        return len(self.node_ptr) - 1

    def __repr__(self) -> str:
        return (
            f"PackedGraphs({len(self)} graphs, {self.node_ptr[-1]} nodes, "
            f"{self.edge_ptr[-1]} edges, fields={list(self.fields)})"
        )

    @property
    def num_nodes(self) -> np.ndarray:
        """Number of nodes of each graph: ``[G]``."""
        return np.diff(self.node_ptr)

    @property
    def num_edges(self) -> np.ndarray:
        """Number of directed edges of each graph: ``[G]``."""
        return np.diff(self.edge_ptr)

    @property
    def edge_index(self) -> np.ndarray:
        """All edges, with nodes numbered over all graphs: ``[2, E]``."""
        first_node = np.repeat(self.node_ptr[:-1], self.num_edges)
        return np.stack([self.src, self.dst]) + first_node

    def array(self, name: str) -> np.ndarray:
        """The stored array ``name``, with or without its level."""
        for key in (name, *(f"{level}.{name}" for level in LEVELS)):
            if key in self.arrays:
                return self.arrays[key]
        raise DataError(f"no array {name!r}; there are {', '.join(self.arrays)}")

    def texts(self, name: str) -> Texts:
        """The strings stored as ``name``, one per graph."""
        key = f"text.{name}"
        if f"{key}.utf8" not in self.arrays:
            raise DataError(f"this set stores no text {name!r} for its graphs")
        return Texts(self.arrays[f"{key}.utf8"], self.arrays[f"{key}.ptr"])

    def batch(self, indices: Sequence[int] | np.ndarray) -> "Batch":
        """The graphs ``indices``, in this order, as one PyG batch."""
        import torch

        graphs = np.array(indices, dtype=np.int64).reshape(-1)  # the batch's own
        if len(graphs) == 0:
            raise DataError("a batch needs at least one graph")
        if graphs.min() < 0 or graphs.max() >= len(self):
            wrong = graphs[(graphs < 0) | (graphs >= len(self))][0]
            raise IndexError(f"graph {wrong} of a set of {len(self)}")

        nodes, node_ptr, num_nodes = _rows(self.node_ptr, graphs)
        edges, edge_ptr, num_edges = _rows(self.edge_ptr, graphs)
        edge_index = np.empty((2, len(edges)), dtype=np.int64)
        edge_index[0], edge_index[1] = self.src.take(edges), self.dst.take(edges)
        edge_index += np.repeat(node_ptr[:-1], num_edges)

        rows = {"node": nodes, "edge": edges, "graph": graphs}
        content = {"edge_index": torch.from_numpy(edge_index)}
        for name, wanted in self.fields.items():
            content[name] = wanted.take(self.arrays, rows[wanted.level])
        content["graph_id"] = torch.from_numpy(graphs)
        # What get_example needs, as Batch.from_data_list stores it.
        ptr = {
            "node": torch.from_numpy(node_ptr),
            "edge": torch.from_numpy(edge_ptr),
            "graph": torch.arange(len(graphs) + 1),
        }
        slices = {n: ptr[f.level] for n, f in self.fields.items()}
        slices |= {"edge_index": ptr["edge"], "graph_id": ptr["graph"]}
        shifts = dict.fromkeys(slices, torch.zeros(len(graphs), dtype=torch.long))
        shifts["edge_index"] = ptr["node"][:-1]

        # Not Batch(...): its metaclass inspects signatures, which takes longer than
        # gathering the arrays.
        batch = type.__call__(_batch_class())
        graph_of_node = np.repeat(np.arange(len(graphs)), num_nodes)
        content |= {"batch": torch.from_numpy(graph_of_node), "ptr": ptr["node"]}
        batch._store._mapping.update(content)
        batch._num_graphs = len(graphs)
        batch._slice_dict, batch._inc_dict = slices, shifts
        return batch

    def __getitem__(self, index: int) -> "Data":
        if not -len(self) <= index < len(self):
            raise IndexError(f"graph {index} of a set of {len(self)}")
        data = self.batch([index % len(self)]).get_example(0)
        if not any(wanted.level == "node" for wanted in self.fields.values()):
            data.num_nodes = int(self.num_nodes[index])
        return data

    def with_array(self, level: str, name: str, values: np.ndarray) -> "PackedGraphs":
        """The same set with the attribute ``name``: a row per node, edge or graph.

        Rows are in the stored order: graph by graph, edges sorted by destination.
        """
        if level not in LEVELS:
            raise DataError(f"level must be one of {LEVELS}, got {level!r}")
        added = {f"{level}.{name}": np.asarray(values)}
        _check_rows(added, self.node_ptr[-1], self.edge_ptr[-1], len(self))
        return replace(
            self,
            arrays={**self.arrays, **added},
            fields={**self.fields, **_own_fields(added)},
            digests={k: d for k, d in self.digests.items() if k not in added},
        )

    def fingerprints(self) -> dict[str, list[Any]]:
        """Data type, shape and SHA-256 of every stored array, by name."""
        return {
            name: [
                stored_dtype(values),
                list(values.shape),
                self.digests.get(name) or digest(values),
            ]
            for name, values in sorted(self._everything().items())
        }

    def save(self, folder: str | Path) -> None:
        """Write the set to ``folder`` atomically."""
        self.write(folder, [self], lambda: self.info)

    @staticmethod
    def write(
        folder: str | Path,
        parts: Iterable["PackedGraphs"],
        info: Callable[[], Mapping[str, Any]],
        last: Callable[[], Mapping[str, np.ndarray]] = dict,
    ) -> None:
        """Write the graphs of all ``parts`` to ``folder``, in order.

        Only one part is in memory at a time; the fields are those of the first.

        Args:
            info: Returns the description of the set; called after the last part.
            last: Returns arrays of all graphs that are known only after the last part.
        """
        fields: list[Mapping[str, Field]] = []

        def arrays() -> Iterator[Mapping[str, np.ndarray]]:
            for part in parts:
                fields.append(part.fields)
                yield part._everything()

        def header() -> dict[str, Any]:
            given_out = {k: asdict(f) for k, f in fields[0].items()} if fields else {}
            return {"fields": given_out, "info": info()}

        write(Path(folder), arrays(), header, last)

    @classmethod
    def open(cls, folder: str | Path) -> "PackedGraphs":
        """Map the set in ``folder`` into memory after verifying its checksums, which
        takes about a second per gigabyte."""
        verify(Path(folder))
        arrays, digests, header = read(Path(folder))
        try:
            structure = {name: arrays.pop(name) for name in _STRUCTURE}
            fields = _FIELDS.validate_python(header["fields"])
            info = header["info"]
        except KeyError as error:
            raise PackedFileError(f"{Path(folder) / HEADER} lacks {error}") from error
        except ValidationError as error:
            raise malformed(Path(folder) / HEADER, "fields", error) from error
        graphs = cls(
            **structure,
            arrays=arrays,
            fields=fields,
            info=info,
            digests=digests,
            folder=Path(folder),
        )
        ends = {"edge.src": graphs.src, "edge.dst": graphs.dst}
        totals = (graphs.node_ptr[-1], graphs.edge_ptr[-1], len(graphs))
        try:
            _check_rows({**ends, **arrays}, *totals)
            _check_fields(fields, arrays)
        except DataError as error:
            raise PackedFileError(f"{Path(folder) / HEADER}: {error}") from None
        return graphs

    def _everything(self) -> dict[str, np.ndarray]:
        return {**{name: getattr(self, name) for name in _STRUCTURE}, **self.arrays}


def _check_rows(
    arrays: Mapping[str, np.ndarray],
    nodes: int,
    edges: int,
    graphs: int | None,
    where: str = "",
) -> None:
    totals = {"node": nodes, "edge": edges, "graph": graphs}
    for name, values in arrays.items():
        level = name.split(".")[0]
        total = totals.get(level)
        if total is not None and len(values) != total:
            found = f"{len(values)} rows for {total} {level}s"
            raise DataError(f"{where}{name!r} has {found}")


def _check_fields(fields: Mapping[str, Field], arrays: Mapping[str, Any]) -> None:
    """Check that batches can be made from these fields."""
    for name, wanted in fields.items():
        if wanted.dtype not in _DTYPES:
            raise DataError(f"the field {name!r} has the data type {wanted.dtype!r}")
        for part in wanted.parts:
            stored = arrays.get(part.array)
            if stored is None or part.array.split(".")[0] != wanted.level:
                raise DataError(f"the field {name!r} needs the array {part.array!r}")
            if not 0 <= (part.one_hot or 0) <= LARGEST_ONE_HOT:
                raise DataError(f"the field {name!r} is one-hot of {part.one_hot}")
            width = stored.shape[1] if stored.ndim > 1 else 0
            if not all(0 <= column < width for column in part.columns or ()):
                raise DataError(f"the field {name!r} needs the columns {part.columns}")


def offsets(counts: np.ndarray) -> np.ndarray:
    """The start of each of ``counts`` blocks of rows, and the total: ``[G + 1]``."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def text_arrays(name: str, texts: Sequence[str]) -> dict[str, np.ndarray]:
    """The two arrays that store one string per graph."""
    encoded = [text.encode() for text in texts]
    return {
        f"text.{name}.utf8": np.frombuffer(b"".join(encoded), dtype=np.uint8),
        f"text.{name}.ptr": offsets(np.array([len(e) for e in encoded], dtype=int)),
    }


@cache
def _batch_class() -> type:
    from torch_geometric.data import Batch

    return type(Batch())


def _one_hot(values: np.ndarray, size: int, dtype: str) -> np.ndarray:
    if size <= _LARGEST_TABLE:
        return _one_hot_rows(size, dtype).take(values, axis=0, mode="clip")
    rows = np.zeros((len(values), size), dtype)
    known = np.flatnonzero(values < size)
    rows[known, values[known]] = 1
    return rows


@cache
def _one_hot_rows(size: int, dtype: str) -> np.ndarray:
    """One-hot rows of the integers below ``size``, then a row of zeros."""
    return np.eye(size + 1, size, dtype=dtype)


def _rows(
    ptr: np.ndarray, graphs: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The stored rows of some graphs, their offsets in the batch, and their counts."""
    start = ptr.take(graphs)
    counts = ptr.take(graphs + 1) - start
    batch_ptr = np.zeros(len(graphs) + 1, dtype=np.int64)
    np.cumsum(counts, out=batch_ptr[1:])
    rows = np.repeat(start - batch_ptr[:-1], counts)
    rows += np.arange(len(rows))
    return rows, batch_ptr, counts


def _ascending(keys: np.ndarray) -> np.ndarray | None:
    """The stable order that sorts ``keys``; None if they are already sorted."""
    if len(keys) < 2 or bool((keys[1:] >= keys[:-1]).all()):
        return None
    return np.argsort(keys, kind="stable")


def over_all_graphs(
    num_nodes: np.ndarray, num_edges: np.ndarray, edge_index: np.ndarray
) -> np.ndarray:
    """Renumber the nodes of edges from within each graph to over all graphs.

    Args:
        num_nodes, num_edges: Number of nodes and edges of each graph: ``[G]``.
        edge_index: Edges, graph by graph: ``[2, E]``.
    """
    limit = np.repeat(num_nodes, num_edges)
    outside = np.flatnonzero(((edge_index < 0) | (edge_index >= limit)).any(axis=0))
    if len(outside):
        edge = outside[0]
        graph = np.searchsorted(np.cumsum(num_edges), edge, side="right")
        raise DataError(
            f"edge {edge} is {tuple(edge_index[:, edge].tolist())}, but its graph "
            f"{graph} has {num_nodes[graph]} nodes, counted from 0"
        )
    return edge_index + np.repeat(offsets(num_nodes)[:-1], num_edges)


def _graph_of_edges(num_nodes: np.ndarray, edge_index: np.ndarray) -> np.ndarray:
    empty = np.flatnonzero(np.asarray(num_nodes) < 1)
    if len(empty):
        raise DataError(f"graph {empty[0]} has no nodes; leave such graphs out")
    graph_of_node = np.repeat(np.arange(len(num_nodes)), num_nodes)
    total = len(graph_of_node)
    if edge_index.size and not 0 <= edge_index.min() <= edge_index.max() < total:
        wrong = edge_index.max() if edge_index.min() >= 0 else edge_index.min()
        raise DataError(f"an edge ends in node {wrong} of {total}, counted from 0")
    graph, other = graph_of_node[edge_index]
    between = np.flatnonzero(graph != other)
    if len(between):
        edge = between[0]
        raise DataError(
            f"edge {edge} joins graph {graph[edge]} and graph {other[edge]}"
        )
    return graph


def _own_fields(arrays: Mapping[str, np.ndarray]) -> dict[str, Field]:
    """Every array as an attribute of the same name, as float32 or int64."""
    fields = {}
    for key, values in arrays.items():
        level, name = key.split(".", 1)
        if level in LEVELS:
            dtype = "float32" if values.dtype.kind == "f" else "int64"
            fields[name] = Field((Part(key),), dtype)
    return fields
