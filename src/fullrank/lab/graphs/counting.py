"""Which subgraphs a model cannot count."""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from math import comb

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from fullrank.errors import DataError
from fullrank.lab.graphs.merged import TOLERANCE, embedder, group_rows
from fullrank.lab.graphs.pairs import wl_graph_classes
from fullrank.lab.graphs.suites import load_suite
from fullrank.lab.precision import double, frozen_copy
from fullrank.lab.running import Runner, runner_of

MOST_NODES = 20
SUITES = ("atlas", "classic")
REPLAY_TOLERANCE = 1e-8


def subgraph_counts(graph: nx.Graph) -> dict[str, int]:
    """Number of occurrences of each pattern as a subgraph, induced or not."""
    cycles = Counter(map(len, nx.simple_cycles(graph, length_bound=6)))
    degree = dict(graph.degree)
    common = [len(set(graph[u]) & set(graph[v])) for u, v in graph.edges]
    ends = sum((degree[u] - 1) * (degree[v] - 1) for u, v in graph.edges)
    cliques = Counter(map(len, nx.enumerate_all_cliques(graph)))
    return {
        "triangles": cycles[3],
        "4-cycles": cycles[4],
        "5-cycles": cycles[5],
        "6-cycles": cycles[6],
        "4-cliques": cliques[4],
        "chordal 4-cycles": sum(comb(count, 2) for count in common),
        "paths of 4 nodes": ends - 3 * cycles[3],
        "stars of 3 rays": sum(comb(count, 3) for count in degree.values()),
    }


@dataclass(frozen=True)
class Miscount:
    """Two graphs that a model merges although their counts of a pattern differ.

    Attributes:
        pattern: The pattern.
        first: One graph, with its features.
        second: The other graph.
        counts: The count in each graph.
        gap: Largest difference of the two embeddings, computed graph by graph, relative
            to their size.
    """

    pattern: str
    first: Data
    second: Data
    counts: tuple[int, int]
    gap: float

    @property
    def nodes(self) -> str:
        """The number of nodes of both, or those of each."""
        first, second = self.first.num_nodes, self.second.num_nodes
        return str(first) if first == second else f"{first} and {second}"

    def __str__(self) -> str:
        return (
            f"{self.pattern}: {self.counts[0]} and {self.counts[1]} in two graphs of "
            f"{self.nodes} nodes that the model merges ({self.gap:.0e} apart)"
        )


@dataclass(frozen=True)
class Counting:
    """The patterns that a model cannot count.

    Attributes:
        cannot: A witness for every pattern that the model cannot count.
        undecided: The patterns without a witness, which the model may or may not count.
        looked_at: Number of graphs searched.
    """

    cannot: dict[str, Miscount]
    undecided: tuple[str, ...]
    looked_at: int

    def __str__(self) -> str:
        lines = [f"cannot count {miscount}" for miscount in self.cannot.values()]
        if self.undecided:
            patterns = ", ".join(self.undecided)
            lines.append(f"no witness among {self.looked_at} graphs: {patterns}")
        return "\n".join(lines)


@torch.no_grad()
def cannot_count(
    model: torch.nn.Module,
    like: Data | None = None,
    of: str = "embedding",
    call: Runner | None = None,
) -> Counting:
    """Find pairs of graphs that a model merges although their subgraph counts differ.

    A count that differs between two graphs with the same embedding is not a function of
    the embedding, for any head. The search covers all graphs of up to 7 nodes and
    textbook examples of up to 20 that 1-WL does not distinguish from another one.

    Args:
        model: Takes a PyG batch and returns one row per graph.
        like: A graph with features for the model: all nodes get the features of its
            first node and all edges those of its first edge. By default nodes have the
            feature 1.
        of: As in :func:`fullrank.lab.merged`.
        call: Runs the model, ``call(model, batch)``; ``model(batch)`` by default.
    """
    embed = embedder(frozen_copy(model), of, runner_of(model, call))
    graphs, counts = _pool()
    inputs = [double(_featured(graph, like)) for graph in graphs]
    group = group_rows(embed(Batch.from_data_list(inputs)), TOLERANCE)

    def replay(one: int, other: int) -> float:
        rows = [embed(Batch.from_data_list([inputs[i]]))[0] for i in (one, other)]
        size = max(float(row.abs().max()) for row in rows)
        return float((rows[0] - rows[1]).abs().max()) / (size or 1.0)

    cannot = {}
    for pattern, count in counts.items():
        for one, other in _different(group, count):
            if (gap := replay(one, other)) <= REPLAY_TOLERANCE:
                pair, both = (inputs[one], inputs[other]), (count[one], count[other])
                cannot[pattern] = Miscount(pattern, *pair, both, gap)
                break
    undecided = tuple(pattern for pattern in counts if pattern not in cannot)
    return Counting(cannot, undecided, len(graphs))


def _different(group: Tensor, counts: list[int]) -> list[tuple[int, int]]:
    """The first two graphs with different counts in each group, if any."""
    first: dict[int, int] = {}
    pairs: dict[int, tuple[int, int]] = {}
    for index, number in enumerate(group.tolist()):
        other = first.setdefault(number, index)
        if counts[index] != counts[other]:
            pairs.setdefault(number, (other, index))
    return [*pairs.values()]


@lru_cache(maxsize=1)
def _pool() -> tuple[list[Data], dict[str, list[int]]]:
    """Graphs that 1-WL does not distinguish from another one, small ones first, and
    their counts of all patterns."""
    graphs = [graph for name in SUITES for graph in load_suite(name).graphs]
    graphs = [graph for graph in graphs if graph.num_nodes <= MOST_NODES]
    wl = wl_graph_classes(graphs)
    _, which, size = wl.unique(return_inverse=True, return_counts=True)
    chosen = [graphs[i] for i in (size[which] > 1).nonzero().flatten().tolist()]
    chosen.sort(key=lambda graph: graph.num_nodes)
    counted = [subgraph_counts(_as_networkx(graph)) for graph in chosen]
    return chosen, {name: [one[name] for one in counted] for name in counted[0]}


def _as_networkx(graph: Data) -> nx.Graph:
    plain = nx.empty_graph(graph.num_nodes)
    plain.add_edges_from(graph.edge_index.T.tolist())
    return plain


def _featured(graph: Data, like: Data | None) -> Data:
    if like is None:
        return graph
    if not (like.num_nodes and like.num_edges):
        raise DataError("the graph to take features from needs a node and an edge")
    features = {"x": like.x[:1].expand(graph.num_nodes, *like.x.shape[1:])}
    if like.edge_attr is not None:
        attr = like.edge_attr
        features["edge_attr"] = attr[:1].expand(graph.num_edges, *attr.shape[1:])
    return Data(edge_index=graph.edge_index, **features)
