"""Kernels for any device and precision that recompute instead of storing.

They iterate over the pairs in blocks, keep only their arguments for the backward pass,
and recompute the rows of a block there. Half precision is accumulated in float32.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fullrank.nn.functional import take_rows
from fullrank.nn.kernels import sums
from fullrank.nn.kernels.autograd import Kernel, register
from fullrank.nn.kernels.sums import coefficient_groups, outer_products

BLOCK_BYTES = 1 << 25  # of one block x width tensor, on any machine


def blocks(pairs: int, width: int, itemsize: int) -> Iterator[slice]:
    """Cut the pairs into blocks of ``BLOCK_BYTES``."""
    rows = max(1, BLOCK_BYTES // (width * itemsize))
    for first in range(0, pairs, rows):
        yield slice(first, min(first + rows, pairs))


def part(x: Tensor | None, block: slice) -> Any:
    return None if x is None else x[block]


def zeros(*like: Tensor | None) -> list[Any]:
    """Return accumulators for gradients: zeros in at least single precision."""
    return [
        None if x is None else torch.zeros(x.shape, dtype=_wide(x), device=x.device)
        for x in like
    ]


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def narrow(like: Tensor | None, x: Tensor | None) -> Any:
    """Convert an accumulator to the precision of its argument."""
    return None if x is None or like is None else x.to(like.dtype)


def add_rows(out: Tensor, index: Tensor, rows: Tensor) -> None:
    """Add rows to the rows ``index`` of ``out``."""
    out.index_add_(0, index, rows.to(out.dtype))


def weigh(values: Tensor, m: Tensor, src: Tensor) -> Tensor:
    """:func:`~fullrank.nn.kernels.sums.weighted_rows` with in-place addition."""
    y = m[:, 0, None] * take_rows(values[:, 0], src)
    for k in range(1, m.size(1)):
        y.addcmul_(m[:, k, None], take_rows(values[:, k], src))
    return y


def weigh_backward(
    grad: Tensor, values: Tensor, m: Tensor, src: Tensor, planes: Tensor
) -> Tensor:
    """Add to the gradient of ``values``, laid out as :func:`planes_like`, and return
    that of ``m``."""
    grad_m = torch.empty_like(m)
    for k, plane in enumerate(planes):
        grad_m[:, k] = (grad * take_rows(values[:, k], src)).sum(1)
        add_rows(plane, src, grad * m[:, k, None])
    return grad_m


def planes_like(size: int, s: int, x: Tensor) -> Tensor:
    """Return accumulators for ``s`` rows per node, ``[s, N, h]``: adding rows is
    several times faster in this layout than in ``[N, s, h]``."""
    return torch.zeros(s, size, x.size(-1), dtype=_wide(x), device=x.device)


def interleaved(planes: Tensor, like: Tensor) -> Tensor:
    """Return the accumulators as ``[N, s, h]``."""
    out = like.new_empty(planes.size(1), planes.size(0), planes.size(2))
    return out.copy_(planes.transpose(0, 1))


def add_edge_rows(
    y: Tensor, m: Tensor, attr: Tensor | None, weight: Any, beta: int = 1
) -> Tensor:
    """Add :func:`~fullrank.nn.kernels.sums.weighted_edge_rows`, if there are any, to
    ``beta * y``."""
    if attr is not None:
        for k in coefficient_groups(weight):
            pairs = outer_products(m[:, k], attr)
            y.addmm_(pairs, weight[k].flatten(0, 1), beta=beta)
            beta = 1
    return y


def edge_rows_backward(
    grad: Tensor,
    m: Tensor,
    attr: Tensor,
    weight: Tensor,
    grad_m: Tensor,
    grad_attr: Tensor | None,
    grad_weight: Tensor,
) -> None:
    """Add to the gradients of :func:`add_edge_rows`."""
    for k in coefficient_groups(weight):
        flat = weight[k].flatten(0, 1)
        grad_weight[k] += (outer_products(m[:, k], attr).t() @ grad).view_as(weight[k])
        products = (grad @ flat.t()).view(len(m), *weight[k].shape[:2])
        grad_m[:, k] += (products @ attr[:, :, None]).squeeze(2)
        if grad_attr is not None:
            grad_attr += (m[:, None, k] @ products).squeeze(1)


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(x, weight, bias).relu_()


def relu_gate(grad: Tensor, output: Tensor) -> Tensor:
    """Return the gradient of a ReLU's input, given its output."""
    return torch.ops.aten.threshold_backward(grad, output, 0)


