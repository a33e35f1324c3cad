import torch

from fullrank.nn.models import MPNN
from nn.models.graphs import random_graph


def test_a_step_by_hand():
    torch.manual_seed(0)
    net = MPNN(3, 4, 1, edge_dim=2).double()
    graph = random_graph(5, 0)
    h = torch.randn(5, 4, dtype=torch.double)
    matrices = net.conv.nn(graph.edge_attr).view(-1, 4, 4)
    message = torch.zeros(5, 4, dtype=torch.double)
    for (u, v), matrix in zip(graph.edge_index.T.tolist(), matrices, strict=True):
        message[v] += h[u] @ matrix
    message = (message + net.conv.bias).relu()
    w_in, w_h = net.gru.weight_ih, net.gru.weight_hh
    reset_in, update_in, new_in = (message @ w_in.T + net.gru.bias_ih).chunk(3, dim=1)
    reset_h, update_h, new_h = (h @ w_h.T + net.gru.bias_hh).chunk(3, dim=1)
    update = (update_in + update_h).sigmoid()
    new = (new_in + (reset_in + reset_h).sigmoid() * new_h).tanh()
    expected = (1 - update) * new + update * h
    found = net.step(h, graph.edge_index, graph.edge_attr)
    assert torch.allclose(found, expected, atol=1e-12)
