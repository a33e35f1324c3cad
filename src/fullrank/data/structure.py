"""Canonical colours of edges and nodes, computed from the structure around them.

The colour of the pair (v, u) is a 64-bit hash of the subgraph within ``hops`` steps of
v, whose nodes w are marked by their distances from v and from u and then refined by
rounds of the Weisfeiler-Leman test:

    c⁰(w)   = h(base(w), dist(v, w), dist(u, w))
    cᵗ⁺¹(w) = h(cᵗ(w), {{ (label(w, x), cᵗ(x)) : x ∈ N(w), dist(v, x) ≤ hops }})
    color(v, u) = h({{ c(w) : dist(v, w) ≤ hops }}, c(u), base(u), label(v, u))

``base(w)`` is the node's label together with the labels of its edges (its degree when
there are none). Nothing in it depends on the order of nodes or edges, on the machine or
on the process, so isomorphic graphs have the same colours everywhere.

With a third mark, the subgraph is refined once for each of its nodes y, whose distances
join the initial colours, and the results form a multiset:

    c⁰_y(w)     = h(base(w), dist(v, w), dist(u, w), dist(y, w))
    color(v, u) = h({{ r_y : dist(v, y) ≤ hops }}, base(u), label(v, u))
    r_y         = h({{ c_y(w) : dist(v, w) ≤ hops }}, c_y(u), F_y)

A fourth mark is set where it is cheap: on each node z of the smallest class of c_y with
more than one node (ties are broken by the smallest colour), if the class has at most 8
nodes. F_y is then the multiset of the r of the subgraphs that start from h(c_y(w),
dist(z, w)) and are refined again; otherwise it is empty.

A multiset of (label, colour) is hashed as the sum of hash(label) · hash(colour) modulo
2⁶⁴: a polynomial in pseudo-random numbers that differs between multisets.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from fullrank.data.cache import shown
from fullrank.errors import DataError

Hashes = NDArray[np.uint64]
Mark = Literal["center", "pair", "triple", "quadruple"]
MARKS = get_args(Mark)

# One odd number for each part of a hash, so that equal values of different parts
# differ.
(
    _FORWARD,
    _BACKWARD,
    _OWN,
    _TO_V,
    _TO_U,
    _EDGES,
    _AT_U,
    _BASE_U,
    _LABEL,
    _TO_Y,
    _TO_Z,
) = (
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
        0xC6BC279692B5C323,
        0xE7037ED1A0B428DB,
    )
)
# Small enough for the caches, large enough to amortise Python's overhead.
_BLOCK_BYTES = 32 * 2**20
# Measured peaks per member of a ball, its colour for one partner, its edges, its
# distance from the partner and from another member.
_MEMBER_BYTES, _STATE_BYTES, _LINK_BYTES = 64, 40, 80
_DISTANCE_BYTES, _DENSE_BYTES = 28, 48
# Number of colours refined at once for further marks: they fit in the cache.
_REFINED_AT_ONCE, _REFINED_BYTES = 2**16, 64
# The largest class whose nodes get the fourth mark.
_LARGEST_CLASS = 8


class StructuralColors(NamedTuple):
    """The colours of all edges, in input order, and of all nodes."""

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

    Edges point from row 0 of ``edge_index`` (u) to row 1 (v), like messages. The graph
    is treated as undirected, with the direction as part of an edge's label. The colour
    of a node is that of the pair (v, v).

    Args:
        edge_index: The edges, [2, E]; loops and parallel edges are allowed.
        num_nodes: Number of nodes N.
        hops: Radius of the subgraph; 0 for degrees only, None for the whole connected
            component.
        rounds: Number of refinement rounds after marking; by default 4, and 8 for the
            whole component.
        mark: The nodes whose distances are marked: "center" marks v, in one subgraph
            per node; "pair" v and u, in one per edge; "triple" also every other node
            in turn; "quadruple" also a fourth node where there are few to choose from.
        node_labels: Labels of the nodes, [N] or [N, F], compared exactly.
        edge_labels: Labels of the edges, [E] or [E, F].
        memory_limit: Maximum number of bytes for the subgraphs of one node.
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
    if mark not in MARKS:
        raise ValueError(f"mark must be one of {', '.join(MARKS)}, got {mark!r}")
    source, target = np.asarray(edge_index, dtype=np.int64).reshape(2, -1)
    node_hash = hash_rows(node_labels, num_nodes)
    edge_hash = hash_rows(edge_labels, len(source))

    graph = _Graph(source, target, node_hash, edge_hash)
    blocks = _blocks(graph, hops, mark, memory_limit)
    own = np.empty(num_nodes, np.uint64)
    pair = np.empty(graph.adjacency.nnz, np.uint64)
    for block in shown(blocks, len(blocks), "Colouring edges", progress):
        distances = _distances(graph, block, hops, mark)
        for centers in _alike(graph, distances, block, mark):
            own[centers], pair[graph.slots(centers)] = _color(
                graph, distances, centers, rounds, mark
            )
    edge = _mix(pair[graph.slot_of(target, source)] + _LABEL * edge_hash)
    return StructuralColors(edge.view(np.int64), own.view(np.int64))


class _Graph:
    """The undirected graph: one entry for each ordered pair of neighbours."""

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
        # Parallel entries are summed, because their labels form a multiset.
        adjacency = csr_array((labels, (rows, columns)), shape=(self.num_nodes,) * 2)
        adjacency.sum_duplicates()
        # Multiplication by an odd factor is invertible modulo 2⁶⁴.
        adjacency.data = _mix(adjacency.data) | np.uint64(1)
        self.adjacency = adjacency
        self.degree = np.diff(adjacency.indptr)  # [N]
        edges = adjacency @ np.ones(self.num_nodes, np.uint64)
        self.base = _mix(node_hash + _EDGES * edges)  # [N]
        self.links = _with_data(adjacency, np.ones(adjacency.nnz, bool))
        self.one_step = self.links + self.unit_rows(np.arange(self.num_nodes))
        self._slots = _numbered(adjacency)

    def unit_rows(self, nodes: NDArray) -> csr_array:
        """Unit rows: the entry of each of ``nodes`` is the node itself, [R, N]."""
        entries = (np.ones(len(nodes), bool), nodes, np.arange(len(nodes) + 1))
        return csr_array(entries, shape=(len(nodes), self.num_nodes))

    def slots(self, centers: NDArray) -> NDArray:
        """Positions of the pairs of ``centers`` of equal degree: [C, degree]."""
        width = self.degree[centers[0]]
        return self.adjacency.indptr[centers][:, None] + np.arange(width)

    def slot_of(self, v: NDArray, u: NDArray) -> NDArray:
        """Positions of the pairs of neighbours (v, u)."""
        return _values(self._slots, v, u) - 1


class _Distances(NamedTuple):
    """1 + dist(row, node) for some rows, 0 for nodes beyond ``hops``."""

    rows: NDArray  # [R], sorted
    matrix: csr_array  # [R, N]

    def of(self, nodes: NDArray) -> NDArray:
        """The rows of the matrix that belong to ``nodes``."""
        return np.searchsorted(self.rows, nodes)

    def between(self, rows: NDArray, nodes: NDArray) -> Hashes:
        """The entries of the matrix for ``rows`` and ``nodes``, broadcast."""
        return _values(self.matrix, self.of(rows), nodes).astype(np.uint64)


def _distances(
    graph: _Graph, centers: NDArray, hops: int | None, mark: Mark
) -> _Distances:
    """Distances from ``centers`` and from all nodes that are marked with them."""
    if mark == "center":
        return _reached(graph, centers, hops)
    neighbors = graph.adjacency[centers].indices
    if mark == "pair":
        return _reached(graph, np.union1d(centers, neighbors), hops)
    members = _reached(graph, centers, hops).matrix.indices
    return _reached(graph, np.union1d(members, neighbors), hops)


def _reached(graph: _Graph, rows: NDArray, hops: int | None) -> _Distances:
    """Distances from ``rows``.

    A node at distance d is reached in all steps from d on, so the number of steps that
    reach it gives the distance.
    """
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


class _Balls(NamedTuple):
    """The subgraphs of C centres with D neighbours each: M members in total."""

    near: csr_array  # [C, N], one entry per member
    links: csr_array  # [M, M]
    partners: NDArray  # [C, 1 + D], the centre itself and its neighbours
    place: NDArray  # [C, 1 + D], the partner's position among the members, or -1
    rounds: int

    def refined(self, state: Hashes) -> Hashes:
        """Colours of the members, one column per choice of marks: [M, K]."""
        for _ in range(self.rounds):
            around = self.links @ state
            state = _OWN * state
            state += around
            _mix(state, out=state, spare=around)
        return state

    def seen(self, state: Hashes, place: NDArray) -> Hashes:
        """Hash of the colours in each ball, as a multiset, and at u: [C, K]."""
        columns = np.arange(place.shape[1])
        at_u = np.broadcast_to(state, (len(state), len(columns)))[place, columns]
        at_u[place < 0] = 0
        return np.add.reduceat(state, self.near.indptr[:-1], axis=0) + _AT_U * at_u


def _color(
    graph: _Graph, distances: _Distances, centers: NDArray, rounds: int, mark: Mark
) -> tuple[Hashes, Hashes]:
    """Colours of ``centers``, which all have degree D, [C], and their pairs, [C, D]."""
    slots = graph.slots(centers)  # [C, D]
    partners = np.hstack([centers[:, None], graph.adjacency.indices[slots]])
    labels = np.hstack(
        [np.zeros((len(centers), 1), np.uint64), graph.adjacency.data[slots]]
    )
    near = distances.matrix[distances.of(centers)]
    ball = np.repeat(np.arange(len(centers)), np.diff(near.indptr))  # [M]
    state = (graph.base[near.indices] + _TO_V * near.data.astype(np.uint64))[:, None]
    if mark != "center":
        to_u = distances.between(partners[ball], near.indices[:, None])
        state = state + _TO_U * to_u  # [M, 1 + D]
    numbered = _numbered(near)
    place = _values(numbered, np.arange(len(centers))[:, None], partners) - 1
    links = _links(graph, near, ball, numbered)
    balls = _Balls(near, links, partners, place, rounds)
    if mark in ("center", "pair"):
        seen = balls.seen(balls.refined(_mix(state)), place)
    else:
        seen = _third_mark(balls, distances, state, fourth=mark == "quadruple")
    colors = _mix(seen + _BASE_U * graph.base[partners] + _LABEL * labels)
    return colors[:, 0], colors[:, 1:]


def _third_mark(
    balls: _Balls, distances: _Distances, state: Hashes, fourth: bool
) -> Hashes:
    """Hash of the multiset of results with each member marked: [C, 1 + D]."""
    count, width = balls.partners.shape
    members = balls.near.indices.reshape(count, -1)  # [C, n], all of one size
    apart = distances.between(members[:, :, None], members[:, None, :])  # [C, n, n]
    state = state.reshape(*members.shape, width, 1)
    at_once = max(1, _REFINED_AT_ONCE // (state.size or 1))
    total = np.zeros((count, width), np.uint64)
    for first in range(0, members.shape[1], at_once):
        to_y = apart[:, :, None, first : first + at_once]  # [C, n, 1, J]
        marked = _mix(state + _TO_Y * to_y)  # [C, n, 1 + D, J]
        refined = balls.refined(marked.reshape(balls.near.nnz, -1))
        place = np.repeat(balls.place, to_y.shape[-1], axis=1)
        seen = balls.seen(refined, place)
        if fourth:
            seen += _TO_Z * _fourth_mark(balls, apart, refined, place)
        total += _mix(seen).reshape(count, width, -1).sum(axis=-1)
    return total


def _fourth_mark(balls: _Balls, apart: Hashes, state: Hashes, place: NDArray) -> Hashes:
    """Hash of the multiset of results with each node of the class marked: [C, K]."""
    colors = state.reshape(*apart.shape[:2], -1)  # [C, n, K]
    size, color = _smallest_class(colors)
    rank = (colors == color[:, None]).cumsum(axis=1, dtype=np.int32)
    total = np.zeros_like(color)
    for number in range(1, _LARGEST_CLASS + 1):
        wanted = size >= number  # [C, K]
        columns = np.flatnonzero(wanted.any(axis=0))
        if not len(columns):
            break
        z = (rank[:, :, columns] >= number).argmax(axis=1)  # [C, k]
        to_z = np.take_along_axis(apart, z[:, None], axis=2)  # [C, n, k]
        marked = _mix(colors[:, :, columns] + _TO_Z * to_z)
        refined = balls.refined(marked.reshape(len(state), -1))
        seen = _mix(balls.seen(refined, place[:, columns]))
        total[:, columns] += np.where(wanted[:, columns], seen, np.uint64(0))
    return total


def _smallest_class(colors: Hashes) -> tuple[NDArray, Hashes]:
    """Size and colour of the smallest class of more than one node: [C, K].

    Ties are broken by the smallest colour. The size is 0 if there is no such class of
    at most `_LARGEST_CLASS` nodes.
    """
    count = colors.shape[1]
    ordered = np.sort(colors, axis=1)  # [C, n, K]
    number = np.arange(count, dtype=np.int32)[:, None]
    new = np.ones(ordered.shape, bool)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=new[:, 1:])
    begin = np.where(new, number, count)
    following = np.minimum.accumulate(begin[:, :0:-1], axis=1)[:, ::-1]
    size = np.full(ordered.shape, count + 1, np.int32)
    size[:, :-1] = following - number[:-1]
    size[:, -1] = 1
    size[~new | (size < 2)] = count + 1
    which = size.argmin(axis=1)[:, None]  # [C, 1, K], the first of the smallest
    smallest = np.take_along_axis(size, which, axis=1)[:, 0]
    smallest[smallest > min(count, _LARGEST_CLASS)] = 0
    return smallest, np.take_along_axis(ordered, which, axis=1)[:, 0]


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
    """Ranges of consecutive nodes whose subgraphs fit into the memory of a block."""
    if not graph.num_nodes:
        return []
    members, edges = _ball_bounds(graph, hops, np.ones(graph.num_nodes), graph.degree)
    size = members * (_MEMBER_BYTES + _STATE_BYTES) + edges * _LINK_BYTES
    if mark != "center":
        size += members * graph.degree * _STATE_BYTES
        size += graph.links @ members * _DISTANCE_BYTES
    if mark in ("triple", "quadruple"):
        (reached,) = _ball_bounds(graph, hops, members)
        size += reached * _DISTANCE_BYTES + members**2 * _DENSE_BYTES
    worst = int(size.argmax())
    shared = 0 if mark in ("center", "pair") else _REFINED_AT_ONCE * _REFINED_BYTES
    if size[worst] + shared > memory_limit:
        needed = (size[worst] + shared) / 2**30
        raise DataError(
            f"node {worst} with {graph.degree[worst]} neighbours needs up to "
            f"{needed:.2g} GiB for its subgraphs of {members[worst]:.0f} "
            f"nodes, more than memory_limit={memory_limit / 2**30:.2g} GiB; use fewer "
            "hops, fewer marks or a higher limit"
        )
    block = np.cumsum(size) // min(_BLOCK_BYTES, memory_limit)
    return np.split(np.arange(graph.num_nodes), np.flatnonzero(np.diff(block)) + 1)


def _ball_bounds(graph: _Graph, hops: int | None, *weights: NDArray) -> NDArray:
    """Upper bounds of the sums of weights over the nodes within ``hops`` of each node.

    The ball around v is the union of v and its neighbours' balls, one hop smaller;
    those of at least one hop contain v, which is counted once.
    """
    weight = np.stack(weights)  # [W, N]
    _, component = connected_components(graph.links, directed=False)
    whole = np.stack([np.bincount(component, row)[component] for row in weight])
    bound = whole if hops is None else weight
    for hop in range(hops or 0):
        again = graph.degree * weight if hop else 0
        bound = np.minimum(weight + bound @ graph.links - again, whole)
    return bound


def _alike(
    graph: _Graph, distances: _Distances, block: NDArray, mark: Mark
) -> Iterator[NDArray]:
    """Group the nodes of a block that are coloured at once.

    Nodes of a group have the same degree and, if members are marked, the same number of
    members.
    """
    degree = graph.degree[block]
    size = np.zeros_like(degree)
    if mark in ("triple", "quadruple"):
        size = np.diff(distances.matrix.indptr)[distances.of(block)]
    order = np.lexsort((size, degree))
    ends = np.flatnonzero(np.diff(degree[order]) | np.diff(size[order])) + 1
    for group in np.split(order, ends):
        states = int(size[group[0]] ** 2 * (1 + degree[group[0]]))
        at_once = max(1, _REFINED_AT_ONCE // states) if states else len(group)
        for first in range(0, len(group), at_once):
            yield block[group[first : first + at_once]]


def hash_rows(rows: ArrayLike | None, count: int) -> Hashes:
    """Hash each of ``count`` rows of numbers; without rows, all hashes are equal.

    Integers are compared as int64 and other numbers as float64, -0.0 as 0.0.
    """
    if rows is None:
        return np.zeros(count, np.uint64)
    table = np.asarray(rows)
    if len(table) != count:
        raise ValueError(
            f"labels must have {count} rows, one per node or edge, got {len(table)}"
        )
    table = table.reshape(count, -1) if count else table.reshape(0, 1)
    whole = table.dtype.kind in "biu"
    exact = table.astype(np.int64) if whole else table.astype(np.float64) + 0.0
    hashes = np.zeros(count, np.uint64)
    for column in exact.view(np.uint64).T:
        hashes = _mix(_OWN * hashes + _mix(column + _LABEL))
    return hashes


def _mix(x: Hashes, out: Hashes | None = None, spare: Hashes | None = None) -> Hashes:
    """The finaliser of splitmix64, a bijection with pseudo-random output bits."""
    spare = np.right_shift(x, np.uint64(30), out=spare)
    x = np.bitwise_xor(x, spare, out=out)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= np.right_shift(x, np.uint64(27), out=spare)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= np.right_shift(x, np.uint64(31), out=spare)
    return x


def _with_data(pattern: csr_array, data: NDArray) -> csr_array:
    """A matrix with the sparsity pattern of ``pattern`` and other values."""
    return csr_array((data, pattern.indices, pattern.indptr), shape=pattern.shape)


def _numbered(pattern: csr_array) -> csr_array:
    """The entries numbered from 1, so that 0 means no entry."""
    return _with_data(pattern, np.arange(1, pattern.nnz + 1))


def _values(matrix: csr_array, rows: NDArray, columns: NDArray) -> NDArray:
    """The values at (row, column), 0 where there is no entry."""
    rows, columns = np.broadcast_arrays(rows, columns)
    if not rows.size:  # for which SciPy returns a sparse array
        return np.zeros(rows.shape, matrix.dtype)
    return matrix[rows.ravel(), columns.ravel()].reshape(rows.shape)
