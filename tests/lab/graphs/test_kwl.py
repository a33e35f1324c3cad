from collections import Counter
from itertools import combinations, product

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from networkx.generators.atlas import graph_atlas_g
from torch_geometric.data import Data

from fullrank.errors import ConfigError
from fullrank.lab import cfi_pair, wl_level
from fullrank.lab.graphs import families
from fullrank.lab.graphs.pairs import as_data, relabel


def plain_folklore(graphs, k):
    """k-FWL with tuples and Counters, as the definition reads."""
    colors = []
    for graph in graphs:
        colors.append(
            {
                nodes: tuple(
                    (nodes[i] == nodes[j], graph.has_edge(nodes[i], nodes[j]))
                    for i, j in product(range(k), repeat=2)
                )
                for nodes in product(graph, repeat=k)
            }
        )
    for _ in range(max(map(len, graphs)) ** k):
        refined = []
        for graph, color in zip(graphs, colors, strict=True):
            refined.append(
                {
                    nodes: (
                        color[nodes],
                        frozenset(
                            Counter(
                                tuple(
                                    color[(*nodes[:i], w, *nodes[i + 1 :])]
                                    for i in range(k)
                                )
                                for w in graph
                            ).items()
                        ),
                    )
                    for nodes in color
                }
            )
        names = {
            c: i for i, c in enumerate({c for one in refined for c in one.values()})
        }
        before = len({c for one in colors for c in one.values()})
        colors = [{t: names[c] for t, c in one.items()} for one in refined]
        if len(names) == before:
            break
    first, second = (Counter(one.values()) for one in colors)
    return first != second


def cycles(*lengths):
    return nx.disjoint_union_all([nx.cycle_graph(n) for n in lengths])


@pytest.mark.parametrize(
    ("pair", "folklore", "oblivious"),
    [
        ((nx.path_graph(4), nx.star_graph(3)), 1, 1),
        ((nx.path_graph(4), nx.path_graph(5)), 1, 1),
        ((cycles(3, 3), cycles(6)), 2, 3),
        ((families.decalin(), families.bicyclopentyl()), 2, 3),
        ((families.rook_graph(4), families.shrikhande_graph()), 3, 4),
        (cfi_pair(nx.cycle_graph(5)), 2, 3),
        (cfi_pair(nx.ladder_graph(3)), 2, 3),
        (cfi_pair(nx.complete_graph(4)), 3, 4),
        (tuple(families.chang_graphs()[:2]), 3, 4),
    ],
)
def test_known_graphs(pair, folklore, oblivious):
    level = wl_level(*pair)
    assert (level.folklore, level.oblivious) == (folklore, oblivious)
    assert level.isomorphic is False


@pytest.mark.slow
def test_no_test_up_to_three_tells_the_cfi_graphs_of_treewidth_four_apart():
    level = wl_level(*cfi_pair(nx.complete_graph(5)))
    assert (level.folklore, level.tested) == (None, 3)


def hard_pairs():
    """Pairs of small graphs of equal degrees, some of which 1-WL confuses."""
    by_degrees = {}
    for graph in graph_atlas_g():
        if len(graph) <= 6:
            key = tuple(sorted(degree for _, degree in graph.degree))
            by_degrees.setdefault(key, []).append(graph)
    return [p for same in by_degrees.values() for p in combinations(same, 2)]


@given(st.sampled_from(hard_pairs()))
def test_small_graphs_agree_with_the_definition(pair):
    level = wl_level(*pair, highest=2)
    # The definition with k = 1 is colour refinement over non-neighbours too.
    if level.folklore == 1:
        assert plain_folklore(pair, 2)
    else:
        assert (level.folklore == 2) == plain_folklore(pair, 2)


@given(st.sampled_from([g for g in graph_atlas_g() if len(g)]), st.integers(0, 100))
def test_a_relabeled_copy_is_the_same_graph(graph, seed):
    data = as_data(graph)
    copy = relabel(data, torch.Generator().manual_seed(seed))
    level = wl_level(data, copy)
    assert level.folklore is None
    assert level.isomorphic


def test_features_are_colours():
    one, other = as_data(nx.path_graph(3)), as_data(nx.path_graph(3))
    one.x = torch.tensor([[1.0], [0.0], [0.0]])
    other.x = torch.tensor([[0.0], [1.0], [0.0]])
    level = wl_level(one, other)
    assert (level.folklore, level.rounds) == (1, 1)
    # One double bond in a ring of six, at an atom or beside it.
    ring, moved = as_data(nx.cycle_graph(6)), as_data(nx.cycle_graph(6))
    for graph, atom in ((ring, 0), (moved, 2)):
        graph.x[atom] = 2
        ends = graph.edge_index.sort(dim=0).values
        double = (ends[0] == 0) & (ends[1] == 1)
        graph.edge_attr = double.float()[:, None]
    assert wl_level(ring, moved).folklore == 1


def test_how_long_the_refinement_takes():
    """The ends of two long paths differ; the middle hears of it late."""
    long = nx.disjoint_union(nx.path_graph(9), nx.path_graph(3))
    other = nx.disjoint_union(nx.path_graph(8), nx.path_graph(4))
    assert wl_level(long, other).rounds == 2
    with pytest.raises(ConfigError, match="4"):
        wl_level(long, other, highest=4)


def test_isolated_nodes_count_in_graphs_without_features():
    """Edges alone do not show them: two nodes, joined or not."""
    joined = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    apart = Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=2)
    assert wl_level(joined, apart).folklore == 1
    assert wl_level(apart, apart).isomorphic
    one, other = (
        Data(edge_index=torch.tensor([[0, end], [end, 0]]), num_nodes=5)
        for end in (1, 4)
    )
    assert wl_level(one, other).isomorphic


def test_directions_and_parallel_edges_of_networkx_graphs_are_read():
    path, fork = nx.DiGraph([(0, 1), (1, 2)]), nx.DiGraph([(0, 1), (2, 1)])
    assert wl_level(path, fork).isomorphic is False
    double_edge = nx.MultiGraph([(0, 1), (0, 1), (1, 2)])
    assert wl_level(double_edge, nx.path_graph(3)).isomorphic is False