def linear_backward(
    grad: Tensor, x: Tensor, weight: Tensor, grad_weight: Tensor, grad_bias: Tensor
) -> Tensor:
    """Add to the gradients of a linear layer's weights; return that of its input."""
    grad_weight += grad.t() @ x
    grad_bias += grad.sum(0, dtype=grad_bias.dtype)
    return grad @ weight


class _WeightedRows(Kernel):
    @staticmethod
    def forward(kept, values, m, src):
        y = values.new_empty(len(src), values.size(2))
        for e in blocks(len(src), values.size(2), values.itemsize):
            y[e] = weigh(values, m[e], src[e])
        return y

    @staticmethod
    def backward(needed, grad, kept, values, m, src):
        planes = planes_like(len(values), m.size(1), values)
        grad_m = m.new_empty(m.shape)
        for e in blocks(len(src), values.size(2), values.itemsize):
            grad_m[e] = weigh_backward(grad[e], values, m[e], src[e], planes)
        return interleaved(planes, values), grad_m, None


class _OuterProductSum(Kernel):
    @staticmethod
    def forward(kept, x, m, src, dst, size, ptr):
        planes = planes_like(size, m.size(1), x)
        for e in blocks(len(src), x.size(1), x.itemsize):
            rows = take_rows(x, src[e])
            for k, plane in enumerate(planes):
                add_rows(plane, dst[e], rows * m[e, k, None])
        return interleaved(planes, x)

    @staticmethod
    def backward(needed, grad, kept, x, m, src, dst, size, ptr):
        (grad_x,), grad_m = zeros(x), m.new_empty(m.shape)
        for e in blocks(len(src), x.size(1), x.itemsize):
            rows = take_rows(x, src[e])
            for k in range(m.size(1)):
                grad_m[e, k] = (rows * take_rows(grad[:, k], dst[e])).sum(1)
            add_rows(grad_x, src[e], weigh(grad, m[e], dst[e]))
        return narrow(x, grad_x), grad_m, None, None, None, None


class _ExpandMLPSum(Kernel):
    @staticmethod
    def _hidden(values, m, attr, edge_weight, bias1, src):
        y = add_edge_rows(weigh(values, m, src), m, attr, edge_weight)
        return y.add_(bias1).relu_()

    @staticmethod
    def forward(
        kept, values, m, edge_attr, edge_weight, bias1, weight2, bias2,
        src, dst, size, ptr,
    ):  # fmt: skip
        out = torch.zeros(size, len(bias2), dtype=_wide(values), device=values.device)
        width = max(len(bias1), len(bias2))
        for e in blocks(len(src), width, values.itemsize):
            y = _ExpandMLPSum._hidden(
                values, m[e], part(edge_attr, e), edge_weight, bias1, src[e]
            )
            add_rows(out, dst[e], linear_relu(y, weight2, bias2))
        return narrow(values, out)

    @staticmethod
    def backward(
        needed, grad, kept, values, m, edge_attr, edge_weight, bias1, weight2, bias2,
        src, dst, size, ptr,
    ):  # fmt: skip
        given = (edge_weight, bias1, weight2, bias2)
        grads = grad_edge, grad_bias1, grad_weight2, grad_bias2 = zeros(*given)
        planes = planes_like(len(values), m.size(1), values)
        grad_m = m.new_empty(m.shape)
        grad_attr = edge_attr.new_zeros(edge_attr.shape) if needed[2] else None
        width = max(len(bias1), len(bias2))
        for e in blocks(len(src), width, values.itemsize):
            attr = part(edge_attr, e)
            y = _ExpandMLPSum._hidden(values, m[e], attr, edge_weight, bias1, src[e])
            grad_z = relu_gate(take_rows(grad, dst[e]), linear_relu(y, weight2, bias2))
            grad_y = linear_backward(grad_z, y, weight2, grad_weight2, grad_bias2)
            grad_y = relu_gate(grad_y, y)
            grad_bias1 += grad_y.sum(0, dtype=grad_bias1.dtype)
            grad_m[e] = weigh_backward(grad_y, values, m[e], src[e], planes)
            if attr is not None:
                edge_rows_backward(
                    grad_y, m[e], attr, edge_weight,
                    grad_m[e], part(grad_attr, e), grad_edge,
                )  # fmt: skip
        of_weights = map(narrow, given, grads)
        grad_values = interleaved(planes, values)
        return grad_values, grad_m, grad_attr, *of_weights, *(None,) * 4


