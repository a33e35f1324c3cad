import pytest
import torch
from torch_geometric.nn import SAGEConv

from fullrank.errors import ConfigError
from fullrank.nn import conv_names, make_conv, register_conv
from fullrank.nn.resolver import _CONVS
from fullrank.testing import (
    assert_permutation_equivariant,
    random_graph,
    relative_difference,
)

ARGUMENTS = {"pna": {"deg": [1, 4, 3]}, "gat": {"heads": 3}, "gatv2": {"heads": 3}}
# The others need structure as well: see coefficients/test_*structur*.py.
FEATURE_BASED = [
    name for name in conv_names() if not name.endswith(("-structural", "-continuous"))
]


def test_the_names():
    expected = {"expc", "combc", "gin0", "gcn", "gat", "gatv2", "sage", "pna", "gen"}
    assert expected <= set(conv_names())


@pytest.mark.parametrize("name", FEATURE_BASED)
def test_every_convolution_reads_the_edge_features(name):
    torch.manual_seed(0)
    conv = make_conv(name, 5, 4, 3, **ARGUMENTS.get(name, {})).eval()
    x, edge_index, edge_attr = random_graph(5, edge_dim=3)
    out = conv(x, edge_index, edge_attr)
    assert out.shape == (8, 4)
    assert not torch.allclose(out, conv(x, edge_index, edge_attr + 1))
    assert_permutation_equivariant(conv, x, edge_index, edge_attr, tolerance=1e-4)


@pytest.mark.parametrize("name", FEATURE_BASED)
def test_every_convolution_does_without(name):
    conv = make_conv(name, 5, 4, None, **ARGUMENTS.get(name, {}))
    assert conv(*random_graph(5)).shape == (8, 4)


def test_sage_adds_encoded_edges_to_its_neighbours():
    conv = make_conv("sage", 5, 4, 3).double()
    x, edge_index, edge_attr = random_graph(5, edge_dim=3)
    x, edge_attr = x.double(), edge_attr.double()
    # The same with every edge coming from a node of its own that has the sum.
    plain = SAGEConv((5, 5), 4).double()
    plain.load_state_dict(conv.conv.state_dict())
    sources = x[edge_index[0]] + edge_attr @ conv.edge_lin.weight.t()
    edges = torch.stack([torch.arange(20), edge_index[1]])
    truth = plain((sources, x), edges)
    assert relative_difference(conv(x, edge_index, edge_attr), truth) <= 1e-12


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match="'exp' .*'expc'.*combc"):
        make_conv("exp", 5, 4, None)


@pytest.mark.parametrize(
    ("name", "option", "known"),
    [
        ("expc", "num_agregators", "'num_aggregators'.*activation"),
        ("gat", "heds", "'heads'.*activation, add_self_loops"),
        ("gatv2", "drop_out", "'dropout'.*add_self_loops, aggr"),
        ("expc-structural", "hop", "'hops'.*activation, add_self_loops"),
        ("gcn", "re_sum", "activation, add_self_loops, aggr, aggr_kwargs"),
    ],
)
def test_an_unknown_option_lists_the_known_ones(name, option, known):
    with pytest.raises(ConfigError, match=f"{name!r}.*{option!r}.*{known}"):
        make_conv(name, 5, 4, None, **{option: 1})


@pytest.mark.parametrize("option", ["name", "in_channels", "edge_dim"])
def test_what_the_network_sets_is_no_option(option):
    with pytest.raises(ConfigError, match=f"'expc'.*{option!r}"):
        make_conv("expc", 5, 4, None, **{option: 1})


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("expc", "num_aggregators", "4"),
        ("expc", "num_aggregators", 0),
        ("expc", "num_aggregators", 10**12),  # out of memory
        ("expc", "aggr", "summ"),
        ("expc", "aggr", None),
        ("expc", "coefficients", "tanh"),
        ("expc", "mlp", "two layers"),
        ("combc", "coefficients", "tanh"),
        ("gatv2", "heads", -1),
        ("gen", "norm", "groups"),
        ("pna", "deg", [0]),
    ],
)
def test_a_wrong_value_is_named(name, option, value):
    with pytest.raises(ConfigError) as caught:
        make_conv(name, 5, 4, None, **{option: value})
    assert repr(name) in str(caught.value)
    assert f"{option}={value!r}" in str(caught.value)


def test_pna_asks_for_its_degrees():
    with pytest.raises(ConfigError, match="'pna'.*deg"):
        make_conv("pna", 5, 4, None)


def test_a_users_own_convolution(monkeypatch):
    monkeypatch.setattr("fullrank.nn.resolver._CONVS", dict(_CONVS))

    @register_conv("mine")
    def mine(in_channels, out_channels, edge_dim=None):
        return SAGEConv(in_channels, out_channels)

    assert "mine" in conv_names()
    assert isinstance(make_conv("mine", 5, 4, None), SAGEConv)
    with pytest.raises(ValueError, match="'mine'"):
        register_conv("mine")(mine)
