"""Kernels for a CPU with compiled loops, if these are built.

They are those of :mod:`fullrank.nn.kernels.cpu`, except that a loop does in one pass
what takes several torch operations; matrix products are torch's. ExpC* and CombC*
without edge features keep nothing. ``python -m fullrank.nn.kernels`` builds the loops.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from fullrank.nn.kernels import sums
from fullrank.nn.kernels.autograd import Kernel, Operator, register
from fullrank.nn.kernels.cpu import CombineMLPSum, ExpandMLPSum, MLPSum, contiguous
from fullrank.nn.kernels.loops import call
from fullrank.nn.kernels.portable import add_edge_rows


class _OuterProductSum(Kernel):
    @staticmethod
    def forward(kept, x, m, src, dst, size, ptr):
        out = x.new_empty(size, m.size(1), x.size(1))
        x, m, src = contiguous(x, m, src)
        call("outer_sum", out, x, m, src, ptr, size, m.size(1), x.size(1))
        return out

    @staticmethod
    def backward(needed, grad, kept, x, m, src, dst, size, ptr):
        x, m, src, dst = contiguous(x, m, src, dst)
        grad_x, grad_m = torch.zeros_like(x), torch.empty_like(m)
        call(
            "outer_sum_backward", grad, x, m, src, dst, grad_x, grad_m,
            len(src), m.size(1), x.size(1),
        )  # fmt: skip
        return grad_x, grad_m, None, None, None, None


class _MLPSum(MLPSum):
    @staticmethod
    def add_messages(out, z, y, weight, bias, dst, active):
        torch.mm(y, weight.t(), out=z)
        call("add_messages", out, z, bias.contiguous(), dst, active, *z.shape)

    @staticmethod
    def take_gradients(grad, dst, active, grad_bias, out):
        call("take_gradients", out, grad, dst, active, grad_bias, *out.shape)

    @staticmethod
    def gate(grad_y, y, grad_bias):
        call("relu_gate", grad_y, y, grad_bias, *y.shape)
        return grad_y


class _ExpandMLPSum(_MLPSum, ExpandMLPSum):
    @staticmethod
    def first_layer(y, rows, m, attr, edge_weight, bias, src):
        add_edge_rows(y, m, attr, edge_weight, beta=0)
        rows, m, bias = contiguous(rows, m, bias)
        call("expand", y, rows, m, bias, src, int(attr is None), *y.shape, m.size(1))

    @staticmethod
    def weigh_backward(grad_y, rows, m, src, ptr, grad_m, grad_values, size, nodes):
        s, d = m.size(1), grad_y.size(1)
        rows, m = contiguous(rows, m)
        if grad_values is None:
            grad_values = rows.new_empty(size, s, d)
        call(
            "expand_backward", grad_values[nodes], grad_y, rows, m, src, ptr, grad_m,
            len(ptr) - 1, s, d,
        )  # fmt: skip
        return grad_values


class _CombineMLPSum(_MLPSum, CombineMLPSum):
    """One loop without an MLP and edge features; otherwise the loops of a block, which
    compute the coefficients of a pair whenever they need them."""

    @staticmethod
    def gather(nodes, attr, a_edge, x_edge, src, dst):
        return (None, None) if attr is None else (attr @ a_edge, attr @ x_edge)

    @staticmethod
    def multiply(z, pairs, nodes, src, dst):
        call("combine_rows", z, *pairs, *nodes, src, dst, *z.shape)

    @staticmethod
    def multiply_backward(grad_z, pairs, nodes, grads, src, dst, ptr, block):
        call(
            "combine_rows_backward", grad_z, *pairs, *nodes, src, dst, ptr, *grads,
            len(ptr) - 1, *grad_z.shape,
        )  # fmt: skip
        return grad_z, pairs[1]

    @classmethod
    def keep(cls, *args):
        return [] if _is_sum(*args) else super().keep(*args)

    @classmethod
    def forward(cls, kept, *args):
        if not _is_sum(*args):
            return super().forward(kept, *args)
        nodes, src, dst, size = contiguous(*args[:3]), *args[10:13]
        d = nodes[2].size(1)
        out = nodes[2].new_zeros(size, d)
        call("combine", out, *nodes, src, dst, len(src), d)
        return out

    @classmethod
    def backward(cls, needed, grad, kept, *args):
        if not _is_sum(*args):
            return super().backward(needed, grad, kept, *args)
        nodes, src, dst = contiguous(*args[:3]), *args[10:12]
        grads = [torch.zeros_like(x) for x in nodes]
        sizes = len(src), grad.size(1)
        call("combine_backward", grad, *nodes, src, dst, *grads, *sizes)
        return *grads, *(None,) * 11


def _is_sum(a_dst, a_src, x_src, edge_attr, a_edge, x_edge, w1, *_) -> bool:
    return edge_attr is None and w1 is None


OPERATORS: dict[Callable[..., Tensor], Operator] = {
    function: register("native", function, kernel)
    for function, kernel in (
        (sums.outer_product_sum, _OuterProductSum),
        (sums.expand_mlp_sum, _ExpandMLPSum),
        (sums.combine_mlp_sum, _CombineMLPSum),
    )
}
