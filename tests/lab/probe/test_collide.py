from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.nn import (
    GCN,
    GATConv,
    GCNConv,
    GINConv,
    HypergraphConv,
    MaxAggregation,
    RGCNConv,
    SAGEConv,
)

from fullrank.errors import ConfigError
from fullrank.lab import Neighborhood, collide
from fullrank.nn import CombConv, ExpandingConv, GraphNet


def gin0(d, out):
    mlp = torch.nn.Sequential(
        torch.nn.Linear(d, out), torch.nn.ReLU(), torch.nn.Linear(out, out)
    )
    return GINConv(mlp)


def check(layer, collision, distance=0.5):
    """Verify what a collision claims."""
    layer = layer.double().eval()
    first, second = collision.first, collision.second
    assert torch.equal(first.x[0], second.x[0])
    assert first.x.shape == second.x.shape
    for order in permutations(range(1, len(first))):
        assert (first.x[list(order)] - second.x[1:]).norm() >= distance - 1e-9
    said = []
    for star in (first.graph(), second.graph()):
        with torch.no_grad():
            said.append(layer(star.x, star.edge_index)[0].flatten())
    assert (said[0] - said[1]).abs().max() <= 1e-9 * (said[0].abs().max() or 1)


@settings(max_examples=15)
@given(
    st.sampled_from([GCNConv, gin0, SAGEConv]),
    st.integers(3, 6),
    st.integers(1, 4),
    st.integers(0, 1000),
)
def test_gcn_gin0_and_mean_sage_are_always_caught(make, n, d, seed):
    torch.manual_seed(seed)
    layer = make(d, 16)
    collision = collide(layer, torch.randn(n, d))
    assert collision.found
    check(layer, collision)


@settings(max_examples=15)
@given(st.integers(3, 5), st.integers(2, 4), st.integers(0, 1000))
def test_single_head_gat_is_always_caught(n, d, seed):
    torch.manual_seed(seed)
    layer = GATConv(d, 8)
    collision = collide(layer, torch.randn(n, d))
    assert collision.found
    check(layer, collision)


class FixedMatrix(torch.nn.Module):
    """The aggregator f_M on the centre and its neighbours, in their order."""

    def __init__(self, matrix):
        super().__init__()
        self.register_buffer("matrix", matrix)

    def forward(self, x, edge_index):
        return (self.matrix @ x[: self.matrix.size(1)]).view(1, -1)


@settings(max_examples=10)
@given(st.integers(3, 5), st.integers(1, 3), st.integers(0, 1000))
def test_a_fixed_matrix_is_caught_at_rank_n_minus_two_and_never_at_rank_n(n, d, seed):
    torch.manual_seed(seed)
    x = torch.randn(n, d)
    orthogonal = torch.linalg.qr(torch.randn(n, n).double()).Q
    full = collide(FixedMatrix(orthogonal), x, starts=6)
    assert not full.found
    # An orthogonal matrix keeps distances, so the gap cannot be small.
    assert full.gap * (n * d) ** 0.5 >= 0.5
    assert "none found in 6 starts" in str(full)
    assert collide(FixedMatrix(orthogonal[: n - 2]), x).found


def test_degrees_are_kept():
    torch.manual_seed(0)
    local = Neighborhood(torch.randn(4, 3), degrees=torch.tensor([4, 2, 5, 9]))
    layer = GCNConv(3, 8)
    collision = collide(layer, local)
    assert torch.equal(collision.second.degrees, local.degrees)
    check(layer, collision)
    moved = (collision.second.x - collision.first.x)[1:]
    weights = torch.tensor([2, 5, 9]).double().rsqrt()
    assert (weights @ moved).abs().max() < 1e-9


def test_a_maximum_is_caught_too():
    torch.manual_seed(0)
    layer = SAGEConv(4, 16, aggr=MaxAggregation())
    collision = collide(layer, torch.randn(5, 4))
    assert collision.found
    check(layer, collision)


@pytest.mark.parametrize("seed", range(4))
def test_without_resum_the_aggregate_with_enough_aggregators_resists(seed):
    torch.manual_seed(seed)
    x = torch.randn(4, 4)
    strong = ExpandingConv(4, 16, num_aggregators=4, re_sum=False)
    collision = collide(strong, x, of="aggregate")
    assert not collision.found
    assert collision.gap > 1e-6
    weak = ExpandingConv(4, 16, num_aggregators=1, re_sum=False)
    collision = collide(weak, x, of="aggregate")
    assert collision.found
    check(weak, collision)


