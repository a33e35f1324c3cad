"""Pairs of graphs that are hard to distinguish."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from fullrank.lab.graphs.wl import wl_classes, wl_colors

Graph: TypeAlias = Data | nx.Graph


@dataclass(frozen=True)
class PairSuite:
    """Pairs of graphs that a model should distinguish.

    Attributes:
        name: The name of the suite.
        graphs: The graphs; one that belongs to several pairs appears once.
        pairs: Indices into ``graphs``, shape ``[P, 2]``.
        groups: The category of each pair.
    """

    name: str
    graphs: list[Data]
    pairs: Tensor
    groups: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.pairs.shape != (len(self.groups), 2):
            raise ValueError(
                f"suite {self.name!r} has {len(self.groups)} groups for pairs of "
                f"shape {tuple(self.pairs.shape)}; give one group to each pair"
            )

    @classmethod
    def from_classes(
        cls, name: str, classes: Iterable[tuple[str, Sequence[Graph]]]
    ) -> "PairSuite":
        """Pair every two graphs of the same class.

        Args:
            name: The name of the suite.
            classes: The category and the graphs of each class, as PyG or as networkx
                graphs; the nodes of the latter get the feature 1.
        """
        graphs: list[Data] = []
        pairs: list[tuple[int, int]] = []
        groups: list[str] = []
        for group, members in classes:
            first = len(graphs)
            graphs += map(as_data, members)
            added = [*combinations(range(first, len(graphs)), 2)]
            pairs += added
            groups += [group] * len(added)
        index = torch.tensor(pairs, dtype=torch.long).view(-1, 2)
        return cls(name, graphs, index, tuple(groups))

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def num_features(self) -> int:
        """Width of the node features."""
        return self.graphs[0].num_node_features

    def isomorphic_copies(self, seed: int = 0) -> "PairSuite":
        """Pair each graph with a relabeled copy of itself, not to be distinguished."""
        generator = torch.Generator().manual_seed(seed)
        copies = [relabel(graph, generator) for graph in self.graphs]
        count = len(self.graphs)
        pairs = torch.stack([torch.arange(count), torch.arange(count) + count], dim=1)
        groups = ("copies",) * count
        return PairSuite(f"{self.name}-copies", self.graphs + copies, pairs, groups)

    def count_by_group(self, chosen: Tensor) -> dict[str, int]:
        """Number of pairs of each category selected by a mask of shape ``[P]``."""
        count = Counter(dict.fromkeys(self.groups, 0))
        for group, yes in zip(self.groups, chosen.tolist(), strict=True):
            count[group] += yes
        return dict(count)

    def wl_separated(self) -> Tensor:
        """Which pairs the 1-WL test distinguishes, shape ``[P]``."""
        first, second = wl_graph_classes(self.graphs)[self.pairs.T]
        return first != second


def wl_graph_classes(graphs: list[Data]) -> Tensor:
    """The 1-WL class of each graph, starting from the node features."""
    batch = Batch.from_data_list(graphs)
    color = wl_colors(batch.edge_index, batch.num_nodes, labels=batch.x)
    return wl_classes(color, batch.batch, len(graphs))


def relabel(data: Data, generator: torch.Generator | None = None) -> Data:
    """Shuffle the nodes and the edges of every graph in `data`.

    Node and edge attributes move with them. Works on a graph or a batch.
    """
    graph = data.batch
    if graph is None:
        graph = torch.zeros(data.num_nodes, dtype=torch.long)
    order = _shuffle_within(graph, generator)
    edge_order = _shuffle_within(graph[data.edge_index[0]], generator)
    place = torch.empty_like(order)
    place[order] = torch.arange(order.numel())
    relabeled = data.clone()
    for key, value in data.to_dict().items():
        if key == "edge_index":
            relabeled[key] = place[value][:, edge_order]
        elif data.is_node_attr(key):
            relabeled[key] = value[order]
        elif data.is_edge_attr(key):
            relabeled[key] = value[edge_order]
    return relabeled


def _shuffle_within(group: Tensor, generator: torch.Generator | None) -> Tensor:
    """A random order within groups; the order of the groups is kept."""
    order = torch.randperm(group.numel(), generator=generator)
    return order[group[order].argsort(stable=True)]


def as_data(graph: Graph) -> Data:
    """A networkx graph as a PyG graph whose nodes have the feature 1."""
    if isinstance(graph, Data):
        return graph
    number = {node: index for index, node in enumerate(graph)}
    ends = [(number[u], number[v]) for u, v in graph.edges()]
    edges = torch.tensor(ends, dtype=torch.long).view(-1, 2).T
    if not graph.is_directed():
        back = edges[:, edges[0] != edges[1]].flip(0)
        edges = torch.cat([edges, back], dim=1)
    return Data(x=torch.ones(len(graph), 1), edge_index=edges)
