"""ExpandingConv and CombConv as frameworks: other aggregations, other networks."""

import pytest
import torch
from torch_geometric.nn import MLP
from torch_geometric.nn.aggr import (
    MeanAggregation,
    MultiAggregation,
    PowerMeanAggregation,
    QuantileAggregation,
    SumAggregation,
)
from torch_geometric.utils import scatter

from fullrank.nn import CombConv, ExpandingConv, OneCoefficients
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


def test_aggregation_modules():
    conv = ExpandingConv(
        5, 4, aggr=PowerMeanAggregation(learn=True), edge_dim=2
    ).double()
    out = conv(*inputs())
    out.sum().backward()
    assert conv.aggr_module.p.grad is not None
    assert isinstance(ExpandingConv(5, 4).aggr_module, SumAggregation)
    assert isinstance(ExpandingConv(5, 4, aggr="mean").aggr_module, MeanAggregation)


@pytest.mark.parametrize("cls", [ExpandingConv, CombConv])
@pytest.mark.parametrize("re_sum", [True, False])
@pytest.mark.parametrize("mode", ["sum", "proj"])
def test_combined_aggregations(cls, re_sum, mode):
    width = 4 if re_sum else (20 if cls is ExpandingConv else 5)
    sizes = {"in_channels": width, "out_channels": width} if mode == "proj" else {}
    aggr = MultiAggregation(["mean", "max"], mode=mode, mode_kwargs=sizes)
    conv = cls(5, 4, re_sum=re_sum, aggr=aggr, edge_dim=2).double()
    dst, expanded = vec(conv, *inputs())
    messages = conv.mlp(expanded) if re_sum else expanded
    parts = [scatter(messages, dst, dim_size=7, reduce=r) for r in ("mean", "max")]
    truth = sum(parts) if mode == "sum" else aggr.lin(torch.cat(parts, dim=1))
    truth = truth if re_sum else conv.mlp(truth)
    assert relative_difference(conv(*inputs()), truth) <= 1e-12


@pytest.mark.parametrize("cls", [ExpandingConv, CombConv])
@pytest.mark.parametrize(
    "aggr", [["sum", "mean"], ("sum", "mean"), MultiAggregation(["sum", "mean"])]
)
def test_aggregations_side_by_side_are_refused(cls, aggr):
    with pytest.raises(ValueError, match="MultiAggregation.*mode='sum'") as error:
        cls(5, 4, aggr=aggr)
    assert str(error.value).startswith(f"aggr={aggr} ")


@pytest.mark.parametrize("hooked", [False, True])
def test_an_aggregation_that_changes_the_width_is_refused(hooked):
    conv = ExpandingConv(5, 4, aggr=QuantileAggregation([0.2, 0.8])).double()
    if hooked:
        conv.register_message_forward_hook(lambda *_: None)
    x, edge_index, _ = inputs()
    with pytest.raises(ValueError, match=r"q=\[0.2, 0.8\].*8.*4"):
        conv(x, edge_index)


class Doubled(torch.nn.Linear):
    """A linear layer with a forward of its own."""

    def forward(self, x):
        return 2 * super().forward(x)


class Reversed(torch.nn.Sequential):
    """A chain with a forward of its own."""

    def forward(self, x):
        return super().forward(x.flip(-1))


def networks(width):
    linear, relu = torch.nn.Linear, torch.nn.ReLU()
    return {
        "linear": linear(width, 4),
        "no bias": torch.nn.Sequential(linear(width, 4, bias=False), torch.nn.ReLU()),
        "three layers": torch.nn.Sequential(
            linear(width, 6), torch.nn.ELU(), linear(6, 6), torch.nn.ELU(), linear(6, 4)
        ),
        "norm first": torch.nn.Sequential(torch.nn.LayerNorm(width), linear(width, 4)),
        "PyG's MLP": MLP([width, 6, 4], norm=None),
        "none": torch.nn.Sequential(),
        "own first": torch.nn.Sequential(Doubled(width, 6), relu, linear(6, 4), relu),
        "own second": torch.nn.Sequential(linear(width, 6), relu, Doubled(6, 4), relu),
        "own chain": Reversed(linear(width, 6), relu, linear(6, 4), relu),
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


def test_coefficients_that_are_false_are_still_coefficients():
    class Empty(OneCoefficients):
        def __len__(self):
            return 0

    coefficients = Empty()
    assert ExpandingConv(5, 4, coefficients=coefficients).coefficients is coefficients


def test_number_of_aggregators():
    with pytest.raises(ValueError, match="num_aggregators.*0"):
        ExpandingConv(5, 4, 0)
