"""Graphs that the tests of all networks share."""

import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_undirected

HEXAGON = [(i, (i + 1) % 6) for i in range(6)]
TWO_TRIANGLES = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]


def undirected(nodes, edges, features=3):
    """A graph in which all nodes are alike."""
    edge_index = to_undirected(torch.tensor(edges).T, num_nodes=nodes)
    return Data(x=torch.ones(nodes, features).double(), edge_index=edge_index)


def random_graph(nodes, seed, features=3, edge_features=2):
    """A tree with some more edges, whole numbers as features, and coordinates."""
    rng = torch.Generator().manual_seed(seed)

    def numbers(*shape):
        return torch.randn(*shape, generator=rng).double()

    tree = [(int(torch.randint(v, (), generator=rng)), v) for v in range(1, nodes)]
    extra = torch.randint(nodes, (nodes // 3, 2), generator=rng).tolist()
    pairs = {(min(e), max(e)) for e in [*tree, *extra] if e[0] != e[1]}
    edges = torch.tensor(sorted(pairs), dtype=torch.long).reshape(-1, 2).T
    attr = numbers(edges.size(1), edge_features)
    return Data(
        x=numbers(nodes, features).round(),
        edge_index=torch.cat([edges, edges.flip(0)], dim=1),
        edge_attr=torch.cat([attr, attr]),
        pos=numbers(nodes, 3),
    )


def random_batch(*sizes):
    return Batch.from_data_list([random_graph(n, seed) for seed, n in enumerate(sizes)])


def relabeled(graph, seed=0):
    """The same graph with its nodes in another order."""
    nodes = graph.x.size(0)
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(seed))
    place = order.argsort()
    return Data(
        x=graph.x[order],
        edge_index=place[graph.edge_index],
        edge_attr=graph.edge_attr,
        pos=None if graph.pos is None else graph.pos[order],
    )
