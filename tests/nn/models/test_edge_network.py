import pytest
import torch
from torch_geometric.nn import NNConv

from fullrank.nn import backend
from fullrank.nn.models.edge_network import EdgeNetworkConv
from nn.models.graphs import random_batch


@pytest.mark.parametrize("root_weight", [True, False])
@pytest.mark.parametrize("name", ["auto", "portable", "plain"])
def test_is_pygs_nnconv(name, root_weight):
    torch.manual_seed(0)
    conv = EdgeNetworkConv(4, 2, 5, root_weight).double()
    reference = NNConv(4, 4, conv.nn, root_weight=root_weight).double()
    reference.load_state_dict(conv.state_dict())
    batch = random_batch(6, 1, 9)
    # edges in any order, one of them twice, and a self-loop
    order = torch.randperm(batch.num_edges)
    loop = torch.zeros(2, 1, dtype=torch.long)
    parts = batch.edge_index[:, order], batch.edge_index[:, :1], loop
    edge_index = torch.cat(parts, dim=1)
    edge_attr = torch.randn(edge_index.size(1), 2, dtype=torch.double)

    def gradients(layer):
        torch.manual_seed(1)
        x = torch.randn(batch.num_nodes, 4, dtype=torch.double, requires_grad=True)
        e = edge_attr.clone().requires_grad_()
        out = layer(x, edge_index, e)
        inputs = [x, e, *layer.parameters()]
        return [out, *torch.autograd.grad(out.sin().sum(), inputs)]

    with backend(name):
        found = gradients(conv)
    for one, other in zip(found, gradients(reference), strict=True):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-12)
