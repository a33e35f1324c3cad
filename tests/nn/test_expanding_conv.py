"""ExpandingConv and CombConv as frameworks: other aggregations, other networks."""

import pytest
import torch
from torch_geometric.nn import MLP
from torch_geometric.nn.aggr import (
    MeanAggregation,
    PowerMeanAggregation,
    SumAggregation,
)
from torch_geometric.utils import scatter

from fullrank.nn import CombConv, ExpandingConv
from fullrank.testing import relative_difference
from nn.strategies import features

S = 3


def vec(conv, x, edge_index, edge_attr):
    """The expanded features of each pair, written out."""
    local = conv.neighborhoods(x, edge_index, edge_attr)
    m = conv.coefficients(local)
    if isinstance(conv, ExpandingConv):
        return local.dst, torch.einsum("ek,ei->eki", m, local.neighbors()).flatten(1)
    return local.dst, m * local.neighbors()


def inputs():
    torch.manual_seed(0)
    return features(7, 5, 0), torch.randint(7, (2, 25)), features(25, 2, 1)


@pytest.mark.parametrize("cls", [ExpandingConv, CombConv])
@pytest.mark.parametrize("re_sum", [True, False])
@pytest.mark.parametrize("aggr", ["max", "mean", "min", "sum"])
def test_any_aggregation(cls, re_sum, aggr):
    conv = cls(5, 4, re_sum=re_sum, aggr=aggr, edge_dim=2).double()
    dst, expanded = vec(conv, *inputs())
    messages = conv.mlp(expanded) if re_sum else expanded
    truth = scatter(messages, dst, dim_size=7, reduce=aggr)
    truth = truth if re_sum else conv.mlp(truth)
    assert relative_difference(conv(*inputs()), truth) <= 1e-12


def test_aggregation_modules_and_lists():
    conv = ExpandingConv(
        5, 4, aggr=PowerMeanAggregation(learn=True), edge_dim=2
    ).double()
    out = conv(*inputs())
    out.sum().backward()
    assert conv.aggr_module.p.grad is not None
    many = ExpandingConv(5, 4, aggr=["mean", "max"], edge_dim=2).double()
    dst, expanded = vec(many, *inputs())
    messages = many.mlp(expanded)
    truth = torch.cat(
        [scatter(messages, dst, dim_size=7, reduce=r) for r in ("mean", "max")], dim=1
    )
    assert relative_difference(many(*inputs()), truth) <= 1e-12
    assert isinstance(ExpandingConv(5, 4).aggr_module, SumAggregation)
    assert isinstance(ExpandingConv(5, 4, aggr="mean").aggr_module, MeanAggregation)


def networks(width):
    linear = torch.nn.Linear
    return {
        "linear": linear(width, 4),
        "no bias": torch.nn.Sequential(linear(width, 4, bias=False), torch.nn.ReLU()),
        "three layers": torch.nn.Sequential(
            linear(width, 6), torch.nn.ELU(), linear(6, 6), torch.nn.ELU(), linear(6, 4)
        ),
        "norm first": torch.nn.Sequential(torch.nn.LayerNorm(width), linear(width, 4)),
        "PyG's MLP": MLP([width, 6, 4], norm=None),
    }


@pytest.mark.parametrize("cls", [ExpandingConv, CombConv])
@pytest.mark.parametrize("re_sum", [True, False])
@pytest.mark.parametrize("name", networks(1))
def test_any_network(cls, re_sum, name):
    width = S * 5 if cls is ExpandingConv else 5
    kwargs = {"num_aggregators": S} if cls is ExpandingConv else {}
    conv = cls(
        5, 4, mlp=networks(width)[name], re_sum=re_sum, edge_dim=2, **kwargs
    ).double()
    dst, expanded = vec(conv, *inputs())
    messages = conv.mlp(expanded) if re_sum else expanded
    truth = scatter(messages, dst, dim_size=7, reduce="sum")
    truth = truth if re_sum else conv.mlp(truth)
    assert relative_difference(conv(*inputs()), truth) <= 1e-12


@pytest.mark.parametrize("cls", [ExpandingConv, CombConv])
@pytest.mark.parametrize("activation", ["tanh", "elu", None])
def test_any_last_activation(cls, activation):
    conv = cls(5, 4, activation=activation, edge_dim=2).double()
    dst, expanded = vec(conv, *inputs())
    function = {"tanh": torch.tanh, "elu": torch.nn.functional.elu, None: lambda x: x}
    hidden = (expanded @ conv.mlp[0].weight.t() + conv.mlp[0].bias).relu()
    last = hidden @ conv.mlp[2].weight.t() + conv.mlp[2].bias
    truth = scatter(function[activation](last), dst, dim_size=7, reduce="sum")
    assert relative_difference(conv(*inputs()), truth) <= 1e-12


def test_comb_with_equal_rows_is_expanding_with_one_aggregator():
    """All dimensions sharing one aggregator is ExpC-1."""
    comb, one = CombConv(5, 4).double(), ExpandingConv(5, 4, 1).double()
    comb.mlp.load_state_dict(one.mlp.state_dict())
    comb.coefficients.lin.weight.data.copy_(one.coefficients.lin.weight.expand(5, -1))
    comb.coefficients.lin.bias.data.copy_(one.coefficients.lin.bias.expand(5))
    x, edge_index, _ = inputs()
    assert relative_difference(comb(x, edge_index), one(x, edge_index)) <= 1e-12
