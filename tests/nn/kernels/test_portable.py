"""The sums are their formulas, and never hold a tensor of edges times s d."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fullrank.nn import ExpandingConv
from fullrank.nn.kernels.portable import (
    outer_product_sum as spread,
)
from fullrank.nn.kernels.portable import (
    weighted_edge_rows as mix_edges,
)
from fullrank.nn.kernels.portable import (
    weighted_rows as mix,
)
from nn.plain_formula import plain_layer, sum_to
from nn.strategies import features

EDGES, S, WIDTH = 20, 3, 5


def test_mix():
    m, src = features(EDGES, S, 0), torch.randint(7, (EDGES,))
    values = features(7 * S, WIDTH, 1).view(7, S, WIDTH)
    truth = torch.einsum("ek,ekh->eh", m, values[src])
    torch.testing.assert_close(mix(values, m, src), truth)


def test_spread():
    m, x = features(EDGES, S, 0), features(7, WIDTH, 1)
    src, dst = torch.randint(7, (EDGES,)), torch.randint(6, (EDGES,))
    outer = torch.einsum("ek,ei->eki", m, x[src]).flatten(1)
    truth = sum_to(outer, dst, 6).view(6, S, WIDTH)
    torch.testing.assert_close(spread(x, m, src, dst, 6), truth)


def test_mix_edges():
    m, edge_attr = features(EDGES, S, 0), features(EDGES, 2, 1)
    weight = features(S * 2, WIDTH, 2).view(S, 2, WIDTH)
    truth = torch.einsum("ek,eq,kqh->eh", m, edge_attr, weight)
    torch.testing.assert_close(mix_edges(m, edge_attr, weight), truth)


class LargestTensor(TorchDispatchMode):
    """Remembers the largest result of any operation."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for result in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(result, torch.Tensor):
                self.numel = max(self.numel, result.numel())
        return out


@pytest.mark.parametrize("edge_dim", [None, 3, 16, (5, 6, 2)])
@pytest.mark.parametrize("re_sum", [True, False])
@pytest.mark.parametrize("double_backward", [False, True])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_no_tensor_of_edges_times_s_d(edge_dim, re_sum, double_backward, activation):
    num_nodes, num_edges, width, s = 12, 700, 16, 8
    conv = ExpandingConv(
        width, width, s, re_sum=re_sum, edge_dim=edge_dim, activation=activation
    )
    x = torch.randn(num_nodes, width, requires_grad=True)
    edge_index = torch.randint(num_nodes, (2, num_edges))
    edge_attr = None
    if isinstance(edge_dim, int):
        edge_attr = torch.randn(num_edges, edge_dim, requires_grad=True)
    elif edge_dim is not None:
        edge_attr = torch.ones(num_edges, 3, dtype=torch.long)
    with LargestTensor() as largest:
        out = conv(x, edge_index, edge_attr)
        (grad,) = torch.autograd.grad(
            out.square().sum(), x, create_graph=double_backward
        )
        if double_backward:
            grad.square().sum().backward()
    assert largest.numel < num_edges * s * width / 2


def test_the_watch_sees_the_plain_formula():
    conv = ExpandingConv(16, 16, 8)
    x, edge_index = torch.randn(12, 16), torch.randint(12, (2, 700))
    with LargestTensor() as largest:
        plain_layer(conv, x, edge_index, expanding=True)
    assert largest.numel >= 600 * 8 * 16
