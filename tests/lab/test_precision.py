import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from fullrank.lab.precision import double, frozen_copy


def test_a_copy_is_made_and_the_model_left_as_it_was():
    model = torch.nn.Sequential(GCNConv(2, 3), torch.nn.Dropout(0.5)).train()
    copy = frozen_copy(model)
    assert {p.dtype for p in copy.parameters()} == {torch.float64}
    assert not copy.training
    assert not any(p.requires_grad for p in copy.parameters())
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert model.training
    assert all(p.requires_grad for p in model.parameters())


def test_only_floating_point_values_change():
    data = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))
    changed = double(data)
    assert changed.x.dtype == torch.float64
    assert changed.edge_index.dtype == torch.int64
    assert data.x.dtype == torch.float32


def test_a_copy_of_a_layer_that_caches_its_graph_reads_every_graph():
    torch.manual_seed(0)
    layer = GCNConv(2, 3, cached=True)
    x, path = torch.randn(3, 2), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    layer(x, path)
    edge = path[:, :2]
    copy = frozen_copy(layer)
    copy(x.double(), path)
    layer.cached, layer._cached_edge_index = False, None
    assert torch.allclose(copy(x.double(), edge).float(), layer(x, edge))