@pytest.mark.parametrize("make", [ExpandingConv, CombConv])
@pytest.mark.parametrize("seed", range(4))
def test_the_aggregate_of_resum_is_what_comes_after_the_mlp(make, seed):
    """The sum of the expansion, which Re-SUM never forms, has other collisions, none of
    them with equal outputs."""
    torch.manual_seed(seed)
    layer, x = make(4, 16), torch.randn(4, 4)
    collision = collide(layer, x, of="aggregate")
    check(layer, collision) if collision.found else None
    star = collision.first.graph()
    messages, local = layer.double().messages(star.x, star.edge_index)
    assert torch.allclose(collision.outputs[0], messages[local.dst == 0].sum(dim=0))
    assert torch.allclose(collision.outputs[0], layer(star.x, star.edge_index)[0])


@pytest.mark.parametrize("s", [1, 8, 32])
def test_equal_sums_of_features_and_encoded_edges_collide_whatever_s_is(s):
    torch.manual_seed(0)
    layer = ExpandingConv(3, 8, num_aggregators=s, edge_dim=2).double()
    first = Neighborhood(torch.randn(3, 3).double(), None, torch.randn(2, 2).double())
    change = torch.randn(2, 2).double()
    x = first.x.clone()
    x[1:] -= layer.edge_lin(change)
    second = Neighborhood(x, None, first.edge_attr + change)
    assert (first.x - second.x).abs().max() > 0.1
    said = [
        layer(g.x, g.edge_index, g.edge_attr)[0]
        for g in (first.graph(), second.graph())
    ]
    assert torch.allclose(*said, atol=1e-12)


def test_hooks_are_part_of_the_layer():
    """With all neighbours but the largest silenced, other collisions hold."""
    torch.manual_seed(0)
    layer = GCNConv(3, 4)
    layer.register_message_forward_hook(lambda conv, inputs, out: out.relu())
    collision = collide(layer, torch.randn(4, 3))
    assert collision.found
    check(layer, collision)


def test_a_model_is_read_at_its_graph_or_first_node():
    torch.manual_seed(0)
    for model in (GraphNet(3, 4, 2, 1, conv="gcn"), GCN(3, 4, 1)):
        collision = collide(model, torch.randn(4, 3), distance=0.1)
        double = model.double().eval()
        said = []
        for star in (collision.first.graph(), collision.second.graph()):
            run = double(star) if isinstance(model, GraphNet) else None
            out = run if run is not None else double(star.x, star.edge_index)
            said.append(out[0])
        assert collision.found
        assert torch.allclose(*said, atol=1e-9)


def test_a_layer_with_an_unusual_signature_is_run_as_the_caller_says():
    torch.manual_seed(0)
    layer = RGCNConv(3, 4, num_relations=2)

    def call(layer, data):
        return layer(data.x, data.edge_index, torch.zeros(data.num_edges).long())

    collision = collide(layer, torch.randn(4, 3), call=call)
    assert collision.found
    relation = layer.double().weight[0]
    moved = (collision.second.x - collision.first.x)[1:].mean(dim=0)
    assert (moved @ relation).abs().max() < 1e-9
    with pytest.raises(ConfigError, match="hyperedge_index"):
        collide(HypergraphConv(3, 4), torch.randn(4, 3))


def test_categories_cannot_be_moved():
    with pytest.raises(ConfigError, match="int64"):
        collide(GraphNet([5, 5], 4, 1, 1), torch.ones(3, 2).long())


@pytest.mark.parametrize("layer", [ExpandingConv(4, 3), CombConv(4, 3)], ids=repr)
def test_ours_collide_where_features_outnumber_outputs(layer):
    torch.manual_seed(0)
    collision = collide(layer, torch.randn(5, 4))
    assert collision.found
    check(layer, collision)


def test_the_aggregate_of_a_pyg_layer_is_the_one_it_computes():
    torch.manual_seed(0)
    collision = collide(gin0(3, 8), torch.randn(4, 3), of="aggregate")
    assert collision.found
    x = collision.first.x[1:].sum(dim=0)
    assert torch.allclose(collision.outputs[0], x)


def test_invalid_arguments_are_refused():
    with pytest.raises(ValueError, match="'outputs'"):
        collide(GCNConv(3, 3), torch.randn(3, 3), of="outputs")
    with pytest.raises(ValueError, match="neighbour"):
        collide(GCNConv(3, 3), torch.randn(1, 3))
    with pytest.raises(ConfigError, match="FixedMatrix"):
        collide(FixedMatrix(torch.eye(3)), torch.randn(3, 2), of="aggregate")
