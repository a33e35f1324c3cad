from itertools import combinations

import torch

from fullrank.nn.models.inputs import Graphs
from fullrank.nn.models.k_gnn import Neighbors
from nn.models.graphs import HEXAGON, random_batch, undirected


def graphs_of(batch):
    return Graphs(batch.x, batch.edge_index, None, batch.batch, batch.num_graphs)


def sets_by_hand(batch):
    """All pairs and all connected triples of nodes of one graph."""
    edges = {tuple(edge) for edge in batch.edge_index.T.tolist()}
    pairs, triples = [], []
    for graph in range(batch.num_graphs):
        nodes = (batch.batch == graph).nonzero().flatten().tolist()
        pairs += combinations(nodes, 2)
        triples += [
            three
            for three in combinations(nodes, 3)
            if sum(pair in edges for pair in combinations(three, 2)) >= 2
        ]
    return pairs, triples, edges


def test_sets_and_their_neighbours():
    batch = random_batch(6, 1, 9)
    neighbors = Neighbors(graphs_of(batch))
    *families, edges = sets_by_hand(batch)
    found = neighbors.pairs(), neighbors.connected_triples()
    for expected, sets in zip(families, found, strict=True):
        assert sets.tolist() == [list(nodes) for nodes in sorted(expected)]
        counts = [sum(p in edges for p in combinations(s, 2)) for s in sorted(expected)]
        assert neighbors.edges_in(sets).tolist() == counts
        between = {
            (i, j)
            for j, one in enumerate(sorted(expected))
            for i, other in enumerate(sorted(expected))
            if len(set(one) - set(other)) == 1
            and (*(set(one) - set(other)), *(set(other) - set(one))) in edges
        }
        pairs = neighbors.exchanging_one(sets).T.tolist()
        assert len(pairs) == len(between)
        assert set(map(tuple, pairs)) == between


def test_a_graph_without_triples():
    hexagon = undirected(6, HEXAGON[:1])
    hexagon.batch = torch.zeros(6, dtype=torch.long)
    graphs = Graphs(hexagon.x, hexagon.edge_index, None, hexagon.batch, 1)
    neighbors = Neighbors(graphs)
    triples = neighbors.connected_triples()
    assert triples.shape == (0, 3)
    assert neighbors.exchanging_one(triples).shape == (2, 0)
