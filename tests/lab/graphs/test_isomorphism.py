import networkx as nx
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networkx.generators.atlas import graph_atlas_g
from torch_geometric.data import Data

from fullrank.lab import wl_level
from fullrank.lab.graphs import isomorphism
from fullrank.lab.graphs.families import chang_graphs, rook_graph, shrikhande_graph
from fullrank.lab.graphs.isomorphism import is_isomorphic, isomorphism_classes
from fullrank.lab.graphs.pairs import as_data, relabel
from fullrank.lab.graphs.wl import wl_colors

ATLAS = graph_atlas_g()


def partition(classes):
    members = {}
    for index, number in enumerate(classes.tolist()):
        members.setdefault(number, []).append(index)
    return sorted(members.values())


@settings(max_examples=20)
@given(st.lists(st.integers(1, 1252), min_size=2, max_size=12), st.integers(0, 99))
def test_classes_are_those_of_networkx(indices, seed):
    generator = torch.Generator().manual_seed(seed)
    plain = [ATLAS[i] for i in indices]
    graphs = [as_data(graph) for graph in plain]
    graphs += [relabel(graph, generator) for graph in graphs]
    _, same = isomorphism_classes(graphs)
    plain += plain
    expected = {}
    for index, graph in enumerate(plain):
        for known in expected:
            if nx.is_isomorphic(plain[known], graph):
                expected[known].append(index)
                break
        else:
            expected[index] = [index]
    assert partition(same) == sorted(expected.values())


def test_twins_are_numbered_at_once(monkeypatch):
    """Cliques of 60 nodes that share some, independent sets, isolated nodes: marking
    their nodes one after the other would take more than 60 refinements."""
    cliques = [nx.union(nx.complete_graph(60), nx.empty_graph(9), rename=("a", "b"))]
    for shared in (20, 30):
        two = nx.complete_graph(60)
        two.add_edges_from((u, v) for u in range(shared) for v in range(60, 80))
        cliques.append(nx.union(two, nx.star_graph(12), rename=("a", "b")))
    plain = [nx.convert_node_labels_to_integers(graph) for graph in cliques]
    graphs = [as_data(graph) for graph in plain for _ in range(2)]
    graphs = [relabel(graph) for graph in graphs]
    refinements = []

    def counted(*args, **kwargs):
        refinements.append(args)
        return wl_colors(*args, **kwargs)

    monkeypatch.setattr(isomorphism, "wl_colors", counted)
    _, same = isomorphism_classes(graphs)
    assert partition(same) == [[0, 1], [2, 3], [4, 5]]
    assert len(refinements) < 10


def test_strongly_regular_graphs_are_told_apart_and_recognised():
    graphs = [rook_graph(4), shrikhande_graph()]
    data = [as_data(nx.convert_node_labels_to_integers(graph)) for graph in graphs]
    copies = [relabel(graph) for graph in data]
    wl, same = isomorphism_classes([*data, *copies])
    assert partition(wl) == [[0, 1, 2, 3]]
    assert partition(same) == [[0, 2], [1, 3]]


def test_what_is_not_settled_is_not_said():
    first, second = (as_data(graph) for graph in chang_graphs()[:2])
    assert is_isomorphic(first, second) is False
    assert is_isomorphic(first, second, budget=3) is None


def test_features_of_nodes_and_edges_belong_to_the_graph():
    def ring(atom, bond):
        graph = as_data(nx.cycle_graph(5))
        graph.x[atom] = 7
        ends = graph.edge_index.sort(dim=0).values.T
        graph.edge_attr = (ends == torch.tensor(bond)).all(dim=1).float()[:, None]
        return graph

    same, other = ring(2, (2, 3)), ring(0, (2, 3))
    wl, classes = isomorphism_classes([ring(0, (0, 1)), same, other])
    assert partition(classes) == [[0, 1], [2]]
    assert partition(wl) == [[0, 1], [2]]


def test_features_of_every_usual_name_belong_to_a_graph():
    """Atoms in z and weights of edges, as PyG's data sets of molecules have them."""
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])

    def graph(**features):
        return Data(edge_index=edges, num_nodes=3, **features)

    for name, values in {
        "z": ([6, 8, 6], [8, 6, 6]),
        "node_type": ([0, 1, 0], [1, 0, 0]),
        "edge_weight": ([1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 2.0, 2.0]),
        "edge_type": ([0, 0, 0, 0], [0, 0, 1, 1]),
    }.items():
        one, other = (graph(**{name: torch.tensor(value)}) for value in values)
        wl, same = isomorphism_classes([one, other, one])
        assert partition(wl) == partition(same) == [[0, 2], [1]]
        assert wl_level(one, other).folklore == 1
