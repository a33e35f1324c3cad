import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import (
    GATConv,
    GATv2Conv,
    GCNConv,
    GENConv,
    GINConv,
    PNAConv,
    RGCNConv,
    SAGEConv,
    TransformerConv,
)

from fullrank.errors import ConfigError, DataError
from fullrank.lab import profile
from fullrank.nn import (
    CombConv,
    ExpandingConv,
    GraphNet,
    ThreeStageGAT,
    ThreeStageGCN,
    ThreeStageGIN0,
)


@pytest.fixture
def graph():
    """Unequal degrees, a self-loop, a node without neighbours, two equal nodes."""
    torch.manual_seed(0)
    edges = torch.randint(0, 19, (2, 60))
    edges = torch.cat([edges, edges.flip(0), torch.tensor([[3], [3]])], dim=1)
    x = torch.randn(20, 5, dtype=torch.float64)
    x[7] = x[8]
    return Data(x=x, edge_index=edges.unique(dim=1))


def neighbors_with_self(graph, v):
    source, target = graph.edge_index
    return [v, *[int(u) for u in source[target == v] if u != v]]


@pytest.mark.parametrize("s", [1, 2, 4, 8])
def test_ranks_are_those_of_the_plain_matrices(graph, s):
    conv = ExpandingConv(5, 6, num_aggregators=s, re_sum=False).double()
    (layer,) = profile(conv, graph, rtol=1e-9)
    lin = conv.coefficients.lin
    weight, bias = lin.weight.detach().numpy(), lin.bias.detach().numpy()
    x = graph.x.numpy()
    for v in range(20):
        around = neighbors_with_self(graph, v)
        h = x[around]
        pairs = np.hstack([np.repeat(x[v : v + 1], len(around), axis=0), h])
        m = np.tanh(pairs @ weight.T + bias).T
        ranks = [np.linalg.matrix_rank(a, tol=1e-9) for a in (m, h, m @ h)]
        assert layer.size[v] == len(around)
        assert [layer.values[f"rank {c}"][v] for c in "MHR"] == ranks
        assert layer.values["kept"][v] == pytest.approx(ranks[2] / ranks[1])


def test_by_degree_is_the_mean_over_nodes_of_that_size(graph):
    (layer,) = profile(ExpandingConv(5, 6, re_sum=False).double(), graph)
    by_degree = layer.by_degree("rank R")
    assert sorted(by_degree) == layer.size.unique().tolist()
    for n, value in by_degree.items():
        chosen = layer.values["rank R"][layer.size == n]
        assert value == pytest.approx(float(chosen.double().mean()))
    assert layer.mean("rank R") <= 4
    with pytest.raises(ValueError, match="'rank Q'"):
        layer.mean("rank Q")


def test_what_was_not_measured_says_why(graph):
    """R = M H is never formed where the MLP runs before the sum."""
    (layer,) = profile(ExpandingConv(5, 6).double(), graph)
    assert set(layer.quantities()) >= {"rank M", "rank H", "sampling"}
    for quantity in ("rank R", "kept"):
        assert quantity not in layer.quantities()
        assert "M H" in layer.why_not(quantity)
    assert layer.why_not("rank M") == ""
    (layer,) = profile(GCNConv(5, 6).double(), graph)
    assert all(map(layer.why_not, ("rank M", "rank R", "kept", "sampling")))


def test_arguments_that_a_neighbourhood_lacks_are_named(graph):
    layer = RGCNConv(5, 6, num_relations=1).double()

    def call(layer, data):
        return layer(data.x, data.edge_index, torch.zeros(data.num_edges).long())

    (probed,) = profile(layer, graph, call=call)
    assert probed.quantities() == []
    assert "edge_type" in probed.why_not("rank J")


