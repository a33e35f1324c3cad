"""How much the messages of a layer vary at initialisation, against those of GIN."""

import pytest
import torch

from fullrank.nn import (
    CombConv,
    ExpandingConv,
    OneCoefficients,
    OnePlusTanhCoefficients,
    ThreeStageGIN0,
)
from fullrank.nn.neighborhoods import edge_columns
from fullrank.testing import random_graph
from fullrank.train.config import parse
from fullrank.train.model import Model, design_model
from fullrank.train.splitting import make_split
from shared_data import shared_data

WIDTH = 64


def first_products(conv, *graph):
    """What the first linear map of the MLP returns for each pair, without its bias."""
    local = conv.neighborhoods(*graph)
    expanded = conv.expand(local, conv.read_coefficients(local))
    return (expanded @ conv.mlp[0].weight.t()).detach()


def variation(conv, *graph):
    """Standard deviation of the first products over pairs."""
    out = first_products(conv, *graph)
    return out.std(dim=0).square().mean().sqrt().item()


def layers(init):
    return [
        ExpandingConv(WIDTH, WIDTH, 1, init=init),
        ExpandingConv(WIDTH, WIDTH, 8, init=init),
        CombConv(WIDTH, WIDTH, init=init),
    ]


@pytest.mark.parametrize("scale", [1e-3, 0.07, 1.0, 30.0])
def test_balanced_messages_vary_as_those_of_gin_at_every_scale(scale):
    torch.manual_seed(0)
    x, edge_index = random_graph(WIDTH, 200, 800)
    gin = variation(ThreeStageGIN0(WIDTH, WIDTH), scale * x, edge_index)
    for conv in layers("balanced"):
        assert 0.6 < variation(conv, scale * x, edge_index) / gin < 1.15


def test_messages_of_the_paper_hardly_vary_where_features_are_small():
    torch.manual_seed(0)
    x, edge_index = random_graph(WIDTH, 200, 800)
    gin = variation(ThreeStageGIN0(WIDTH, WIDTH), 0.01 * x, edge_index)
    for conv in layers("paper"):
        assert variation(conv, 0.01 * x, edge_index) / gin < 0.1


def test_one_plus_tanh_varies_as_gin_at_every_scale():
    torch.manual_seed(0)
    x, edge_index = random_graph(WIDTH, 200, 800)
    gin = ThreeStageGIN0(WIDTH, WIDTH)
    conv = ExpandingConv(WIDTH, WIDTH, coefficients=OnePlusTanhCoefficients(WIDTH, 4))
    for scale in (1e-3, 1.0, 30.0):
        graph = scale * x, edge_index
        assert 0.9 < variation(conv, *graph) / variation(gin, *graph) < 1.6


def first_step(conv, x, edge_index):
    """Relative change of the first products in the first step of Adam."""
    before = first_products(conv, x, edge_index)
    optimizer = torch.optim.Adam(conv.parameters(), lr=1e-4)
    (conv(x, edge_index) - 1).square().mean().backward()
    optimizer.step()
    after = first_products(conv, x, edge_index)
    return ((after - before).norm() / before.norm()).item()


def test_steps_of_adam_grow_with_the_number_of_balanced_aggregators():
    torch.manual_seed(0)
    x, edge_index = random_graph(WIDTH, 200, 800)

    def change(s, init):
        conv = ExpandingConv(WIDTH, WIDTH, s, init=init)
        return first_step(conv, 0.07 * x, edge_index)

    gin = first_step(ThreeStageGIN0(WIDTH, WIDTH), 0.07 * x, edge_index)
    for s in (1, 4, 16):
        assert 0.8 < change(s, "balanced") / (s * gin) < 1.25
    assert change(16, "paper") < 0.7 * change(16, "balanced")


def test_init_is_for_the_layers_own_coefficients():
    with pytest.raises(ValueError, match="OneCoefficients"):
        ExpandingConv(4, 4, coefficients=OneCoefficients(), init="balanced")
    with pytest.raises(ValueError, match="OneCoefficients"):
        CombConv(4, 4, coefficients=OneCoefficients(4), init="balanced")


SETS = [
    {"name": "MUTAG"},
    {"name": "IMDB-BINARY"},
    pytest.param({"name": "COLLAB"}, marks=pytest.mark.slow),
    pytest.param({"name": "ogbg-molhiv"}, marks=pytest.mark.slow),
    {"name": "qm9", "targets": ["gap"], "limit": 200},
]


@pytest.mark.parametrize("data", SETS, ids=lambda data: data["name"])
def test_first_layer_on_real_graphs(data, tmp_path, monkeypatch):
    monkeypatch.setenv("FULLRANK_ROOT", str(tmp_path))
    if data["name"] != "qm9":
        folder = "ogb" if data["name"].startswith("ogbg") else "tu"
        monkeypatch.setenv("FULLRANK_MIRROR", str(shared_data() / folder))
    config = parse({"data": data, "split": {"kind": "random"}})
    dataset = config.data.load()
    split = make_split(config, dataset)
    batch = next(iter(dataset.loader(range(64), batch_size=64)))

    def measured(**model):
        model = {"layers": 1, "hidden": WIDTH} | model
        torch.manual_seed(0)
        net = Model(design_model(config.changed(model=model), dataset, split)).network
        edges = [batch.edge_index]
        if net.edge_dim is not None:
            edges.append(edge_columns(batch.edge_attr, net.edge_dim).float())
        return variation(net.convs[0], net.encoder(batch.x), *edges)

    gin = measured(conv="gin0")
    for conv in ("expc", "combc"):
        assert 0.5 < measured(conv=conv, init="balanced") / gin < 1.3
