import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fullrank.data.pair_structure import continuous_structure
from fullrank.errors import DataError
from fullrank.lab.graphs.families import decalin, shrikhande_graph

WALKS = 4


@st.composite
def graphs(draw):
    """Edges in one or both directions, with loops, copies and isolated nodes."""
    num_nodes = draw(st.integers(1, 9))
    node = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=16))
    return edges, num_nodes


def described(edges, num_nodes, **options):
    index = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    return continuous_structure(index, num_nodes, walk_length=WALKS, **options)


def expected(graph, v, u, max_ring):
    """The row of a pair by networkx and dense matrices."""
    adjacency = nx.to_numpy_array(graph, nodelist=range(len(graph)))
    degree = adjacency.sum(axis=1)
    step = adjacency / np.maximum(degree, 1)[:, None]
    walks = [np.linalg.matrix_power(step, k)[v, u] for k in range(1, WALKS + 1)]
    if v == u:
        size = min((ring(graph, v, w) for w in graph[v]), default=np.inf)
        others = [0, np.log1p(degree[v]), size, 0]
    else:
        component = graph.subgraph(nx.node_connected_component(graph, v))
        common = len([*nx.common_neighbors(graph, v, u)])
        resistance = nx.resistance_distance(component, v, u)
        others = [1, np.log1p(common), ring(graph, v, u), resistance]
    size = others[2] if others[2] <= max_ring else np.inf
    return [*walks, *others[:2], float(size < np.inf), 1 / size, others[3]]


def ring(graph, v, u):
    without = graph.copy()
    without.remove_edge(v, u)
    try:
        return 1 + nx.shortest_path_length(without, v, u)
    except nx.NetworkXNoPath:
        return np.inf


def simple(edges, num_nodes):
    graph = nx.Graph((u, v) for u, v in edges if u != v)
    graph.add_nodes_from(range(num_nodes))
    return graph


@settings(deadline=None, max_examples=60)
@given(graphs(), st.sampled_from([3, 4, 8]))
def test_agrees_with_networkx_and_dense_matrices(given_graph, max_ring):
    edges, num_nodes = given_graph
    graph = simple(edges, num_nodes)
    found = described(edges, num_nodes, max_ring=max_ring)
    assert found.edge.shape == (len(edges), WALKS + 5)
    for row, (u, v) in zip(found.edge, edges, strict=True):
        np.testing.assert_allclose(row, expected(graph, v, u, max_ring), atol=1e-12)
    for v, row in enumerate(found.node):
        np.testing.assert_allclose(row, expected(graph, v, v, max_ring), atol=1e-12)


@pytest.mark.parametrize(
    "graph", [decalin(), shrikhande_graph(), nx.cycle_graph(11), nx.path_graph(30)]
)
def test_larger_graphs_agree(graph):
    graph = nx.convert_node_labels_to_integers(graph)
    edges = [*graph.edges]
    found = described(edges, len(graph), max_ring=11)
    for row, (u, v) in zip(found.edge, edges, strict=True):
        np.testing.assert_allclose(row, expected(graph, v, u, 11), atol=1e-12)


@settings(deadline=None, max_examples=60)
@given(graphs(), st.randoms())
def test_relabeling_moves_the_rows_along(graph, random):
    edges, num_nodes = graph
    place = random.sample(range(num_nodes), num_nodes)
    order = random.sample(range(len(edges)), len(edges))
    moved = described(
        [(place[edges[e][0]], place[edges[e][1]]) for e in order], num_nodes
    )
    rows = described(edges, num_nodes)
    np.testing.assert_allclose(moved.edge, rows.edge[order], atol=1e-12)
    np.testing.assert_allclose(moved.node[place], rows.node, atol=1e-12)


def test_a_graph_is_described_alike_alone_and_in_company():
    ring, path = [*nx.cycle_graph(5).edges], [*nx.path_graph(5).edges]
    both = described(ring + [(u + 5, v + 5) for u, v in path], 10)
    np.testing.assert_allclose(both.edge[:5], described(ring, 5).edge, atol=1e-12)
    np.testing.assert_allclose(both.node[5:], described(path, 5).node, atol=1e-12)


@pytest.mark.parametrize("num_nodes", [0, 1, 3])
def test_graphs_without_edges(num_nodes):
    found = described([], num_nodes)
    assert found.edge.shape == (0, WALKS + 5)
    assert found.node.shape == (num_nodes, WALKS + 5)
    assert not found.node.any()


def test_large_components_are_refused_with_their_size():
    path = [*nx.path_graph(100).edges]
    with pytest.raises(DataError, match=" 100 "):
        described(path, 100, memory_limit=100_000)
    assert described(path, 100, memory_limit=1_000_000).edge.shape == (99, WALKS + 5)


@pytest.mark.parametrize("wrong", [{"walk_length": 0}, {"max_ring": 2}])
def test_wrong_options_are_named(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        continuous_structure([[0], [1]], 2, **wrong)
