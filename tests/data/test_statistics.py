import networkx as nx
import numpy as np
import pytest

from fullrank.data import from_graphs
from fullrank.data.statistics import is_undirected, statistics


def dataset(*graphs: nx.Graph):
    for number, graph in enumerate(graphs):
        graph.graph["y"] = float(number)
    return from_graphs(graphs)


def test_numbers_are_networkxs():
    graphs = [nx.gnp_random_graph(n, 0.4, seed=n) for n in (5, 9, 14)]
    graphs[1].add_edge(2, 2)
    found = statistics(dataset(*graphs))
    assert found.undirected
    assert found.self_loops == 1
    assert found.mean_nodes == pytest.approx(28 / 3)
    edges = sum(graph.number_of_edges() for graph in graphs)
    assert found.mean_edges == pytest.approx(edges / 3)
    for graph in graphs:
        graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    degrees = np.concatenate([[d for _, d in graph.degree] for graph in graphs])
    expected = degrees.copy()
    expected[5 + 2] += 1  # the loop comes in once
    assert found.degrees.tolist() == np.bincount(expected).tolist()


def test_direction_is_noticed():
    assert is_undirected(dataset(nx.path_graph(4)).graphs)
    one_way = nx.DiGraph([(0, 1), (1, 2), (2, 0)])
    assert not is_undirected(dataset(nx.path_graph(4), one_way).graphs)


def test_targets_ignore_missing_values():
    graphs = [nx.path_graph(2) for _ in range(3)]
    for graph, y in zip(
        graphs, ([1.0, np.nan], [3.0, np.nan], [np.nan] * 2), strict=True
    ):
        graph.graph["y"] = y
    first, second = statistics(from_graphs(graphs)).targets
    assert (first.mean, first.std, first.missing) == (2, 1, 1)
    assert second.missing == 3
    assert np.isnan(second.mean)
