"""Canonical colours of edges and nodes, read from the structure around them.

The colour of the pair (v, u) is a 64-bit hash of the subgraph within ``hops`` steps of
v, whose nodes w are marked by their distances from v and from u and then refined by
rounds of the Weisfeiler-Leman test:

    c⁰(w)   = h(base(w), dist(v, w), dist(u, w))
    cᵗ⁺¹(w) = h(cᵗ(w), {{ (label(w, x), cᵗ(x)) : x ∈ N(w), dist(v, x) ≤ hops }})
    color(v, u) = h({{ c(w) : dist(v, w) ≤ hops }}, c(u), base(u), label(v, u))

``base(w)`` is the node's label together with the labels of its edges (its degree when
there are none). Nothing in it depends on the order of nodes or edges, on the machine or
on the process, so isomorphic graphs have the same colours everywhere.

A multiset of (label, colour) is hashed as the sum of hash(label) · hash(colour) modulo
2⁶⁴: a polynomial in pseudo-random numbers, another one for another multiset.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from fullrank.data.cache import shown
from fullrank.errors import DataError

Hashes = NDArray[np.uint64]
Mark = Literal["pair", "center"]

# One odd number for each part of a hash, so that no part passes for another.
_FORWARD, _BACKWARD, _OWN, _TO_V, _TO_U, _EDGES, _AT_U, _BASE_U, _LABEL = (
    np.uint64(odd)
    for odd in (
        0x9E3779B97F4A7C15,
        0xD1B54A32D192ED03,
        0xABC98388FB8FAC03,
        0x8CB92BA72F3D8DD7,
        0xF1357AEA2E62A9C5,
        0xAEF17502108EF2D9,
        0xC2B2AE3D27D4EB4F,
        0xD6E8FEB86659FD93,
        0xFF51AFD7ED558CCD,
    )
)
# Small enough for the caches, large enough that Python's share of the time is small.
_BLOCK_BYTES = 32 * 2**20
# Measured peaks, for each member of a ball, its colour for one partner, its edges and
# its distance from the partner.
_MEMBER_BYTES, _STATE_BYTES, _LINK_BYTES, _DISTANCE_BYTES = 64, 40, 80, 28


class StructuralColors(NamedTuple):
    """The colours of all edges, in their order, and of all nodes."""

    edge: NDArray[np.int64]  # [E]
    node: NDArray[np.int64]  # [N]


def structural_colors(
    edge_index: ArrayLike,
    num_nodes: int,
    *,
    hops: int | None = 2,
    rounds: int | None = None,
    mark: Mark = "pair",
    node_labels: ArrayLike | None = None,
    edge_labels: ArrayLike | None = None,
    memory_limit: int = 2**30,
    progress: bool = False,
) -> StructuralColors:
    """Colour every edge and node of a graph, or of a disjoint union of graphs.

    Edges lead from row 0 of ``edge_index`` (u) to row 1 (v), as messages do. Structure
    is read in both directions, and the direction is part of an edge's label. The colour
    of a node is that of the pair (v, v).

    Args:
        edge_index: The edges, [2, E]; loops and parallel edges are allowed.
        num_nodes: The number of nodes N.
        hops: The radius of the subgraph; 0 reads degrees only, None the whole
            connected component.
        rounds: The rounds of refinement in each subgraph; by default 4, and 8 for the
            whole component.
        mark: "pair" marks distances from v and u, in one subgraph an edge; "center"
            from v alone, in one subgraph a node.
        node_labels: Rows of numbers, [N] or [N, F], compared exactly.
        edge_labels: The same of the edges, [E] or [E, F].
        memory_limit: The most bytes that the subgraphs of one node may need.
        progress: Whether to show a progress bar.

    Raises:
        DataError: If the subgraphs of one node need more than ``memory_limit``.
    """
    if hops is not None and hops < 0:
        raise ValueError(f"hops must be at least 0, or None, got {hops}")
    if rounds is None:
        rounds = 8 if hops is None else 4
    if rounds < 0:
        raise ValueError(f"rounds must be at least 0, got {rounds}")
    if mark not in ("pair", "center"):
        raise ValueError(f"mark must be 'pair' or 'center', got {mark!r}")
    source, target = np.asarray(edge_index, dtype=np.int64).reshape(2, -1)
    node_hash = hash_rows(node_labels, num_nodes)
    edge_hash = hash_rows(edge_labels, len(source))

    graph = _Graph(source, target, node_hash, edge_hash)
    blocks = _blocks(graph, hops, mark, memory_limit)
    own = np.empty(num_nodes, np.uint64)
    pair = np.empty(graph.adjacency.nnz, np.uint64)
    for block in shown(blocks, len(blocks), "Colouring edges", progress):
        distances = _distances(graph, block, hops, mark)
        for centers in _of_equal_degree(block, graph.degree):
            own[centers], pair[graph.slots(centers)] = _color(
                graph, distances, centers, rounds, mark
            )
    edge = _mix(pair[graph.slot_of(target, source)] + _LABEL * edge_hash)
    return StructuralColors(edge.view(np.int64), own.view(np.int64))


class _Graph:
    """The graph read in both directions: one entry for each pair of neighbours."""

    def __init__(
        self,
        source: NDArray[np.int64],
        target: NDArray[np.int64],
        node_hash: Hashes,
        edge_hash: Hashes,
    ):
        self.num_nodes = len(node_hash)
        labels = np.concatenate(
            [_mix(edge_hash + _FORWARD), _mix(edge_hash + _BACKWARD)]
        )
        rows = np.concatenate([target, source])
        columns = np.concatenate([source, target])
        # Parallel entries are summed: their labels are a multiset.
        adjacency = csr_array((labels, (rows, columns)), shape=(self.num_nodes,) * 2)
        adjacency.sum_duplicates()
        # Odd factors lose nothing of what they are multiplied with.
        adjacency.data = _mix(adjacency.data) | np.uint64(1)
        self.adjacency = adjacency
        self.degree = np.diff(adjacency.indptr)  # [N]
        edges = adjacency @ np.ones(self.num_nodes, np.uint64)
        self.base = _mix(node_hash + _EDGES * edges)  # [N]
        self.links = _with_data(adjacency, np.ones(adjacency.nnz, bool))
        self.one_step = self.links + self.unit_rows(np.arange(self.num_nodes))
        self._slots = _numbered(adjacency)

    def unit_rows(self, nodes: NDArray) -> csr_array:
        """A row for each of ``nodes`` with the node itself as its entry: [R, N]."""
        entries = (np.ones(len(nodes), bool), nodes, np.arange(len(nodes) + 1))
        return csr_array(entries, shape=(len(nodes), self.num_nodes))

    def slots(self, centers: NDArray) -> NDArray:
        """Where the pairs of ``centers``, all of one degree, stand: [C, degree]."""
        width = self.degree[centers[0]]
        return self.adjacency.indptr[centers][:, None] + np.arange(width)

    def slot_of(self, v: NDArray, u: NDArray) -> NDArray:
        """Where the pairs of neighbours (v, u) stand."""
        return _values(self._slots, v, u) - 1


class _Distances(NamedTuple):
    """1 + dist(row, node) for some rows, 0 for nodes further than the hops."""

    rows: NDArray  # [R], sorted
    matrix: csr_array  # [R, N]

    def of(self, nodes: NDArray) -> NDArray:
        """The rows of the matrix that belong to ``nodes``."""
        return np.searchsorted(self.rows, nodes)


def _distances(
    graph: _Graph, centers: NDArray, hops: int | None, mark: Mark
) -> _Distances:
    """Distances from ``centers`` and, to mark pairs, from their neighbours.

    A node at distance d is met in all steps from d on, so that counting the steps in
    which it is met gives the distance.
    """
    rows = centers
    if mark == "pair":
        rows = np.unique(np.concatenate([centers, graph.adjacency[centers].indices]))
    met = graph.unit_rows(rows)
    times_met = met.astype(np.int32)
    steps = 0
    while hops is None or steps < hops:
        further = met @ graph.one_step
        if further.nnz == met.nnz:
            break
        met = further
        times_met = times_met + met
        steps += 1
    times_met.sort_indices()
    return _Distances(rows, _with_data(times_met, steps + 2 - times_met.data))


def _color(
    graph: _Graph, distances: _Distances, centers: NDArray, rounds: int, mark: Mark
) -> tuple[Hashes, Hashes]:
    """The colours of ``centers``, all of one degree D, [C], and their pairs, [C, D]."""
    slots = graph.slots(centers)  # [C, D]
    partners = np.hstack([centers[:, None], graph.adjacency.indices[slots]])
    labels = np.hstack(
        [np.zeros((len(centers), 1), np.uint64), graph.adjacency.data[slots]]
    )

    balls = distances.matrix[distances.of(centers)]  # [C, N], an entry a member
    ball = np.repeat(np.arange(len(centers)), np.diff(balls.indptr))  # [M]
    state = (graph.base[balls.indices] + _TO_V * balls.data.astype(np.uint64))[:, None]
    if mark == "pair":
        rows = distances.of(partners)[ball]  # [M, 1 + D]
        to_u = _values(distances.matrix, rows, balls.indices[:, None])
        state = state + _TO_U * to_u.astype(np.uint64)
    state = _mix(state)  # [M, 1 + D] or [M, 1]
    place = _numbered(balls)
    links = _links(graph, balls, ball, place)
    for _ in range(rounds):
        state = _mix(_OWN * state + links @ state)

    members = np.add.reduceat(state, balls.indptr[:-1], axis=0)
    at = _values(place, np.arange(len(centers))[:, None], partners)  # [C, 1 + D]
    column = np.arange(partners.shape[1]) if mark == "pair" else 0
    at_u = np.where(at > 0, state[at - 1, column], np.uint64(0))
    colors = _mix(
        members + _AT_U * at_u + _BASE_U * graph.base[partners] + _LABEL * labels
    )
    return colors[:, 0], colors[:, 1:]


def _links(
    graph: _Graph, balls: csr_array, ball: NDArray, place: csr_array
) -> csr_array:
    """The edges inside the balls, between their M members: [M, M]."""
    degree = graph.degree[balls.indices]
    member = np.repeat(np.arange(len(degree)), degree)
    first = graph.adjacency.indptr[balls.indices] - (np.cumsum(degree) - degree)
    slot = np.repeat(first, degree) + np.arange(len(member))
    neighbor = _values(place, ball[member], graph.adjacency.indices[slot])
    inside = neighbor > 0
    count = np.bincount(member[inside], minlength=len(degree))
    return csr_array(
        (
            graph.adjacency.data[slot[inside]],
            neighbor[inside] - 1,
            np.concatenate([[0], np.cumsum(count)]),
        ),
        shape=(len(degree),) * 2,
    )


def _blocks(
    graph: _Graph, hops: int | None, mark: Mark, memory_limit: int
) -> list[NDArray]:
    """Consecutive nodes whose subgraphs fit together into the memory of a block."""
    if not graph.num_nodes:
        return []
    members, edges = _ball_bounds(graph, hops)
    size = members * (_MEMBER_BYTES + _STATE_BYTES) + edges * _LINK_BYTES
    if mark == "pair":
        size += members * graph.degree * _STATE_BYTES
        size += graph.links @ members * _DISTANCE_BYTES
    worst = int(size.argmax())
    if size[worst] > memory_limit:
        raise DataError(
            f"node {worst} with {graph.degree[worst]} neighbours needs up to "
            f"{size[worst] / 2**30:.2g} GiB for its subgraphs of {members[worst]:.0f} "
            f"nodes, more than memory_limit={memory_limit / 2**30:.2g} GiB; take fewer "
            "hops, mark='center' or a higher limit"
        )
    block = np.cumsum(size) // min(_BLOCK_BYTES, memory_limit)
    return np.split(np.arange(graph.num_nodes), np.flatnonzero(np.diff(block)) + 1)


def _ball_bounds(graph: _Graph, hops: int | None) -> tuple[NDArray, NDArray]:
    """Upper bounds of the nodes within ``hops`` of each node and of their edges.

    The ball around v is v and the balls around its neighbours, one hop smaller; those
    of at least one hop contain v, which is counted once.
    """
    weight = np.stack([np.ones(graph.num_nodes), graph.degree])  # [2, N]
    _, component = connected_components(graph.links, directed=False)
    whole = np.stack([np.bincount(component, row)[component] for row in weight])
    bound = whole if hops is None else weight
    for hop in range(hops or 0):
        again = graph.degree * weight if hop else 0
        bound = np.minimum(weight + bound @ graph.links - again, whole)
    return bound[0], bound[1]


def _of_equal_degree(nodes: NDArray, degree: NDArray) -> Iterator[NDArray]:
    """The nodes in groups of the same degree."""
    order = nodes[np.argsort(degree[nodes], kind="stable")]
    yield from np.split(order, np.flatnonzero(np.diff(degree[order])) + 1)


def hash_rows(rows: ArrayLike | None, count: int) -> Hashes:
    """Hash each of ``count`` rows of numbers; without rows all are alike.

    Integers are compared as int64 and other numbers as float64, -0.0 as 0.0.
    """
    if rows is None:
        return np.zeros(count, np.uint64)
    table = np.asarray(rows)
    if len(table) != count:
        raise ValueError(
            f"labels are one row for each of {count} nodes or edges, got {len(table)}"
        )
    table = table.reshape(count, -1) if count else table.reshape(0, 1)
    whole = table.dtype.kind in "biu"
    exact = table.astype(np.int64) if whole else table.astype(np.float64) + 0.0
    hashes = np.zeros(count, np.uint64)
    for column in exact.view(np.uint64).T:
        hashes = _mix(_OWN * hashes + _mix(column + _LABEL))
    return hashes


def _mix(x: Hashes) -> Hashes:
    """The finalizer of splitmix64, a bijection whose output bits look random."""
    x = x ^ (x >> np.uint64(30))
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def _with_data(pattern: csr_array, data: NDArray) -> csr_array:
    """A matrix with the entries of ``pattern`` and other values."""
    return csr_array((data, pattern.indices, pattern.indptr), shape=pattern.shape)


def _numbered(pattern: csr_array) -> csr_array:
    """The entries numbered from 1, so that 0 says that there is none."""
    return _with_data(pattern, np.arange(1, pattern.nnz + 1))


def _values(matrix: csr_array, rows: NDArray, columns: NDArray) -> NDArray:
    """The values at (row, column), 0 where there is no entry."""
    rows, columns = np.broadcast_arrays(rows, columns)
    if not rows.size:  # for which SciPy returns a sparse array
        return np.zeros(rows.shape, matrix.dtype)
    return matrix[rows.ravel(), columns.ravel()].reshape(rows.shape)
