import networkx as nx
import pytest
import torch

from fullrank.nn import ExpandingConv, MeanCoefficients, SymmetricNormCoefficients


def test_degrees_and_sizes_by_networkx():
    graph = nx.karate_club_graph()
    edges = torch.tensor(list(graph.edges)).t()
    edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    local = ExpandingConv(2, 2).neighborhoods(torch.ones(34, 2), edge_index)
    size = {v: degree + 1 for v, degree in graph.degree}
    symmetric = SymmetricNormCoefficients()(local).flatten().tolist()
    mean = MeanCoefficients()(local).flatten().tolist()
    ends = zip(local.src.tolist(), local.dst.tolist(), strict=True)
    for (u, v), nmean, inverse in zip(ends, symmetric, mean, strict=True):
        assert nmean == pytest.approx((size[u] * size[v]) ** -0.5)
        assert inverse == pytest.approx(1 / size[v])


def test_a_source_without_a_neighbourhood_weighs_nothing():
    conv = ExpandingConv(
        2, 2, coefficients=SymmetricNormCoefficients(), add_self_loops=False
    )
    local = conv.neighborhoods(torch.ones(2, 2), torch.tensor([[0], [1]]))
    assert conv.coefficients(local).tolist() == [[0.0]]
