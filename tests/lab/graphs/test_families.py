from collections import Counter
from itertools import combinations

import networkx as nx
import pytest
from networkx.generators.atlas import graph_atlas_g

from fullrank.lab.graphs.families import (
    LATIN_SQUARES,
    bicyclopentyl,
    cfi_pair,
    chang_graphs,
    decalin,
    latin_square_graph,
    rook_graph,
    shrikhande_graph,
)


def strongly_regular_parameters(graph):
    """(n, k, λ, μ) by counting common neighbours, if they are the same everywhere."""
    (k,) = {degree for _, degree in graph.degree}
    (joined,) = {len({*graph[u]} & {*graph[v]}) for u, v in graph.edges}
    (apart,) = {len({*graph[u]} & {*graph[v]}) for u, v in nx.non_edges(graph)}
    return len(graph), k, joined, apart


def cliques(graph):
    """How many maximal cliques of each size there are: equal in isomorphic graphs."""
    return Counter(map(len, nx.find_cliques(graph)))


def wl_hash(graph):
    return nx.weisfeiler_lehman_graph_hash(graph, iterations=len(graph))


def test_rooks_and_shrikhande_graph():
    rook, shrikhande = rook_graph(4), shrikhande_graph()
    for graph in (rook, shrikhande):
        assert strongly_regular_parameters(graph) == (16, 6, 2, 2)
    assert not nx.is_isomorphic(rook, shrikhande)
    assert strongly_regular_parameters(rook_graph(5)) == (25, 8, 3, 2)


def test_latin_square_graphs():
    for square in LATIN_SQUARES:
        for line in [*square, *zip(*square, strict=True)]:
            assert sorted(line) == [*"01234"]
    cyclic, other = map(latin_square_graph, LATIN_SQUARES)
    graphs = [cyclic, other, nx.complement(other)]
    for graph in graphs:
        assert strongly_regular_parameters(graph) == (25, 12, 5, 6)
    for one, two in combinations(graphs, 2):
        assert cliques(one) != cliques(two)
    three = latin_square_graph(["012", "120", "201"])
    assert nx.is_isomorphic(three, nx.complete_multipartite_graph(3, 3, 3))


def test_chang_graphs():
    graphs = chang_graphs()
    for graph in graphs:
        assert strongly_regular_parameters(graph) == (28, 12, 6, 4)
    for one, two in combinations(graphs, 2):
        assert cliques(one) != cliques(two)


def test_decalin_and_bicyclopentyl():
    rings = [
        sorted(map(len, nx.minimum_cycle_basis(molecule())))
        for molecule in (decalin, bicyclopentyl)
    ]
    assert rings == [[6, 6], [5, 5]]
    assert wl_hash(decalin()) == wl_hash(bicyclopentyl())
    assert max(degree for _, degree in decalin().degree) == 3


@pytest.mark.parametrize("n", [3, 4, 7])
def test_over_a_cycle_cfi_graphs_are_cycles(n):
    untwisted, twisted = cfi_pair(nx.cycle_graph(n))
    two_cycles = nx.disjoint_union(nx.cycle_graph(n), nx.cycle_graph(n))
    assert nx.is_isomorphic(untwisted, two_cycles)
    assert nx.is_isomorphic(twisted, nx.cycle_graph(2 * n))


def test_over_four_joined_nodes_cfi_graphs_are_rooks_and_shrikhande_graph():
    untwisted, twisted = cfi_pair(nx.complete_graph(4))
    assert nx.is_isomorphic(untwisted, rook_graph(4))
    assert nx.is_isomorphic(twisted, shrikhande_graph())


def test_over_five_joined_nodes_only_one_cfi_graph_has_cliques_of_five():
    untwisted, twisted = cfi_pair(nx.complete_graph(5))
    assert cliques(untwisted) == {5: 64}
    assert cliques(twisted) == {4: 320}


def test_1wl_confuses_all_small_cfi_graphs_and_they_are_not_isomorphic():
    bases = [g for g in graph_atlas_g() if 3 <= len(g) <= 5 and nx.is_connected(g)]
    with_a_cycle = [base for base in bases if not nx.is_tree(base)]
    assert len(with_a_cycle) == 1 + 4 + 18
    for base in with_a_cycle:
        one, two = cfi_pair(base)
        assert len(one) == sum(2 ** (degree - 1) for _, degree in base.degree)
        assert wl_hash(one) == wl_hash(two)
        assert cliques(one) != cliques(two) or not nx.is_isomorphic(one, two)


def test_which_edge_is_twisted_does_not_matter():
    prism = nx.circular_ladder_graph(3)
    rotated = nx.Graph([*prism.edges][::-1])
    assert next(iter(rotated.edges)) != next(iter(prism.edges))
    assert nx.is_isomorphic(cfi_pair(prism)[1], cfi_pair(rotated)[1])


@pytest.mark.parametrize(
    "base",
    [
        nx.Graph(),
        nx.empty_graph(1),
        nx.empty_graph(2),
        nx.Graph([(0, 0), (0, 1)]),
        nx.DiGraph([(0, 1)]),
        nx.MultiGraph([(0, 1)]),
    ],
)
def test_bases_must_be_simple_and_connected(base):
    with pytest.raises(ValueError, match="base"):
        cfi_pair(base)
