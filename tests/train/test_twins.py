import networkx as nx
import numpy as np
import pytest
import torch

from fullrank.data import PackedGraphs
from fullrank.data.packed.graphs import Graph
from fullrank.nn import GraphNet, backend
from fullrank.testing import relative_difference
from fullrank.train import twins
from fullrank.train.twins import graphs_for, with_twins


def packed(count=20, seed=0):
    """Graphs of overlapping cliques, as in collaboration networks."""
    rng = np.random.default_rng(seed)
    graphs = []
    for _ in range(count):
        theirs = nx.Graph()
        for size in rng.integers(3, 8, 3):
            members = [0, *rng.integers(1, 12, size)]
            theirs.add_edges_from((u, v) for u in members for v in members if u != v)
        theirs = nx.convert_node_labels_to_integers(theirs)
        one_way = np.array(theirs.edges()).T
        edges = np.concatenate([one_way, one_way[::-1]], axis=1)
        degrees = np.array([degree for _, degree in sorted(theirs.degree())])
        graphs.append(Graph(len(theirs), edges, {"node.x": degrees[:, None] % 3.0}))
    return PackedGraphs.from_graphs(graphs)


@pytest.mark.parametrize("conv", ["expc", "combc", "gat"])
def test_the_network_computes_the_same_from_fewer_edges(conv):
    graphs, net = packed(), GraphNet(1, 8, 2, 3, conv=conv, batch_norm=True).double()
    fast = graphs_for(net, graphs)
    some = [5, 3, 3, 19]
    batch, same = fast.batch(some), graphs.batch(some)
    assert 0 < batch.twin_edge_count.count_nonzero() < batch.num_edges / 2
    batch.x, same.x = batch.x.double(), same.x.double()
    found = net(batch)
    with backend("plain"):
        expected = net(same)
    assert relative_difference(found, expected) <= 1e-12


def test_the_size_of_blocks_makes_no_difference(monkeypatch):
    graphs = packed()
    whole = with_twins(graphs)
    with_twins.cache_clear()
    monkeypatch.setattr(twins, "_BLOCK", 100)
    in_blocks = with_twins(graphs)
    with_twins.cache_clear()
    for name in ("node.twin_offset", "edge.twin_edge_count", "node.twin_key"):
        assert np.array_equal(whole.arrays[name], in_blocks.arrays[name])


def test_only_networks_that_merge_nodes_get_them():
    graphs = packed(3)
    for options in ({"conv": "gcn"}, {"merge_equal_nodes": False}, {"edge_dim": 2}):
        assert graphs_for(GraphNet(1, 8, 2, 1, **options), graphs) is graphs
    assert graphs_for(torch.nn.Linear(1, 1), graphs) is graphs
