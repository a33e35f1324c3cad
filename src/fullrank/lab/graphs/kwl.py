"""Which Weisfeiler-Leman test distinguishes two graphs."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor
from torch_geometric.data import Batch

from fullrank.errors import ConfigError
from fullrank.lab.graphs.isomorphism import is_isomorphic, union
from fullrank.lab.graphs.pairs import Graph, as_data
from fullrank.lab.graphs.wl import multisets, paired, wl_colors

HIGHEST = 3
LARGEST = 2**26


@dataclass(frozen=True)
class WLLevel:
    """The weakest Weisfeiler-Leman test that distinguishes two graphs.

    Attributes:
        folklore: The smallest k such that the k-dimensional *folklore* test (k-FWL)
            distinguishes them; 1-FWL is 1-WL, colour refinement. None if no test up to
            `tested` does.
        rounds: Number of rounds after which it does.
        tested: The highest k that was run.
        isomorphic: Whether the graphs are isomorphic; None if undecided.
    """

    folklore: int | None
    rounds: int | None
    tested: int
    isomorphic: bool | None

    @property
    def oblivious(self) -> int | None:
        """The smallest k for the *oblivious* test (k-WL in much of the literature on
        graph neural networks): k-FWL distinguishes what (k + 1)-WL does, and 2-WL is no
        stronger than 1-WL."""
        if self.folklore is None or self.folklore == 1:
            return self.folklore
        return self.folklore + 1

    def __str__(self) -> str:
        if self.isomorphic:
            return "the same graph"
        if self.folklore == 1:
            return f"1-WL, after {self.rounds} rounds"
        if self.folklore is not None:
            return f"{self.folklore}-FWL (folklore), that is {self.oblivious}-WL"
        known = "not isomorphic" if self.isomorphic is False else "perhaps isomorphic"
        return f"none up to {self.tested}-FWL; {known}"


def wl_level(first: Graph, second: Graph, highest: int = HIGHEST) -> WLLevel:
    """Find the weakest Weisfeiler-Leman test that distinguishes two graphs.

    Colours are compared, never hashed. Features of nodes (``x``, ``z``, ``node_type``)
    and edges (``edge_attr``, ``edge_weight``, ``edge_type``) are initial colours. A
    test of dimension k needs n^(k+1) numbers; a test that needs more than 2^26 is
    skipped.

    Args:
        first: A PyG graph, or a networkx graph without features.
        second: The other graph.
        highest: The largest dimension k of the folklore test, 1 to 3.
    """
    if not 1 <= highest <= HIGHEST:
        raise ConfigError(f"highest must be 1 to {HIGHEST}, got {highest}")
    pair = [as_data(first), as_data(second)]
    nodes = max(graph.num_nodes for graph in pair)
    if pair[0].num_nodes != pair[1].num_nodes:
        return WLLevel(1, 0, 1, False)
    if nodes == 0:
        return WLLevel(None, None, highest, True)
    tested, batch = 1, union(pair)
    rounds = _refinement_rounds(batch)
    if rounds is not None:
        return WLLevel(1, rounds, 1, False)
    for k in range(2, highest + 1):
        if nodes ** (k + 1) > LARGEST:
            break
        tested = k
        rounds = _folklore_rounds(_relations(batch), k)
        if rounds is not None:
            return WLLevel(k, rounds, k, False)
    return WLLevel(None, None, tested, is_isomorphic(*pair))


def _refinement_rounds(batch: Batch) -> int | None:
    """Number of rounds of 1-WL until the colours of two graphs differ, if ever."""
    edges = batch.edge_index
    return _rounds(
        batch.label,
        lambda color: wl_colors(
            edges, len(color), color, rounds=1, edge_labels=batch.kind
        ),
    )


def _rounds(color: Tensor, refine: Callable[[Tensor], Tensor]) -> int | None:
    """Number of refinements until the first half of the colours differs from the
    second, if ever."""
    rounds = 0
    while True:
        first, second = color.view(2, -1).sort(dim=1).values
        if not torch.equal(first, second):
            return rounds
        count = int(color.max()) + 1
        color = refine(color)
        if int(color.max()) + 1 == count:
            return None
        rounds += 1


def _relations(batch: Batch) -> Tensor:
    """The relation of two nodes in each graph, ``[2, n, n]``: equal, with their
    features; joined, with their edges; or not joined."""
    n = batch.num_nodes // 2
    source, target = batch.edge_index
    cell = source // n * n * n + source % n * n + target % n
    # Parallel edges form one relation, which contains all their kinds.
    joined = multisets(batch.kind + 1, cell, 2 * n * n).view(2, n, n)
    diagonal = torch.zeros(2, n, n, dtype=torch.long)
    diagonal[:, range(n), range(n)] = batch.label.view(2, n) + 1
    return paired(joined.flatten(), diagonal.flatten()).view(2, n, n)


def _folklore_rounds(relation: Tensor, k: int) -> int | None:
    """Number of rounds of k-FWL until the colours of two graphs differ, if ever."""
    n = relation.size(1)
    return _rounds(_initial(relation, k), lambda color: _refine(color, n, k))


def _initial(relation: Tensor, k: int) -> Tensor:
    """The isomorphism type of every k-tuple, ``[2, n, ..., n]``."""
    n = relation.size(1)
    color = torch.zeros((2,) + (n,) * k, dtype=torch.long)
    ends = [(i, i) for i in range(k)] + [*combinations(range(k), 2)]
    both = [*ends, *((j, i) for i, j in ends if i != j)]
    for i, j in both:
        shape = [2] + [n if axis in (i, j) else 1 for axis in range(k)]
        table = relation.diagonal(dim1=1, dim2=2) if i == j else relation
        if i > j:
            table = relation.mT
        color = _paired(color, table.reshape(shape).expand_as(color))
    return color


def _refine(color: Tensor, n: int, k: int) -> Tensor:
    """The multiset over w of the colours with w in the place of each entry."""
    seen = torch.zeros((*color.shape, n), dtype=torch.long)
    for axis in range(1, k + 1):
        # [..., w] with w in place of the entry.
        replaced = color.movedim(axis, -1).unsqueeze(axis).expand_as(seen)
        seen = _paired(seen, replaced)
    rows = seen.reshape(color.numel(), n).sort(dim=1).values
    number = color.flatten()
    for column in rows.T:
        number = paired(number, column)
    return number.view(color.shape)


def _paired(first: Tensor, second: Tensor) -> Tensor:
    return paired(first.flatten(), second.reshape(-1)).view(first.shape)
