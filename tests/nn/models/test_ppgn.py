import pytest
import torch

from fullrank.errors import ConfigError
from fullrank.nn.models import PPGN
from nn.models.graphs import random_graph


def test_a_block_by_hand():
    torch.manual_seed(0)
    net = PPGN(3, 4, 1, num_layers=1, edge_dim=2).double()
    graph = random_graph(5, 0)
    tensor = torch.zeros(5, 5, 4 + 1 + 1 + 2, dtype=torch.double)
    tensor[range(5), range(5), :4] = net.encoder(graph.x)
    for (u, v), attr in zip(graph.edge_index.T.tolist(), graph.edge_attr, strict=True):
        tensor[u, v, 4] = 1
        tensor[u, v, 6:] = attr
    tensor[..., 5] = torch.cdist(graph.pos, graph.pos)
    block = net.blocks[0]
    left, right = block.left(tensor), block.right(tensor)
    product = torch.stack([left[..., c] @ right[..., c] for c in range(4)], -1)
    out = block.skip(torch.cat([tensor, product], dim=-1))
    own = torch.eye(5, dtype=torch.bool)
    read = torch.cat([out[own].amax(dim=0), out[~own].amax(dim=0)])
    assert torch.allclose(net(graph)[0], net.head(read), atol=1e-10)
    net.readout = "sum"
    read = torch.cat([out[own].sum(dim=0), out[~own].sum(dim=0)])
    assert torch.allclose(net(graph)[0], net.head(read), atol=1e-10)


def test_unknown_readout():
    with pytest.raises(ConfigError, match="'mean'"):
        PPGN(3, 4, 1, readout="mean")
