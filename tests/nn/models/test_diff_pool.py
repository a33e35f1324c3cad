import torch
from torch_geometric.utils import to_dense_adj

from fullrank.nn.models import DiffPool
from nn.models.graphs import random_batch


def test_pooling_and_its_losses_by_hand():
    torch.manual_seed(0)
    net = DiffPool(3, 8, 1, num_layers=1, clusters=8).double()
    batch = random_batch(6)
    h = net.encoder(batch.x)
    adj = to_dense_adj(batch.edge_index).double()[0]
    x, s = net.embed(h, batch.edge_index), net.assign(h, batch.edge_index).softmax(1)
    read = [x.mean(dim=0)]
    penalty = (adj - s @ s.T).norm() / adj.numel()
    penalty = penalty - (s * (s + 1e-15).log()).sum(dim=1).mean()
    x, adj = s.T @ x, s.T @ adj @ s
    read.append(x.mean(dim=0))
    z = net.pooled_embed(x, adj)[0]
    s = net.pooled_assign(x, adj)[0].softmax(dim=1)
    penalty = penalty + (adj - s @ s.T).norm() / adj.numel()
    penalty = penalty - (s * (s + 1e-15).log()).sum(dim=1).mean()
    read.append(net.last(s.T @ z, s.T @ adj @ s)[0].mean(dim=0))
    assert torch.allclose(net(batch)[0], net.head(torch.cat(read)), atol=1e-10)
    assert torch.allclose(net.penalty, penalty, atol=1e-10)
