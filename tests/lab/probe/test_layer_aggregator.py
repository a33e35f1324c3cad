import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv

from fullrank.lab import (
    MEAN,
    NMEAN,
    SUM,
    Multiset,
    Neighborhood,
    Proof,
    Witness,
    as_aggregator,
    as_strong,
    coefficient_aggregator,
    compare,
)
from fullrank.nn import (
    ExpandingConv,
    MeanCoefficients,
    OneCoefficients,
    Stack,
    TanhCoefficients,
    ThreeStageGAT,
    ThreeStageGCN,
    ThreeStageGIN0,
)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: GCNConv(2, 5),
        lambda: GINConv(torch.nn.Linear(2, 5)),
        lambda: SAGEConv(2, 5),
        lambda: ThreeStageGCN(2, 5),
        lambda: ThreeStageGIN0(2, 5),
        lambda: ThreeStageGAT(2, 5, heads=3),
        lambda: ExpandingConv(2, 5, num_aggregators=3),
        lambda: ExpandingConv(2, 5, num_aggregators=3, re_sum=False),
        lambda: ExpandingConv(
            2,
            5,
            coefficients=Stack(TanhCoefficients(2, 2), OneCoefficients()),
            re_sum=False,
        ),
    ],
)
def test_the_aggregator_says_what_the_layer_says(make):
    layer = make()
    x = torch.randn(4, 2).double()
    degrees = (4, 3, 2, 6)
    star = Neighborhood(x, torch.tensor(degrees)).graph()
    layer = layer.double()
    truth = layer(star.x, star.edge_index)[0].detach().numpy()
    found = as_aggregator(layer)(Multiset(x.tolist(), degrees))
    assert found == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize(
    "layer", [GINConv(torch.nn.Linear(2, 5)), ThreeStageGIN0(2, 5)], ids=["pyg", "ours"]
)
def test_gin0_is_at_most_sum(layer):
    assert isinstance(as_strong(SUM, as_aggregator(layer, "GIN-0")), Proof)


@pytest.mark.parametrize(
    "layer", [GCNConv(2, 5), ThreeStageGCN(2, 5)], ids=["pyg", "ours"]
)
def test_gcn_is_at_most_nmean(layer):
    assert isinstance(as_strong(NMEAN, as_aggregator(layer, "GCN")), Proof)


def center_is_kept(witness):
    return np.array_equal(witness.first.rows[0], witness.second.rows[0])


@pytest.mark.parametrize(
    "layer", [GATConv(2, 5), ThreeStageGAT(2, 5)], ids=["pyg", "ours"]
)
def test_gat_and_sum_are_incomparable(layer):
    comparison = compare(as_aggregator(layer, "GAT"), SUM, dim=2)
    assert comparison.verdict == "incomparable"
    for witness in (comparison.at_least, comparison.at_most):
        assert center_is_kept(witness)
    layer = layer.double()
    sums, outputs = [], []
    for multiset in (comparison.at_most.first, comparison.at_most.second):
        x = torch.from_numpy(multiset.numpy())
        degrees = None if multiset.degrees is None else torch.tensor(multiset.degrees)
        star = Neighborhood(x, degrees).graph()
        sums.append(x.sum(dim=0))
        outputs.append(layer(star.x, star.edge_index)[0])
    assert torch.equal(*sums)
    assert (outputs[0] - outputs[1]).abs().max() > 1e-6


def test_one_more_row_makes_the_expansion_stronger_than_sum():
    stack = Stack(TanhCoefficients(2, 3), OneCoefficients())
    comparison = compare(coefficient_aggregator(stack), SUM, dim=2)
    assert comparison.verdict == "stronger"
    assert isinstance(comparison.at_most, Witness)


def test_two_more_rows_make_it_stronger_than_sum_and_mean_across_sizes():
    stack = Stack(TanhCoefficients(2, 3), OneCoefficients(), MeanCoefficients())
    assert (
        compare(coefficient_aggregator(stack), SUM @ MEAN, dim=2).verdict == "stronger"
    )
    without = coefficient_aggregator(Stack(OneCoefficients(), MeanCoefficients()))
    assert compare(without, SUM @ MEAN).verdict == "equal"
    # At a fixed size the second row is a multiple of the first.
    sizes = compare(SUM @ MEAN, SUM).at_most
    assert len(sizes.first) != len(sizes.second)


@given(st.integers(1, 4), st.integers(2, 5), st.integers(0, 1000))
def test_proposition_4_multi_head_gat_is_an_expansion(heads, n, seed):
    torch.manual_seed(seed)
    pyg = GATConv(3, 4, heads=heads, concat=False).double()
    expansion = ThreeStageGAT(3, 4, heads=heads).double()
    expansion.coefficients.load_state_dict(
        {name: pyg.state_dict()[name] for name in expansion.coefficients.state_dict()}
    )
    x = torch.randn(n, 3).double()
    star = Neighborhood(x).graph()
    truth = pyg(star.x, star.edge_index)[0].detach().numpy()
    aggregated = coefficient_aggregator(expansion.coefficients)
    assert aggregated(Multiset(x.tolist())).size == heads * 3
    found = as_aggregator(expansion)(Multiset(x.tolist()))
    assert found == pytest.approx(truth, abs=1e-12)