@pytest.mark.parametrize("make", [ExpandingConv, CombConv])
def test_sampling_is_the_fraction_of_neighbours_with_a_positive_message(graph, make):
    conv = make(5, 6).double()
    (layer,) = profile(conv, graph)
    m = conv.coefficients(conv.neighborhoods(graph.x, graph.edge_index)).detach()
    local = conv.neighborhoods(graph.x, graph.edge_index)
    for v in (0, 3, 19):
        pairs = (local.dst == v).nonzero().flatten()
        fractions = torch.zeros(6, dtype=torch.float64)
        for pair in pairs:
            h = graph.x[local.src[pair]]
            if make is ExpandingConv:
                expanded = torch.outer(m[pair], h).flatten()
            else:
                expanded = m[pair] * h
            fractions += (conv.mlp(expanded) > 0).double()
        assert torch.allclose(layer.sampling[v], fractions / len(pairs))
    assert 0 < layer.mean("sampling") < 1


def test_comb_conv_has_its_coefficients_measured_only(graph):
    (layer,) = profile(CombConv(5, 6).double(), graph)
    assert layer.quantities() == ["rank M", "effective rank M", "sampling"]
    assert layer.values["rank M"].max() <= 5


@pytest.mark.parametrize(
    ("conv", "most"),
    [(ThreeStageGCN(5, 6), 1), (ThreeStageGIN0(5, 6), 1), (ThreeStageGAT(5, 6, 3), 3)],
    ids=["gcn", "gin0", "gat"],
)
def test_three_stage_layers_keep_no_more_than_their_aggregators(graph, conv, most):
    (layer,) = profile(conv.double(), graph)
    assert layer.how == "coefficients"
    assert layer.values["rank R"].max() <= most
    assert layer.sampling is None
    assert layer.values["kept"].min() > 0


def linear_layers():
    mlp = torch.nn.Linear(5, 6)
    return [
        (GCNConv(5, 6), 1),
        (GINConv(mlp), 1),
        (SAGEConv(5, 6), 1),
        (GATConv(5, 6), 1),
        (GATConv(5, 6, heads=3), 3),
        (GATv2Conv(5, 6, heads=2), 2),
    ]


@pytest.mark.parametrize(("conv", "most"), linear_layers(), ids=repr)
def test_other_layers_have_as_much_rank_as_they_have_weights(graph, conv, most):
    (layer,) = profile(conv.double(), graph)
    assert layer.how == "jacobian"
    expected = torch.minimum(layer.size, torch.tensor(most))
    # Equal neighbours get equal attention, which may cost one rank.
    assert (layer.values["rank J"] >= expected - 1).all()
    assert layer.values["rank J"].max() == expected.max()
    assert "kept" not in layer.quantities()


@pytest.mark.parametrize(
    "conv",
    [
        TransformerConv(5, 6),
        GENConv(5, 6),
        SAGEConv(5, 6, aggr="max"),
        PNAConv(5, 6, ["mean", "std"], ["identity"], deg=torch.tensor([1, 5, 5, 9])),
    ],
    ids=repr,
)
def test_layers_whose_weights_move_have_a_column_of_their_own(graph, conv):
    (layer,) = profile(conv.double(), graph)
    assert layer.how == "moving jacobian"
    assert "rank J (moving)" in layer.values
    assert "rank J" not in layer.values


@pytest.mark.parametrize("conv", ["expc", "combc", "gat", "gatv2", "sage", "gen"])
def test_every_convolution_of_a_model_is_found_and_the_model_left_as_it_was(
    graph, conv
):
    graph.edge_attr = torch.randn(graph.num_edges, 3)
    graph.x = graph.x.float()
    model = GraphNet(5, 8, 1, 3, conv=conv, edge_dim=3, batch_norm=True).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    layers = profile(model, graph)
    assert [layer.name for layer in layers] == ["convs.0", "convs.1", "convs.2"]
    assert all(part.training for part in model.modules())
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


class Embedding(torch.nn.Module):
    def forward(self, batch):
        return batch.x


def test_a_batch_without_neighbours_is_refused():
    lonely = Data(x=torch.ones(3, 5), edge_index=torch.tensor([[1], [1]]))
    with pytest.raises(DataError, match="GCNConv"):
        profile(GCNConv(5, 6), lonely)


def test_a_model_without_convolutions_is_refused(graph):
    with pytest.raises(ConfigError, match="Embedding"):
        profile(Embedding(), graph)
