"""Graphs that the Weisfeiler-Leman test does not distinguish, as networkx graphs."""

from collections.abc import Iterable, Sequence
from itertools import combinations, product

import networkx as nx

#: The two Latin squares of order 5, up to their symmetries: the cyclic group, and one
#: that is not a group.
LATIN_SQUARES = (
    ("01234", "12340", "23401", "34012", "40123"),
    ("01234", "10342", "23410", "34021", "42103"),
)


def cfi_pair(base: nx.Graph) -> tuple[nx.Graph, nx.Graph]:
    """The two graphs of Cai, Fürer and Immerman (1992) over a connected base graph.

    Each node v of the base becomes a gadget with one node (v, S) for every set S of an
    even number of edges at v. An edge e = uv of the base joins (u, S) and (v, T) if e
    is in both sets or in neither. In the second graph one edge of the base is twisted:
    it joins (u, S) and (v, T) if e is in exactly one of them. Which edge is twisted
    does not matter, and two twists cancel.

    No isomorphism between the two maps gadgets to gadgets. Over a base of treewidth k,
    the (k-1)-dimensional folklore Weisfeiler-Leman test does not distinguish them, so
    1-WL does not if the base has a cycle. Over a cycle they are two cycles and one of
    twice the length; over the complete graph of four nodes they are :func:`rook_graph`
    and :func:`shrikhande_graph`.

    Returns:
        The untwisted and the twisted graph, with nodes numbered from 0.
    """
    if type(base) is not nx.Graph or nx.number_of_selfloops(base):
        raise ValueError(f"the base must be a simple undirected graph, got {base}")
    if not base.edges or not nx.is_connected(base):
        raise ValueError(f"the base must be connected and have an edge, got {base}")
    return _cfi(base, None), _cfi(base, next(iter(base.edges)))


def _cfi(base: nx.Graph, twisted: tuple | None) -> nx.Graph:
    gadgets = {v: _even_subsets(map(frozenset, base.edges(v))) for v in base}
    graph = nx.Graph()
    graph.add_nodes_from((v, subset) for v in base for subset in gadgets[v])
    for u, v in base.edges:
        edge = frozenset((u, v))
        for one, other in product(gadgets[u], gadgets[v]):
            agree = (edge in one) == (edge in other)
            if agree != ((u, v) == twisted):
                graph.add_edge((u, one), (v, other))
    return nx.convert_node_labels_to_integers(graph)


def _even_subsets(items: Iterable) -> list[frozenset]:
    items = list(items)
    sizes = range(0, len(items) + 1, 2)
    return [frozenset(chosen) for size in sizes for chosen in combinations(items, size)]


def rook_graph(n: int = 4) -> nx.Graph:
    """The squares of an n × n chessboard, joined if they share a row or a column.

    Strongly regular with parameters (n², 2(n-1), n-2, 2).
    """
    return nx.line_graph(nx.complete_bipartite_graph(n, n))


def shrikhande_graph() -> nx.Graph:
    """A 4 × 4 torus with its diagonals; strongly regular (16, 6, 2, 2) like the rook's
    graph of order 4, in which, unlike here, common neighbours are joined."""
    steps = [(0, 1), (1, 0), (1, 1)]
    edges = [
        ((i, j), ((i + di) % 4, (j + dj) % 4))
        for i, j in product(range(4), repeat=2)
        for di, dj in steps
    ]
    return nx.Graph(edges)


def latin_square_graph(square: Sequence[Sequence]) -> nx.Graph:
    """The cells of a Latin square, joined if they share a row, a column or a symbol.

    Strongly regular with parameters (n², 3(n-1), n, 6).
    """
    cells = [
        (row, column, symbol)
        for row, symbols in enumerate(square)
        for column, symbol in enumerate(symbols)
    ]
    graph = nx.Graph()
    graph.add_nodes_from(cells)
    graph.add_edges_from(
        (one, other)
        for one, other in combinations(cells, 2)
        if any(a == b for a, b in zip(one, other, strict=True))
    )
    return graph


def chang_graphs() -> list[nx.Graph]:
    """The triangular graph T(8) and the three Chang graphs: all that are strongly
    regular (28, 12, 6, 4).

    The nodes of T(8) are the edges of K₈. The others are obtained from it by Seidel
    switching with respect to four disjoint edges, an 8-cycle, and the disjoint union of
    a triangle and a 5-cycle.
    """
    triangular = nx.line_graph(nx.complete_graph(8))
    switching_sets: list[list[tuple[int, int]]] = [
        [(0, 1), (2, 3), (4, 5), (6, 7)],
        [*nx.cycle_graph(8).edges],
        [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (5, 6), (6, 7), (3, 7)],
    ]
    return [triangular, *(_switch(triangular, set(s)) for s in switching_sets)]


def _switch(graph: nx.Graph, nodes: set) -> nx.Graph:
    """Exchange edges and non-edges between some nodes and all others."""
    switched = graph.copy()
    for one, other in product(nodes, set(graph) - nodes):
        if graph.has_edge(one, other):
            switched.remove_edge(one, other)
        else:
            switched.add_edge(one, other)
    return switched


def decalin() -> nx.Graph:
    """The carbon skeleton of decalin: two hexagons that share an edge."""
    return nx.Graph([*nx.cycle_graph(10).edges, (0, 5)])


def bicyclopentyl() -> nx.Graph:
    """The carbon skeleton of bicyclopentyl: two pentagons joined by an edge."""
    graph = nx.disjoint_union(nx.cycle_graph(5), nx.cycle_graph(5))
    graph.add_edge(0, 5)
    return graph
