"""Suites of graph pairs that are hard to tell apart."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from fullrank.lab.graphs.wl import wl_classes, wl_colors

if TYPE_CHECKING:
    import networkx as nx

BREC_CATEGORIES = ("basic", "regular", "str", "extension", "cfi", "4vtx", "dr")
CSL_NODES = 41
CSL_SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)


@dataclass(frozen=True)
class PairSuite:
    """Graphs, and which two of them are to be told apart.

    Attributes:
        name: What the suite is called.
        graphs: The graphs; one that stands in several pairs is here once.
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

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def num_features(self) -> int:
        """Width of the node features."""
        return self.graphs[0].num_node_features

    def isomorphic_copies(self, seed: int = 0) -> "PairSuite":
        """Pair every graph with a relabeled copy of itself: none may be told apart."""
        generator = torch.Generator().manual_seed(seed)
        copies = [relabel(graph, generator) for graph in self.graphs]
        count = len(self.graphs)
        pairs = torch.stack([torch.arange(count), torch.arange(count) + count], dim=1)
        groups = ("copies",) * count
        return PairSuite(f"{self.name}-copies", self.graphs + copies, pairs, groups)

    def wl_separated(self) -> Tensor:
        """Which pairs the 1-WL test tells apart, shape ``[P]``."""
        first, second = wl_graph_classes(self.graphs)[self.pairs.T]
        return first != second


def wl_graph_classes(graphs: list[Data]) -> Tensor:
    """The 1-WL class of each graph, starting from the node features."""
    batch = Batch.from_data_list(graphs)
    color = wl_colors(batch.edge_index, batch.num_nodes, labels=batch.x)
    return wl_classes(color, batch.batch, len(graphs))


