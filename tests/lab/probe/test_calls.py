import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, SAGEConv

from fullrank.errors import ConfigError
from fullrank.lab.probe.calls import record_calls
from fullrank.nn import GraphNet


def graph():
    return Data(x=torch.randn(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]))


class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_a = GCNConv(2, 2)
        self.block = torch.nn.ModuleDict({"inner": SAGEConv(2, 4)})

    def forward(self, batch):
        h = self.conv_a(x=batch.x, edge_index=batch.edge_index)
        h = self.conv_a(h, batch.edge_index)
        return self.block["inner"](h, batch.edge_index)


def test_every_call_is_recorded_in_order_with_what_it_was_given():
    model, data = Twice(), graph()
    calls = record_calls(model, data)
    assert [call.name for call in calls] == ["conv_a", "conv_a", "block.inner"]
    assert torch.equal(calls[0].x, data.x)
    once = model.conv_a(data.x, data.edge_index)
    assert torch.equal(calls[1].x, once)
    assert calls[1].edge_attr is None


def test_a_layer_with_edge_features_around_it_is_one_layer():
    data = graph()
    data.edge_attr = torch.randn(2, 3)
    model = GraphNet(2, 4, 1, 2, conv="sage", edge_dim=3)
    calls = record_calls(model, data)
    assert [call.name for call in calls] == ["convs.0", "convs.1"]
    assert torch.equal(calls[0].edge_attr, data.edge_attr)


class Single(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(2, 2)

    def forward(self, batch):
        weights = torch.tensor([0.5, 2.0])
        return self.conv(batch.x, batch.edge_index, edge_weight=weights)


def test_a_model_may_call_its_layer_conv_and_give_it_weights():
    (call,) = record_calls(Single(), graph())
    assert call.name == "conv"
    assert call.edge_attr.tolist() == [0.5, 2.0]


def test_calls_that_the_probe_cannot_read_are_refused():
    data = graph()

    def bipartite(layer, data):
        return layer((data.x, data.x), data.edge_index)

    with pytest.raises(ConfigError, match="SAGEConv"):
        record_calls(SAGEConv(2, 2), data, bipartite)
