import torch
from torch_geometric.utils import softmax

from fullrank.nn import AttentionCoefficients


def test_attention(local):
    f = AttentionCoefficients(5, 3)
    pairs = torch.cat([local.x_dst[local.dst], local.x_src[local.src]], dim=1)
    logits = torch.nn.functional.leaky_relu(pairs @ f.lin.weight.t(), 0.2)
    assert torch.allclose(f(local), softmax(logits, local.dst), atol=1e-6)
