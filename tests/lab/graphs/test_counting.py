from itertools import combinations, permutations

import networkx as nx
import pytest
import torch
from networkx.generators.atlas import graph_atlas_g
from torch_geometric.nn import global_mean_pool

from fullrank.errors import DataError
from fullrank.lab import PairNet, cannot_count
from fullrank.lab.graphs.counting import subgraph_counts
from fullrank.nn import GraphNet

DIAMOND = nx.diamond_graph()
PATTERNS = {
    "triangles": nx.cycle_graph(3),
    "4-cycles": nx.cycle_graph(4),
    "5-cycles": nx.cycle_graph(5),
    "6-cycles": nx.cycle_graph(6),
    "4-cliques": nx.complete_graph(4),
    "chordal 4-cycles": DIAMOND,
    "paths of 4 nodes": nx.path_graph(4),
    "stars of 3 rays": nx.star_graph(3),
}


def copies(pattern, graph):
    """By definition: sets of edges that form the pattern."""
    found = set()
    for nodes in combinations(graph, len(pattern)):
        for order in permutations(nodes):
            edges = [frozenset((order[u], order[v])) for u, v in pattern.edges]
            if all(graph.has_edge(*edge) for edge in edges):
                found.add(frozenset(edges))
    return len(found)


@pytest.mark.parametrize("index", [53, 200, 620, 900, 1100, 1252])
def test_counts_are_those_of_the_definition(index):
    graph = graph_atlas_g()[index]
    counts = subgraph_counts(graph)
    assert counts == {name: copies(one, graph) for name, one in PATTERNS.items()}


def as_networkx(data):
    graph = nx.empty_graph(data.num_nodes)
    graph.add_edges_from(data.edge_index.T.tolist())
    return graph


def check(model, counting):
    """Run the model on each witness alone, and count again."""
    model = model.double().eval()
    for pattern, witness in counting.cannot.items():
        first, second = witness.first, witness.second
        assert torch.allclose(model(first), model(second), rtol=1e-8, atol=1e-8)
        graphs = as_networkx(first), as_networkx(second)
        counts = tuple(subgraph_counts(graph)[pattern] for graph in graphs)
        assert counts == witness.counts
        assert counts[0] != counts[1]


def test_message_passing_counts_stars_at_most():
    torch.manual_seed(0)
    model = GraphNet(1, 8, 4, 4, conv="expc")
    counting = cannot_count(model)
    assert set(counting.cannot) == set(PATTERNS) - {"stars of 3 rays"}
    assert counting.undecided == ("stars of 3 rays",)
    check(model, counting)


def test_a_network_of_pairs_counts_cycles_but_not_cliques():
    torch.manual_seed(0)

    class Alone(torch.nn.Module):
        """The network of pairs on one graph or a batch."""

        def __init__(self):
            super().__init__()
            self.net = PairNet(1)

        def forward(self, data):
            if data.batch is None:
                data = data.clone()
                data.batch = torch.zeros(data.num_nodes, dtype=torch.long)
            return self.net(data)

    model = Alone()
    counting = cannot_count(model)
    assert set(counting.cannot) == {"4-cliques"}
    check(model, counting)


def test_the_sizes_of_both_graphs_are_told():
    """A mean of equal features is the same for all graphs."""

    class Mean(torch.nn.Module):
        def forward(self, data):
            return global_mean_pool(data.x, data.batch)

    for miscount in cannot_count(Mean()).cannot.values():
        sizes = {miscount.first.num_nodes, miscount.second.num_nodes}
        assert all(str(size) in str(miscount).split("graphs of")[1] for size in sizes)
        assert miscount.nodes == " and ".join(map(str, sorted(sizes)))


def test_a_model_of_molecules_gets_features_as_it_takes_them():
    torch.manual_seed(0)
    model = GraphNet([5, 3], 8, 1, 3, conv="gcn", edge_dim=(4,))
    like = model_input()
    counting = cannot_count(model, like)
    assert "triangles" in counting.cannot
    assert counting.cannot["triangles"].first.x.tolist() == [[2, 1]] * 6
    check(model, counting)
    like.edge_index, like.edge_attr = like.edge_index[:, :0], like.edge_attr[:0]
    with pytest.raises(DataError):
        cannot_count(model, like)


def model_input():
    from torch_geometric.data import Data

    return Data(
        x=torch.tensor([[2, 1], [0, 0]]),
        edge_index=torch.tensor([[0, 1], [1, 0]]),
        edge_attr=torch.tensor([[3], [1]]),
    )
