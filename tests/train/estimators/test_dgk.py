from itertools import combinations

import networkx as nx
import numpy as np

from fullrank.train.estimators.dgk import classify, graphlet_classes

PAIRS = list(combinations(range(5), 2))


def graph_of(code):
    graph = nx.empty_graph(5)
    graph.add_edges_from(pair for k, pair in enumerate(PAIRS) if code >> k & 1)
    return graph


def test_there_are_34_graphs_on_five_nodes():
    classes = graphlet_classes()
    assert len(np.unique(classes)) == 34
    codes = np.random.default_rng(0).integers(1024, size=(200, 2))
    for one, other in codes.tolist():
        same = classes[one] == classes[other]
        assert same == nx.is_isomorphic(graph_of(one), graph_of(other))


def test_induced_subgraphs():
    graph = nx.gnp_random_graph(12, 0.4, seed=0)
    adjacent = nx.to_numpy_array(graph, dtype=bool)
    nodes = np.array(list(combinations(range(12), 5)))[::40]
    found = classify(adjacent, nodes)
    for (one, first), (other, second) in combinations(
        zip(nodes, found, strict=True), 2
    ):
        same = nx.is_isomorphic(graph.subgraph(one), graph.subgraph(other))
        assert same == (first == second)