def relabel(data: Data, generator: torch.Generator | None = None) -> Data:
    """Shuffle the nodes of every graph in `data` among themselves, and its edges.

    Whatever belongs to nodes or edges moves with them. Works on one graph and on a
    whole batch in one go.
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
    """A random order in which the groups still follow one another."""
    order = torch.randperm(group.numel(), generator=generator)
    return order[group[order].argsort(stable=True)]


def load_suite(name: str, folder: str | Path | None = None) -> PairSuite:
    """Load a suite by name.

    Args:
        name: ``atlas`` and ``csl`` are generated; ``brec``, ``exp``, ``sr25`` and
            ``graph8c`` are read from `folder`.
        folder: Holds ``brec/*.g6``, ``EXP.txt``, ``sr251256.g6``, ``graph8c.g6``.
    """
    if name in _GENERATED:
        return _GENERATED[name]()
    if name not in _READ:
        known = ", ".join([*_GENERATED, *_READ])
        raise ValueError(f"there is no suite {name!r}; choose one of {known}")
    if folder is None:
        raise ValueError(
            f"suite {name!r} is read from files: name the folder that holds them with "
            f"--folder (docs/beyond-1wl.md says where they come from)"
        )
    try:
        return _READ[name](Path(folder))
    except FileNotFoundError as error:
        raise ValueError(
            f"suite {name!r}: there is no {error.filename}; the folder must hold "
            f"brec/*.g6, EXP.txt, sr251256.g6 and graph8c.g6"
        ) from None


def atlas_pairs() -> PairSuite:
    """All graphs of up to 7 nodes; pairs of equal numbers of nodes and edges."""
    from networkx.generators.atlas import graph_atlas_g

    graphs = [_from_networkx(graph) for graph in graph_atlas_g()[1:]]
    sizes = [(graph.num_nodes, graph.num_edges) for graph in graphs]
    return _pairs_within("atlas", graphs, sizes)


def csl_pairs() -> PairSuite:
    """Circular skip links: rings of 41 nodes with chords of ten different lengths."""
    import networkx as nx

    graphs = [
        _from_networkx(nx.circulant_graph(CSL_NODES, [1, skip])) for skip in CSL_SKIPS
    ]
    return _pairs_within("csl", graphs, ["csl"] * len(graphs))


def brec_pairs(folder: Path) -> PairSuite:
    """BREC: 400 pairs in seven categories; lines 2i and 2i+1 of a file are a pair."""
    graphs: list[Data] = []
    groups: list[str] = []
    for category in BREC_CATEGORIES:
        read = _read_graph6(folder / "brec" / f"{category}.g6")
        graphs += read
        groups += [category] * (len(read) // 2)
    return PairSuite("brec", graphs, _neighbors_in_line(len(graphs)), tuple(groups))


def exp_pairs(folder: Path) -> PairSuite:
    """EXP: 600 pairs of formulas as graphs; each node has one of two types."""
    graphs = _read_typed_graphs(folder / "EXP.txt")
    pairs = _neighbors_in_line(len(graphs))
    return PairSuite("exp", graphs, pairs, ("exp",) * len(pairs))


def sr25_pairs(folder: Path) -> PairSuite:
    """The 15 strongly regular graphs srg(25, 12, 5, 6), every one with every other."""
    graphs = _read_graph6(folder / "sr251256.g6")
    return _pairs_within("sr25", graphs, ["sr25"] * len(graphs))


def graph8c_pairs(folder: Path) -> PairSuite:
    """The pairs of connected graphs of 8 nodes that 1-WL cannot tell apart."""
    graphs = _read_graph6(folder / "graph8c.g6")
    every = _pairs_within("graph8c", graphs, wl_graph_classes(graphs).tolist())
    used, pairs = torch.unique(every.pairs, return_inverse=True)
    return PairSuite("graph8c", [graphs[i] for i in used], pairs, every.groups)


_GENERATED: dict[str, Callable[[], PairSuite]] = {
    "atlas": atlas_pairs,
    "csl": csl_pairs,
}
_READ: dict[str, Callable[[Path], PairSuite]] = {
    "brec": brec_pairs,
    "exp": exp_pairs,
    "sr25": sr25_pairs,
    "graph8c": graph8c_pairs,
}
SUITES = (*_GENERATED, *_READ)


def _pairs_within(name: str, graphs: list[Data], keys: Iterable) -> PairSuite:
    """Pair every two graphs with the same key."""
    members: dict = {}
    for index, key in enumerate(keys):
        members.setdefault(key, []).append(index)
    pairs = [pair for group in members.values() for pair in combinations(group, 2)]
    return PairSuite(name, graphs, torch.tensor(pairs), (name,) * len(pairs))


def _neighbors_in_line(count: int) -> Tensor:
    if count % 2:
        raise ValueError(f"pairs need an even number of graphs, got {count}")
    return torch.arange(count).view(-1, 2)


def _read_graph6(path: Path) -> list[Data]:
    import networkx as nx

    lines = path.read_bytes().split()
    return [_from_networkx(nx.from_graph6_bytes(line)) for line in lines]


def _from_networkx(graph: "nx.Graph") -> Data:
    edges = torch.tensor(list(graph.edges), dtype=torch.long).view(-1, 2).T
    both = torch.cat([edges, edges.flip(0)], dim=1)
    return Data(x=torch.ones(len(graph), 1), edge_index=both)


def _read_typed_graphs(path: Path) -> list[Data]:
    lines = iter(path.read_text().splitlines())
    count = int(next(lines))
    graphs = []
    for _ in range(count):
        num_nodes = int(next(lines).split()[0])
        rows = [[int(word) for word in next(lines).split()] for _ in range(num_nodes)]
        kinds = torch.tensor([row[0] for row in rows])
        edges = [(node, other) for node, row in enumerate(rows) for other in row[2:]]
        graphs.append(
            Data(
                x=torch.nn.functional.one_hot(kinds, 2).float(),
                edge_index=torch.tensor(edges).T.contiguous(),
            )
        )
    return graphs
