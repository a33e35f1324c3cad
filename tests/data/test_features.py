import networkx as nx
import numpy as np

from fullrank.data.features import degree_columns


def columns_of(graph: nx.Graph):
    edges = np.array([*graph.edges, *((v, u) for u, v in graph.edges if u != v)]).T
    return degree_columns(edges, len(graph))


def test_small_degrees_are_one_hot():
    graph = nx.star_graph(4)
    graph.add_edge(0, 0)  # a loop is no neighbour
    columns = columns_of(graph)
    assert columns.arrays["node.degree"].tolist() == [4, 1, 1, 1, 1]
    assert columns.parts[0].one_hot == len(columns.names) == 5


def test_from_a_thousand_on_they_are_normalised():
    assert columns_of(nx.star_graph(999)).parts[0].one_hot == 1000
    graph = nx.star_graph(1000)
    columns = columns_of(graph)
    degree = np.array([d for _, d in graph.degree], dtype=float)
    expected = (degree - degree.mean()) / degree.std(ddof=1)
    assert columns.parts[0].one_hot is None
    assert np.allclose(columns.arrays["node.degree"][:, 0], expected)


def test_a_thousand_neighbours_of_every_node():
    columns = columns_of(nx.complete_graph(1001))
    assert not columns.arrays["node.degree"].any()
    assert columns.moments == (1000, 1)
