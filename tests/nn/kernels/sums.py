"""The sums over edges written out, and the memory that a layer takes for them."""

import os
import shutil

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fullrank.nn import ExpandingConv, backend
from nn.plain_formula import sum_to
from nn.strategies import features

needs_compiler = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "c++")) is None, reason="no C++ compiler"
)
NATIVE = pytest.param("native", marks=needs_compiler)

EDGES, NODES, SIZE, S, Q, WIDTH = 20, 7, 6, 3, 2, 5


def ends(order="src"):
    """Sources and destinations, sorted by one of them, and where each node begins."""
    generator = torch.Generator().manual_seed(0)
    src = torch.randint(NODES, (EDGES,), generator=generator)
    dst = torch.randint(SIZE, (EDGES,), generator=generator)
    key, size = (src, NODES) if order == "src" else (dst, SIZE)
    permutation = key.argsort()
    counts = torch.bincount(key, minlength=size)
    ptr = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)])
    return src[permutation], dst[permutation], ptr


def weighted_rows():
    m, (src, *_) = features(EDGES, S, 0), ends()
    values = features(NODES * S, WIDTH, 1).view(NODES, S, WIDTH)
    return (values, m, src), torch.einsum("ek,ekh->eh", m, values[src])


def weighted_edge_rows():
    m, edge_attr = features(EDGES, S, 0), features(EDGES, Q, 1)
    weight = features(S * Q, WIDTH, 2).view(S, Q, WIDTH)
    truth = torch.einsum("ek,eq,kqh->eh", m, edge_attr, weight)
    return (m, edge_attr, weight), truth


def outer_product_sum():
    m, x = features(EDGES, S, 0), features(NODES, WIDTH, 1)
    src, dst, ptr = ends("dst")
    outer = torch.einsum("ek,ei->eki", m, x[src]).flatten(1)
    truth = sum_to(outer, dst, SIZE).view(SIZE, S, WIDTH)
    return (x, m, src, dst, SIZE, ptr), truth


def mlp_of(width):
    return (
        features(4, width, 10),
        features(1, 4, 11)[0],
        features(3, 4, 12),
        features(1, 3, 13)[0],
    )


def expand_mlp_sum(edge_features):
    (values, m, src), hidden = weighted_rows()
    _, bias1, weight2, bias2 = mlp_of(WIDTH)
    bias1, weight2 = features(1, WIDTH, 11)[0], features(3, WIDTH, 12)
    (_, dst, ptr), edge_attr, weight = ends(), None, None
    if edge_features:
        (_, edge_attr, weight), more = weighted_edge_rows()
        hidden = hidden + more
    messages = ((hidden + bias1).relu() @ weight2.t() + bias2).relu()
    args = (values, m, edge_attr, weight, bias1, weight2, bias2, src, dst, SIZE, ptr)
    return args, sum_to(messages, dst, SIZE)


def combine_mlp_sum(edge_features, with_mlp):
    a_dst, a_src = features(SIZE, WIDTH, 0), features(NODES, WIDTH, 1)
    x, (src, dst, ptr) = features(NODES, WIDTH, 2), ends()
    a, h = a_dst[dst] + a_src[src], x[src]
    edge_attr = a_edge = x_edge = None
    if edge_features:
        edge_attr, a_edge = features(EDGES, Q, 3), features(Q, WIDTH, 4)
        x_edge = features(Q, WIDTH, 5)
        a, h = a + edge_attr @ a_edge, h + edge_attr @ x_edge
    z, mlp = a.tanh() * h, (None,) * 4
    if with_mlp:
        mlp = mlp_of(WIDTH)
        z = (z @ mlp[0].t() + mlp[1]).relu()
        z = (z @ mlp[2].t() + mlp[3]).relu()
    args = (a_dst, a_src, x, edge_attr, a_edge, x_edge, *mlp, src, dst, SIZE, ptr)
    return args, sum_to(z, dst, SIZE)


#: By the name of the function: arguments, and the sum written out.
SUMS = {
    "weighted_rows": weighted_rows,
    "weighted_edge_rows": weighted_edge_rows,
    "outer_product_sum": outer_product_sum,
    "expand_mlp_sum": lambda: expand_mlp_sum(False),
    "expand_mlp_sum with edge features": lambda: expand_mlp_sum(True),
    "combine_mlp_sum": lambda: combine_mlp_sum(False, True),
    "combine_mlp_sum with edge features": lambda: combine_mlp_sum(True, True),
    "combine_mlp_sum without an MLP": lambda: combine_mlp_sum(True, False),
}


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


def largest_tensor_of_a_layer(
    name, edge_dim, re_sum, activation, double_backward=False
):
    """Run ExpandingConv forward and backward; return the size of the largest tensor on
    the way, and the number of edges times s d."""
    num_nodes, num_edges, width, s = 12, 700, 16, 8
    conv = ExpandingConv(
        width, width, s, re_sum=re_sum, edge_dim=edge_dim, activation=activation
    )
    x = torch.randn(num_nodes, width, requires_grad=True)
    edge_index = torch.stack([torch.arange(num_edges) % 12, torch.arange(num_edges)])
    edge_index[1] = edge_index[1] // 12 % 11 + edge_index[0] + 1
    edge_index[1] %= num_nodes  # never a self-loop
    edge_attr = None
    if isinstance(edge_dim, int):
        edge_attr = torch.randn(num_edges, edge_dim, requires_grad=True)
    elif edge_dim is not None:
        edge_attr = torch.ones(num_edges, 3, dtype=torch.long)
    with LargestTensor() as largest, backend(name):
        out = conv(x, edge_index, edge_attr)
        (grad,) = torch.autograd.grad(
            out.square().sum(), x, create_graph=double_backward
        )
        if double_backward:
            grad.square().sum().backward()
    return largest.numel, num_edges * s * width
