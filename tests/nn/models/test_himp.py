import pytest
import torch

from fullrank.nn.models import GraphNet
from fullrank.nn.models.himp import HIMP, junction_trees
from fullrank.nn.models.inputs import Graphs
from nn.models.graphs import relabeled, undirected

RING = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)]
DECALIN = [*RING, (4, 6), (6, 7), (7, 8), (8, 9), (9, 5)]
BICYCLOPENTYL = [
    *((i, (i + 1) % 5) for i in range(5)),
    *((5 + i, 5 + (i + 1) % 5) for i in range(5)),
    (0, 5),
]


def trees(graph):
    nodes = graph.num_nodes
    batch = torch.zeros(nodes, dtype=torch.long)
    return junction_trees(Graphs(graph.x, graph.edge_index, None, batch, 1))


def test_the_junction_tree_of_two_rings():
    pytest.importorskip("rdkit")
    kinds, edges, (atoms, cliques), batch = trees(undirected(10, DECALIN))
    assert kinds.tolist() == [0, 0]  # rings
    assert sorted(edges.T.tolist()) == [[0, 1], [1, 0]]
    assert batch.tolist() == [0, 0]
    held = [set(atoms[cliques == c].tolist()) for c in (0, 1)]
    assert {frozenset(s) for s in held} == {
        frozenset(range(6)),
        frozenset({4, 5, 6, 7, 8, 9}),
    }
    kinds, *_ = trees(undirected(10, BICYCLOPENTYL))
    assert sorted(kinds.tolist()) == [0, 0, 1]  # two rings and a bond


def test_tells_apart_what_1wl_cannot():
    pytest.importorskip("rdkit")
    torch.manual_seed(0)
    pair = undirected(10, DECALIN), undirected(10, BICYCLOPENTYL)
    himp = HIMP(3, 16, 2).double().eval()
    one, other = map(himp, pair)
    assert (one - other).abs().max() > 1e-4
    gin = GraphNet(3, 16, 2, 3, conv="gin0").double()
    one, other = map(gin, pair)
    assert torch.allclose(one, other, atol=1e-10)


def test_same_however_the_atoms_are_numbered():
    pytest.importorskip("rdkit")
    himp = HIMP(3, 16, 2).double().eval()
    graph = undirected(10, DECALIN)
    graph.x = torch.randn(10, 3).double()
    for seed in range(4):
        assert torch.allclose(himp(graph), himp(relabeled(graph, seed)), atol=1e-12)
