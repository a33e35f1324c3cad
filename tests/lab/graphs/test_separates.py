import pytest
import torch
from torch_geometric.nn import GINConv, global_add_pool

from fullrank.errors import ConfigError, ModelError
from fullrank.lab import PairNet, load_suite, separates
from fullrank.nn import GraphNet
from shared_data import shared_data


class Gin(torch.nn.Module):
    def __init__(self, in_channels, channels=16, num_layers=5):
        super().__init__()
        widths = [in_channels] + [channels] * num_layers
        self.convs = torch.nn.ModuleList(
            GINConv(
                torch.nn.Sequential(
                    torch.nn.Linear(width, channels),
                    torch.nn.Tanh(),
                    torch.nn.Linear(channels, channels),
                )
            )
            for width in widths[:-1]
        )

    def forward(self, batch):
        x = batch.x
        for conv in self.convs:
            x = conv(x, batch.edge_index).tanh()
        return global_add_pool(x, batch.batch, batch.num_graphs)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def test_message_passing_is_exactly_as_strong_as_1wl_on_the_atlas():
    suite = load_suite("atlas")
    separation = separates(Gin(suite.num_features), suite)
    assert torch.equal(separation.separated, suite.wl_separated())


@pytest.mark.parametrize("conv", ["expc", "combc"])
def test_ours_with_coefficients_from_features_stay_within_1wl(conv):
    model = GraphNet(1, 8, 8, 3, conv=conv, readout="mean")
    separation = separates(model, load_suite("classic"), relabelings=8)
    assert separation.count == 0
    assert separation.by_group()["cfi"] == (0, 5)
    assert str(separation) == "0 of 20 pairs of classic"


def test_embeddings_that_are_not_finite_are_refused():
    model = GraphNet(1, 8, 8, 3)
    torch.nn.init.constant_(model.encoder.bias, float("nan"))
    with pytest.raises(ModelError):
        separates(model, load_suite("csl"), relabelings=2)


@pytest.mark.parametrize("conv", ["expc", "combc"])
def test_ours_are_as_strong_as_1wl_on_almost_all_of_the_atlas(conv):
    suite = load_suite("atlas")
    model = GraphNet(1, 16, 16, 4, conv=conv)
    told = separates(model, suite, relabelings=8).separated
    by_1wl = suite.wl_separated()
    assert not told[~by_1wl].any()
    assert told[by_1wl].double().mean() > 0.99


def test_the_3wl_reference_goes_beyond_1wl_and_not_beyond_3wl():
    """3-WL confuses strongly regular graphs of equal parameters, and CFI graphs over
    bases of treewidth 3 or more: here those over the prism and over K₅."""
    separation = separates(PairNet(1), load_suite("classic"), relabelings=2)
    told = separation.by_group()
    assert told["molecules"] == (1, 1)
    assert told["cycles"][0] >= 3
    assert told["srg"] == (0, 10)
    assert 2 <= told["cfi"][0] <= 3
    assert not separation.separated[-2:].any()


@pytest.mark.slow
def test_brec():
    suite = load_suite("brec", shared_data() / "expressiveness")
    for conv in ("expc", "combc"):
        model = GraphNet(1, 8, 8, 3, conv=conv, readout="mean")
        assert separates(model, suite).count == 0
    told = separates(PairNet(1, channels=8), suite, relabelings=2).by_group()
    assert told["basic"] == (60, 60)
    assert told["regular"] == (50, 50)
    assert told["extension"][0] >= 90
    for beyond in ("str", "4vtx", "dr"):
        assert told[beyond][0] == 0


def test_isomorphic_copies_are_never_told_apart():
    copies = load_suite("csl").isomorphic_copies()
    assert separates(PairNet(1), copies).count == 0


class NodesByName(torch.nn.Module):
    """Depends on the names of the nodes: nothing it says is about the graph."""

    def forward(self, batch):
        name = (
            torch.arange(batch.num_nodes, dtype=batch.x.dtype) - batch.ptr[batch.batch]
        )
        source, target = batch.edge_index
        noisy = torch.zeros_like(name).index_add_(
            0, target, name[source] * name[target]
        )
        return global_add_pool(noisy.sin().view(-1, 1), batch.batch, batch.num_graphs)


def test_what_changes_with_the_labels_is_not_counted():
    assert separates(NodesByName(), load_suite("csl")).count == 0


def test_a_difference_of_rounding_size_is_not_counted():
    class Nudge(torch.nn.Module):
        def __init__(self, size):
            super().__init__()
            self.size = size

        def forward(self, batch):
            return 1 + self.size * torch.arange(batch.num_graphs).double().view(-1, 1)

    suite = load_suite("csl")
    assert separates(Nudge(1e-12), suite).count == 0
    assert separates(Nudge(1e-6), suite).count == len(suite)


def test_a_transform_runs_after_each_relabeling():
    def name_nodes(batch):
        batch.x = torch.arange(batch.num_nodes).double().view(-1, 1)
        return batch

    suite = load_suite("csl")
    assert separates(Gin(1), suite, transform=name_nodes).count == 0


def test_the_model_is_left_as_it_was():
    model = Gin(1).train()
    separates(model, load_suite("csl"), relabelings=2)
    assert model.training
    assert next(model.parameters()).dtype == torch.float32


def test_one_relabeling_says_nothing_about_relabeling():
    with pytest.raises(ConfigError, match="1"):
        separates(Gin(1), load_suite("csl"), relabelings=1)


def test_rows_of_nodes_are_averaged_however_the_layer_is_called():
    suite = load_suite("atlas")
    layer = GINConv(torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh()))
    by_itself = separates(layer, suite, relabelings=2)
    by_call = separates(
        layer,
        suite,
        relabelings=2,
        call=lambda layer, batch: layer(batch.x, batch.edge_index),
    )
    assert by_itself.count > 0
    assert torch.equal(by_call.gap, by_itself.gap)


def test_one_number_per_graph_is_a_row():
    class Number(Gin):
        def forward(self, batch):
            return super().forward(batch).sum(dim=1)

    suite = load_suite("csl")
    assert separates(Number(1), suite, relabelings=2).gap.shape == (len(suite),)


def test_rows_of_something_else_are_refused():
    class Edges(torch.nn.Module):
        def forward(self, batch):
            return batch.x[batch.edge_index[0]]

    with pytest.raises(ConfigError, match="a row for each"):
        separates(Edges(), load_suite("csl"), relabelings=2)
