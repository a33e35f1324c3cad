import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.nn import (
    GATConv,
    GATv2Conv,
    GCNConv,
    GENConv,
    GINConv,
    SAGEConv,
    TransformerConv,
)

from fullrank.lab import Neighborhood
from fullrank.lab.probe.jacobian import has_fixed_weights, neighbor_slopes


@pytest.fixture
def stars():
    torch.manual_seed(0)
    sizes = (3, 4, 6)
    return Batch.from_data_list(
        [Neighborhood(torch.randn(n, 5).double()).graph() for n in sizes]
    )


def frozen(conv):
    return conv.double().requires_grad_(False)


def test_with_attention_fixed_a_slope_is_attention_times_weight(stars):
    conv = frozen(GATConv(5, 6))
    slopes = neighbor_slopes(conv, stars)
    edges, alpha = conv(stars.x, stars.edge_index, return_attention_weights=True)[1]
    for center in stars.ptr[:-1].tolist():
        for u in (center + 1, center + 2):
            weight = alpha[(edges[0] == u) & (edges[1] == center)][0]
            assert torch.allclose(slopes[u].view(6, 5), weight * conv.lin.weight)


def test_without_attention_slopes_are_those_of_finite_differences(stars):
    mlp = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Tanh())
    conv = frozen(GINConv(mlp))
    slopes = neighbor_slopes(conv, stars)
    moved = stars.x.clone()
    moved[2, 3] += 1e-6
    outputs = [conv(x, stars.edge_index)[0] for x in (stars.x, moved)]
    difference = (outputs[1] - outputs[0]) / 1e-6
    assert torch.allclose(slopes[2].view(6, 5)[:, 3], difference, atol=1e-5)


@pytest.mark.parametrize(
    ("conv", "fixed"),
    [
        (GCNConv(5, 6), True),
        (GINConv(torch.nn.Linear(5, 6)), True),
        (SAGEConv(5, 6), True),
        (GATConv(5, 6, heads=2), True),
        (GATv2Conv(5, 6), True),
        (SAGEConv(5, 6, aggr="max"), False),
        (TransformerConv(5, 6), False),
        (GENConv(5, 6), False),
    ],
    ids=repr,
)
def test_whose_weights_can_be_held(stars, conv, fixed):
    assert has_fixed_weights(frozen(conv), stars) == fixed
