"""Numbers that describe the structure around a pair of neighbours.

Hashed colours show only whether two pairs are exactly alike; these numbers also show
whether they are similar, so a network can generalise from them. For a pair (v, u) they
are, in this order:

* (P^k)_vu for k = 1, …, ``walk_length``, the probability that a random walk from v is
  at u after k steps, with P = D⁻¹A;
* the distance between v and u;
* log(1 + the number of their common neighbours);
* 1 if the edge is in a ring of at most ``max_ring`` nodes, otherwise 0;
* 1 / the size of the smallest such ring, otherwise 0;
* the effective resistance between v and u, where every edge is a unit resistor.

For the pair (v, v) the distance and the resistance are 0, the common neighbours are the
neighbours of v, and the ring is the smallest one through v. Graphs are treated as
undirected, loops are ignored, and parallel edges count once.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from fullrank.data.cache import shown
from fullrank.errors import DataError

NUM_OTHERS = 5  # numbers besides those of the walks
_BLOCK_BYTES = 32 * 2**20
# A component of n nodes needs n² numbers each for the adjacency, P, its power and the
# next one, and the resistances.
_MATRICES = 6
_ENTRY_BYTES = 27  # of the sparse rows of a search: visited, front and next front


class ContinuousStructure(NamedTuple):
    """The numbers of all edges, in input order, and of all nodes."""

    edge: NDArray[np.float64]  # [E, walk_length + 5]
    node: NDArray[np.float64]  # [N, walk_length + 5]


def continuous_structure(
    edge_index: ArrayLike,
    num_nodes: int,
    *,
    walk_length: int = 8,
    max_ring: int = 8,
    memory_limit: int = 2**30,
    progress: bool = False,
) -> ContinuousStructure:
    """Describe every edge and node of a graph, or of a disjoint union of graphs.

    Edges point from row 0 of ``edge_index`` (u) to row 1 (v), like messages.

    Args:
        edge_index: The edges, [2, E]; loops and parallel edges are allowed.
        num_nodes: Number of nodes N.
        walk_length: Number of steps of the longest random walk.
        max_ring: Maximum size of the rings that are detected.
        memory_limit: Maximum number of bytes for the matrices of one component.
        progress: Whether to show a progress bar.

    Raises:
        DataError: If the matrices of a component need more than ``memory_limit``.
    """
    if walk_length < 1:
        raise ValueError(f"walk_length must be at least 1, got {walk_length}")
    if max_ring < 3:
        raise ValueError(f"max_ring must be at least 3, got {max_ring}")
    source, target = np.asarray(edge_index, dtype=np.int64).reshape(2, -1)
    graph = _simple(source, target, num_nodes)
    v = np.repeat(np.arange(num_nodes), np.diff(graph.indptr))  # of each entry
    u = graph.indices
    pair = np.zeros((graph.nnz, walk_length + NUM_OTHERS))
    node = np.zeros((num_nodes, walk_length + NUM_OTHERS))
    _, component = connected_components(graph, directed=False)
    blocks = [*_components(component, memory_limit)]
    for members in shown(blocks, len(blocks), "Describing edges", progress):
        _fill_dense(graph, members, walk_length, pair, node)
    pair[:, walk_length] = 1
    pair[:, walk_length + 1] = np.log1p(_at(graph @ graph, v, u))
    node[:, walk_length + 1] = np.log1p(np.diff(graph.indptr))
    reached = np.bincount(component)[component[v]]  # at most, in a search for rings
    size = _ring_sizes(graph, v, max_ring, reached)  # [nnz], 0 for none
    inverse = np.divide(1, size, out=np.zeros(len(size)), where=size > 0)
    largest = np.zeros(num_nodes)
    np.maximum.at(largest, v, inverse)
    for rows, found in ((pair, inverse), (node, largest)):
        rows[:, walk_length + 2] = found > 0
        rows[:, walk_length + 3] = found
    numbered = _with_data(graph, np.arange(1, graph.nnz + 1))
    slot = num_nodes - 1 + _at(numbered, target, source)  # after those of the nodes
    rows = np.concatenate([node, pair])
    edge = rows[np.where(source == target, target, slot)]
    return ContinuousStructure(edge, node)


def _simple(source: NDArray, target: NDArray, num_nodes: int) -> csr_array:
    """The graph in both directions, without loops, with each edge once: [N, N]."""
    proper = source != target
    rows = np.concatenate([target[proper], source[proper]])
    columns = np.concatenate([source[proper], target[proper]])
    shape = (num_nodes, num_nodes)
    graph = csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    graph.sum_duplicates()
    graph.data[:] = 1
    return graph


def _components(component: NDArray, memory_limit: int) -> Iterator[NDArray]:
    """The nodes of the components, grouped by their size: [C, n]."""
    order = np.argsort(component, kind="stable")
    size = np.bincount(component)
    first = np.cumsum(size) - size
    for n in np.unique(size):
        needed = int(n) ** 2 * 8 * _MATRICES
        if needed > memory_limit:
            raise DataError(
                f"a component of {n} nodes needs {needed / 2**30:.2g} GiB for its "
                f"matrices, more than memory_limit={memory_limit / 2**30:.2g} GiB; "
                "continuous structure supports only smaller graphs"
            )
        starts = first[size == n]
        at_once = max(1, min(_BLOCK_BYTES, memory_limit) // needed)
        for begin in range(0, len(starts), at_once):
            yield order[starts[begin : begin + at_once, None] + np.arange(n)]


def _fill_dense(
    graph: csr_array,
    members: NDArray,
    walk_length: int,
    pair: NDArray,
    node: NDArray,
) -> None:
    """Fill in the walks and resistances of components of one size, [C, n]."""
    count, n = members.shape
    if n == 1:
        return
    place = np.zeros(graph.shape[0], np.int64)
    place[members] = np.arange(n)
    degree = np.diff(graph.indptr)[members]  # [C, n]
    slots = _slots(graph, members.ravel())
    c = np.repeat(np.arange(count), degree.sum(axis=1))
    v = np.repeat(np.tile(np.arange(n), count), degree.ravel())
    u = place[graph.indices[slots]]
    adjacency = np.zeros((count, n, n))
    adjacency[c, v, u] = 1
    walk = step = adjacency / degree[:, :, None]
    diagonal = np.arange(n)
    for k in range(walk_length):
        pair[slots, k] = walk[c, v, u]
        node[members, k] = walk[:, diagonal, diagonal]
        walk = walk @ step
    # The Laplacian of a connected graph is singular only on constant vectors.
    laplacian = degree[:, :, None] * np.eye(n) - adjacency
    green = np.linalg.inv(laplacian + 1 / n)
    own = green[:, diagonal, diagonal]
    pair[slots, -1] = own[c, v] + own[c, u] - 2 * green[c, v, u]


def _ring_sizes(
    graph: csr_array, v: NDArray, largest: int, reached: NDArray
) -> NDArray:
    """The size of the smallest ring through each edge (v, u), 0 for none: [nnz].

    A search from v that omits its edge to u and never returns to v.
    """
    size = np.zeros(graph.nnz, np.int64)
    links = _with_data(graph, np.ones(graph.nnz, bool))
    number = np.cumsum(reached * _ENTRY_BYTES) // _BLOCK_BYTES
    for block in np.split(np.arange(graph.nnz), np.flatnonzero(np.diff(number)) + 1):
        open_, u = block, graph.indices[block]
        begin = _rows_of_ones(v[block], graph.shape[0])
        end = _rows_of_ones(u, graph.shape[0])
        front = _without(links[v[block]], end)
        met = begin + front
        for step in range(2, largest):
            front = _without(front @ links, met)
            found = _at(front, np.arange(len(open_)), u).astype(bool)
            size[open_[found]] = step + 1
            going = ~found & (np.diff(front.indptr) > 0)
            if not going.any():
                break
            open_, u, met, front = open_[going], u[going], met[going], front[going]
            met = met + front
    return size


def _without(front: csr_array, met: csr_array) -> csr_array:
    """The entries of ``front`` that are not in ``met``."""
    left = front > met
    left.eliminate_zeros()
    return left


def _rows_of_ones(nodes: NDArray, num_nodes: int) -> csr_array:
    entries = (np.ones(len(nodes), bool), nodes, np.arange(len(nodes) + 1))
    return csr_array(entries, shape=(len(nodes), num_nodes))


def _slots(graph: csr_array, nodes: NDArray) -> NDArray:
    """Positions of the entries of the rows of ``nodes``, row by row."""
    degree = np.diff(graph.indptr)[nodes]
    begin = np.repeat(graph.indptr[nodes] - np.cumsum(degree) + degree, degree)
    return begin + np.arange(len(begin))


def _with_data(pattern: csr_array, data: NDArray) -> csr_array:
    """A matrix with the sparsity pattern of ``pattern`` and other values."""
    return csr_array((data, pattern.indices, pattern.indptr), shape=pattern.shape)


def _at(matrix: csr_array, rows: NDArray, columns: NDArray) -> NDArray:
    """The entries at (row, column)."""
    return matrix[rows, columns] if len(rows) else np.zeros(0, matrix.dtype)
