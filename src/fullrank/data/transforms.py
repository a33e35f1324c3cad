"""PyG transforms that add what is computed from the structure of a graph."""

from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from fullrank.data.packed.graphs import PackedGraphs
from fullrank.data.pair_structure import (
    ContinuousStructure,
    continuous_structure,
)
from fullrank.data.structure import Mark, StructuralColors, structural_colors
from fullrank.errors import DataError


@functional_transform("add_structural_colors")
class AddStructuralColors(BaseTransform):
    r"""Add a canonical 64-bit colour to every edge and node of a graph or batch.

    Edge (u, v) receives ``edge_color``, the colour of the pair (v, u), and node v
    ``node_color``, that of (v, v): see :mod:`fullrank.data.structure`. They are what
    :class:`fullrank.nn.StructuralCoefficients` reads.

    Args:
        hops: The radius of the subgraph around v; 0 reads degrees only, None the whole
            connected component.
        rounds: The rounds of refinement; by default 4, and 8 for the whole component.
        mark: The nodes whose distances are marked: ``"center"`` (v), ``"pair"`` (v and
            u), ``"triple"`` (also every other node in turn) or ``"quadruple"`` (also a
            fourth node where there are at most 8 to choose from).
        node_labels: The attribute with the labels of the nodes, such as ``"x"``.
        edge_labels: The attribute with the labels of the edges, such as
            ``"edge_attr"``. Measured numbers, such as distances, make poor labels.
        memory_limit: The most bytes that the subgraphs of one node may need.
    """

    def __init__(
        self,
        hops: int | None = 2,
        rounds: int | None = None,
        mark: Mark = "pair",
        node_labels: str | None = None,
        edge_labels: str | None = None,
        memory_limit: int = 2**30,
    ) -> None:
        self.hops = hops
        self.rounds = rounds
        self.mark = mark
        self.node_labels = node_labels
        self.edge_labels = edge_labels
        self.memory_limit = memory_limit

    def forward(self, data: Data) -> Data:
        colors = self._colors(
            data.edge_index.cpu().numpy(),
            data.num_nodes,
            node_labels=_attribute(data, self.node_labels),
            edge_labels=_attribute(data, self.edge_labels),
        )
        return _attached(data, *colors)

    def pack(self, graphs: PackedGraphs, progress: bool = False) -> PackedGraphs:
        """The packed set with the colours of all its graphs stored in it.

        Labels may also be named after a stored array that batches do not carry.
        """
        colors = self._colors(
            graphs.edge_index,
            int(graphs.node_ptr[-1]),
            node_labels=_stored(graphs, "node", self.node_labels),
            edge_labels=_stored(graphs, "edge", self.edge_labels),
            progress=progress,
        )
        return _stored_with(graphs, *colors)

    def _colors(
        self, edge_index: np.ndarray, num_nodes: int, **others: Any
    ) -> StructuralColors:
        return structural_colors(
            edge_index,
            num_nodes,
            hops=self.hops,
            rounds=self.rounds,
            mark=self.mark,
            memory_limit=self.memory_limit,
            **others,
        )

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(hops={self.hops}, mark={self.mark!r})"


@functional_transform("add_continuous_structure")
class AddContinuousStructure(BaseTransform):
    r"""Add numbers that describe its structure to every edge and node.

    They are the random-walk probabilities, distance, common neighbours, ring and
    resistance of :mod:`fullrank.data.pair_structure`, which
    :class:`fullrank.nn.ContinuousStructureCoefficients` reads. Edge (u, v) receives
    those of the pair (v, u) as ``edge_color``, node v those of (v, v) as
    ``node_color``.

    Args:
        walk_length: The number of steps of the longest random walk.
        max_ring: The size of the largest ring that is looked for.
        memory_limit: The most bytes that the matrices of one component may need.
    """

    def __init__(
        self, walk_length: int = 8, max_ring: int = 8, memory_limit: int = 2**30
    ) -> None:
        self.walk_length = walk_length
        self.max_ring = max_ring
        self.memory_limit = memory_limit

    def forward(self, data: Data) -> Data:
        found = self._describe(data.edge_index.cpu().numpy(), data.num_nodes)
        return _attached(data, *found)

    def pack(self, graphs: PackedGraphs, progress: bool = False) -> PackedGraphs:
        """The packed set with the numbers of all its graphs stored, in float32."""
        found = self._describe(graphs.edge_index, int(graphs.node_ptr[-1]), progress)
        return _stored_with(graphs, *(rows.astype(np.float32) for rows in found))

    def _describe(
        self, edge_index: np.ndarray, num_nodes: int, progress: bool = False
    ) -> ContinuousStructure:
        return continuous_structure(
            edge_index,
            num_nodes,
            walk_length=self.walk_length,
            max_ring=self.max_ring,
            memory_limit=self.memory_limit,
            progress=progress,
        )

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(walk_length={self.walk_length})"


def _attached(data: Data, edge: np.ndarray, node: np.ndarray) -> Data:
    data.edge_color = torch.from_numpy(edge).to(data.edge_index.device)
    data.node_color = torch.from_numpy(node).to(data.edge_index.device)
    return data


def _stored_with(
    graphs: PackedGraphs, edge: np.ndarray, node: np.ndarray
) -> PackedGraphs:
    colored = graphs.with_array("edge", "edge_color", edge)
    return colored.with_array("node", "node_color", node)


def _attribute(data: Data, name: str | None) -> np.ndarray | None:
    if name is None:
        return None
    if data.get(name) is None:
        raise DataError(f"the graph has no {name!r} to take labels from: {data}")
    return data[name].cpu().numpy()


def _stored(graphs: PackedGraphs, level: str, name: str | None) -> np.ndarray | None:
    if name is None:
        return None
    given_out = {n: f for n, f in graphs.fields.items() if f.level == level}
    if name in given_out:
        rows = {"node": graphs.node_ptr[-1], "edge": graphs.edge_ptr[-1]}[level]
        return given_out[name].take(graphs.arrays, np.arange(rows)).numpy()
    stored = f"{level}.{name.removeprefix(f'{level}.')}"
    if stored in graphs.arrays:
        return graphs.arrays[stored]
    known = [n for n in graphs.arrays if n.startswith(f"{level}.")]
    raise DataError(
        f"the {level}s have no {name!r} to take labels from; they have "
        f"{', '.join([*given_out, *known])}"
    )