class _CombineMLPSum(Kernel):
    @staticmethod
    def _combine(a_dst, a_src, x_src, attr, a_edge, x_edge, src, dst):
        """The coefficients and the features of one block of pairs."""
        a = take_rows(a_src, src).add_(take_rows(a_dst, dst))
        x = take_rows(x_src, src)
        if attr is not None:
            a.addmm_(attr, a_edge)
            x.addmm_(attr, x_edge)
        return a.tanh_(), x

    @staticmethod
    def forward(
        kept, a_dst, a_src, x_src, edge_attr, a_edge, x_edge, w1, b1, w2, b2,
        src, dst, size, ptr,
    ):  # fmt: skip
        width = x_src.size(1) if b2 is None else len(b2)
        out = torch.zeros(size, width, dtype=_wide(x_src), device=x_src.device)
        for e in blocks(len(src), max(width, x_src.size(1)), x_src.itemsize):
            attr = part(edge_attr, e)
            a, x = _CombineMLPSum._combine(
                a_dst, a_src, x_src, attr, a_edge, x_edge, src[e], dst[e]
            )
            z = a.mul_(x)
            if w1 is not None:
                z = linear_relu(linear_relu(z, w1, b1), w2, b2)
            add_rows(out, dst[e], z)
        return narrow(x_src, out)

    @staticmethod
    def backward(
        needed, grad, kept, a_dst, a_src, x_src, edge_attr, a_edge, x_edge,
        w1, b1, w2, b2, src, dst, size, ptr,
    ):  # fmt: skip
        given = a_dst, a_src, x_src, None, a_edge, x_edge, w1, b1, w2, b2
        grads = zeros(*given)
        of_a_dst, of_a_src, of_x, _, of_a_edge, of_x_edge, *of_mlp = grads
        grad_attr = edge_attr.new_zeros(edge_attr.shape) if needed[3] else None
        for e in blocks(len(src), max(grad.size(1), x_src.size(1)), x_src.itemsize):
            attr = part(edge_attr, e)
            a, x = _CombineMLPSum._combine(
                a_dst, a_src, x_src, attr, a_edge, x_edge, src[e], dst[e]
            )
            grad_z = take_rows(grad, dst[e])
            if w1 is not None:
                z = a * x
                y = linear_relu(z, w1, b1)
                grad_z = relu_gate(grad_z, linear_relu(y, w2, b2))
                grad_y = relu_gate(linear_backward(grad_z, y, w2, *of_mlp[2:]), y)
                grad_z = linear_backward(grad_y, z, w1, *of_mlp[:2])
            grad_x = grad_z * a
            grad_a = torch.ops.aten.tanh_backward(grad_z.mul_(x), a)
            add_rows(of_x, src[e], grad_x)
            add_rows(of_a_src, src[e], grad_a)
            add_rows(of_a_dst, dst[e], grad_a)
            if attr is not None:
                of_a_edge += attr.t() @ grad_a
                of_x_edge += attr.t() @ grad_x
                if grad_attr is not None:
                    grad_attr[e] = grad_a @ a_edge.t() + grad_x @ x_edge.t()
        found = list(map(narrow, given, grads))
        found[3] = grad_attr
        return *found, *(None,) * 4


OPERATORS = {
    function: register("portable", function, kernel)
    for function, kernel in (
        (sums.weighted_rows, _WeightedRows),
        (sums.outer_product_sum, _OuterProductSum),
        (sums.expand_mlp_sum, _ExpandMLPSum),
        (sums.combine_mlp_sum, _CombineMLPSum),
    )
}
