"""Kernels for float32 and float64 on a CPU, in blocks that fit in its cache.

They iterate over the pairs node by node, in the order given by ``ptr``, finish one
block before the next, and accumulate results instead of storing intermediate ones.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fullrank.nn.functional import take_rows
from fullrank.nn.kernels import sums
from fullrank.nn.kernels.autograd import Kernel, Operator, register
from fullrank.nn.kernels.portable import (
    add_edge_rows,
    edge_rows_backward,
    part,
    relu_gate,
)

BLOCK_BYTES = 1 << 21  # of one block x width tensor: a few fit in the cache


def blocks(ptr: Tensor, width: int, itemsize: int) -> Iterator[tuple[slice, slice]]:
    """Yield ``(nodes, pairs)``: consecutive ranges of nodes and of their pairs."""
    rows = max(256, BLOCK_BYTES // (width * itemsize))
    size, pairs = len(ptr) - 1, int(ptr[-1])
    # The overhead of two blocks exceeds their benefit.
    steps = torch.arange(0, pairs if pairs > 2 * rows else 0, rows)[1:]
    cuts = torch.searchsorted(ptr, steps).unique().tolist()
    if cuts and ptr[cuts[-1]] == pairs:
        cuts.pop()  # trailing nodes without pairs do not form a block
    for first, last in pairwise([0, *cuts, size]):
        yield slice(first, last), slice(int(ptr[first]), int(ptr[last]))


def scratch(ranges: Sequence[tuple[slice, slice]], like: Tensor, *widths: int):
    """Return memory that all blocks of pairs use in turn, one tensor per width."""
    rows = max(e.stop - e.start for _, e in ranges)
    return [like.new_empty(rows, width) for width in widths]


def fit(memory: Tensor, e: slice) -> Tensor:
    """Return the part of :func:`scratch` memory that a block needs."""
    return memory[: e.stop - e.start]


def weighted_bags(
    rows: Tensor, index: Tensor, offsets: Tensor | None, weights: Tensor | None
) -> Tensor:
    """Sum weighted rows bag by bag, without storing the weighted rows."""
    if not len(rows):
        bags = len(index) if offsets is None else len(offsets)
        return rows.new_zeros(bags, rows.size(1))
    return F.embedding_bag(
        index, rows.detach(), offsets, mode="sum", per_sample_weights=weights
    )


def sum_by_node(rows: Tensor, index: Tensor, ptr: Tensor, m: Tensor) -> Tensor:
    """Return the sum of the weighted rows of each node's pairs, for each coefficient.

    Args:
        rows: The rows.
        index: The row of each pair.
        ptr: The first pair of each node, and the number of pairs.
        m: Coefficients, :math:`(E, s)`.

    Returns:
        :math:`(N, s, h)`.
    """
    s, sizes = m.size(1), ptr.diff()
    # The bags of a node are adjacent, because they read the same rows.
    bags = s * ptr[:-1, None] + sizes[:, None] * torch.arange(s)  # [N, s]
    node = torch.arange(len(sizes)).repeat_interleave(sizes)
    place = take_rows(bags - ptr[:-1, None], node).add_(torch.arange(len(m))[:, None])
    place = place.flatten()
    weights = m.new_empty(m.numel()).scatter_(0, place, m.flatten())
    index = torch.empty_like(place).scatter_(0, place, index.repeat_interleave(s))
    found = weighted_bags(rows, index, bags.flatten(), weights)
    return found.view(len(sizes), s, rows.size(1))


def put(out: Tensor | None, size: int, nodes: slice, rows: Tensor) -> Tensor:
    """Write the rows of a block into ``out``, which has ``size`` rows and is ``None``
    for the first block. A single block is not copied."""
    if len(rows) == size:
        return rows
    if out is None:
        out = rows.new_empty(size, *rows.shape[1:])
    out[nodes] = rows
    return out


def row_products(a: Tensor, b: Tensor, index_a: Tensor, index_b: Tensor) -> Tensor:
    """Return ``(a[index_a] * b[index_b]).sum(-1)`` without the two gathers."""
    return torch.ops.aten._embedding_bag_per_sample_weights_backward(
        a, b, index_b, index_b[:0], index_a, 0
    )


def rows_of(index: Tensor, s: int) -> Tensor:
    """Number the ``s`` rows of each node in ``index``: ``[E]`` to ``[E, s]``."""
    return index[:, None] * s + torch.arange(s)


def coefficient_gradient(a: Tensor, b: Tensor, index_a: Tensor, index_b: Tensor, s):
    """Return the dot products of rows of ``a`` with the ``s`` rows of nodes in
    ``b``."""
    first = index_a.repeat_interleave(s)
    return row_products(a, b, first, rows_of(index_b, s).flatten()).view(-1, s)


def _zeros_like(*tensors: Tensor | None) -> list[Any]:
    return [None if x is None else x.new_zeros(x.shape) for x in tensors]


def contiguous(*tensors: Tensor | None) -> list[Any]:
    return [None if x is None else x.contiguous() for x in tensors]


def _sum_columns(x: Tensor) -> Tensor:
    return x.t().mv(x.new_ones(len(x)))


# The mask of the last ReLU is int8, because torch converts between float and int8 ten
# times faster than from or to uint8 or bool.
_FLAG = torch.int8


def _tanh_(x: Tensor) -> Tensor:
    """Compute tanh(x) = 2 sigmoid(2x) - 1 in place: torch's sigmoid is four times as
    fast as its tanh, and the absolute error is below that of the sum ``x``."""
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)


class _WeightedRows(Kernel):
    @staticmethod
    def forward(kept, values, m, src):
        rows = rows_of(src, m.size(1))
        return weighted_bags(values.flatten(0, 1), rows, None, m.detach())

    @staticmethod
    def backward(needed, grad, kept, values, m, src):
        ordered, permutation = torch.sort(src, stable=True)
        ptr = torch.searchsorted(ordered, torch.arange(len(values) + 1))
        grad_values = sum_by_node(grad, permutation, ptr, take_rows(m, permutation))
        pairs = torch.arange(len(src))
        grad_m = coefficient_gradient(grad, values.flatten(0, 1), pairs, src, m.size(1))
        return grad_values, grad_m, None


class _OuterProductSum(Kernel):
    @staticmethod
    def forward(kept, x, m, src, dst, size, ptr):
        out = None
        for nodes, e in blocks(ptr, x.size(1), x.itemsize):
            local = ptr[nodes.start : nodes.stop + 1] - e.start
            out = put(out, size, nodes, sum_by_node(x, src[e], local, m[e]))
        return out

    @staticmethod
    def backward(needed, grad, kept, x, m, src, dst, size, ptr):
        s, grad = m.size(1), grad.flatten(0, 1)  # [size * s, d]
        (grad_x,), grad_m = _zeros_like(x), m.new_empty(m.shape)
        for _, e in blocks(ptr, x.size(1), x.itemsize):
            if needed[0]:
                rows = weighted_bags(grad, rows_of(dst[e], s), None, m[e])
                grad_x.index_add_(0, src[e], rows)
            if needed[1]:
                grad_m[e] = coefficient_gradient(x, grad, src[e], dst[e], s)
        return grad_x, grad_m, None, None, None, None


class MLPSum(Kernel):
    """What the two layers' sums of an MLP's outputs share."""

    @staticmethod
    def add_messages(
        out: Tensor, z: Tensor, y: Tensor, weight: Tensor, bias: Tensor, dst: Tensor,
        active: Tensor,
    ) -> None:  # fmt: skip
        """Add the messages ReLU(weight y + bias) to the destinations, and note where
        they are positive; ``z`` is memory for them."""
        torch.addmm(bias, y, weight.t(), out=z).relu_()
        out.index_add_(0, dst, z)
        active.copy_(z.sign_())

    @staticmethod
    def take_gradients(
        grad: Tensor, dst: Tensor, active: Tensor, grad_bias: Tensor, out: Tensor
    ) -> None:
        """Write the gradients of the pairs' ``z``, and add up those of its bias."""
        torch.index_select(grad, 0, dst, out=out).mul_(active.to(grad.dtype))
        grad_bias += _sum_columns(out)

    @staticmethod
    def gate(grad_y: Tensor, y: Tensor, grad_bias: Tensor) -> Tensor:
        """Return the gradient of a ReLU's input, and add up that of its bias."""
        grad_y = relu_gate(grad_y, y)
        grad_bias += _sum_columns(grad_y)
        return grad_y


class ExpandMLPSum(MLPSum):
    @staticmethod
    def keep(
        values, m, edge_attr, edge_weight, bias1, weight2, bias2, src, dst, size, ptr
    ):
        active = src.new_empty(src.size(0), bias2.size(0), dtype=_FLAG)
        # The first layer's output is kept only where it is no larger than `values`,
        # which are kept anyway: on sparse graphs. Otherwise it is recomputed.
        keep = src.size(0) <= values.size(0) * values.size(1)
        return [active, values.new_empty(src.size(0) if keep else 0, bias1.size(0))]

    @staticmethod
    def first_layer(y, rows, m, attr, edge_weight, bias, src):
        """Write the first layer's output for one block of pairs."""
        sums = weighted_bags(rows, rows_of(src, m.size(1)), None, m)
        torch.add(add_edge_rows(sums, m, attr, edge_weight), bias, out=y).relu_()

    @staticmethod
    def weigh_backward(grad_y, rows, m, src, ptr, grad_m, grad_values, size, nodes):
        """Write the gradients of ``m`` and of the rows of a block of nodes."""
        pairs = torch.arange(len(src))
        grad_m.copy_(coefficient_gradient(grad_y, rows, pairs, src, m.size(1)))
        return put(grad_values, size, nodes, sum_by_node(grad_y, pairs, ptr, m))

    @classmethod
    def forward(
        cls, kept, values, m, edge_attr, edge_weight, bias1, weight2, bias2,
        src, dst, size, ptr,
    ):  # fmt: skip
        active, hidden = kept
        rows = values.flatten(0, 1)
        out = values.new_zeros(size, len(bias2))
        ranges = list(blocks(ptr, max(len(bias1), len(bias2)), rows.itemsize))
        recompute = 0 if len(hidden) else len(bias1)
        ys, zs = scratch(ranges, values, recompute, len(bias2))
        for _, e in ranges:
            y, z = hidden[e] if len(hidden) else fit(ys, e), fit(zs, e)
            attr = part(edge_attr, e)
            cls.first_layer(y, rows, m[e], attr, edge_weight, bias1, src[e])
            cls.add_messages(out, z, y, weight2, bias2, dst[e], active[e])
        return out

    @classmethod
    def backward(
        cls, needed, grad, kept, values, m, edge_attr, edge_weight, bias1, weight2,
        bias2, src, dst, size, ptr,
    ):  # fmt: skip
        active, hidden = kept
        rows = values.flatten(0, 1)
        grad_values, grad_m = None, m.new_empty(m.shape)
        grad_attr = edge_attr.new_zeros(edge_attr.shape) if needed[2] else None
        grad_edge, grad_bias1, grad_weight2, grad_bias2 = _zeros_like(
            edge_weight, bias1, weight2, bias2
        )
        ranges = list(blocks(ptr, max(len(bias1), len(bias2)), rows.itemsize))
        recompute = 0 if len(hidden) else len(bias1)
        ys, grad_ys, grad_zs = scratch(
            ranges, values, recompute, len(bias1), len(bias2)
        )
        for nodes, e in ranges:
            m_e, attr, u = m[e], part(edge_attr, e), src[e]
            y, grad_y, grad_z = fit(ys, e), fit(grad_ys, e), fit(grad_zs, e)
            if recompute:
                cls.first_layer(y, rows, m_e, attr, edge_weight, bias1, u)
            else:
                y = hidden[e]
            cls.take_gradients(grad, dst[e], active[e], grad_bias2, grad_z)
            grad_weight2.addmm_(grad_z.t(), y)
            torch.mm(grad_z, weight2, out=grad_y)
            grad_y = cls.gate(grad_y, y, grad_bias1)
            local = ptr[nodes.start : nodes.stop + 1] - e.start
            grad_values = cls.weigh_backward(
                grad_y, rows, m_e, u, local, grad_m[e], grad_values, len(values), nodes
            )
            if attr is not None:
                edge_rows_backward(
                    grad_y, m_e, attr, edge_weight,
                    grad_m[e], part(grad_attr, e), grad_edge,
                )  # fmt: skip
        return (
            grad_values, grad_m, grad_attr, grad_edge, grad_bias1, grad_weight2,
            grad_bias2, *(None,) * 4,
        )  # fmt: skip


class CombineMLPSum(MLPSum):
    @staticmethod
    def keep(
        a_dst, a_src, x_src, edge_attr, a_edge, x_edge, w1, b1, w2, b2,
        src, dst, size, ptr,
    ):  # fmt: skip
        if w1 is None:
            return [x_src.new_empty(src.size(0), x_src.size(1))]
        # The product of the hidden layer is kept; coefficients are recomputed.
        active = src.new_empty(src.size(0), b2.size(0), dtype=_FLAG)
        return [x_src.new_empty(src.size(0), b1.size(0)), active]

    @staticmethod
    def coefficients(nodes, attr, a_edge, src, dst, out=None):
        """The coefficients of one block of pairs."""
        a_dst, a_src, _ = nodes
        a = torch.index_select(a_src, 0, src, out=out).add_(take_rows(a_dst, dst))
        return _tanh_(a if attr is None else a.addmm_(attr, a_edge))

    @staticmethod
    def features(nodes, attr, x_edge, src):
        """The sources' features for one block of pairs."""
        x = take_rows(nodes[2], src)
        return x if attr is None else x.addmm_(attr, x_edge)

    @staticmethod
    def gather(nodes, attr, a_edge, x_edge, src, dst):
        """Return what `multiply` needs for one block of pairs."""
        a = CombineMLPSum.coefficients(nodes, attr, a_edge, src, dst)
        return a, CombineMLPSum.features(nodes, attr, x_edge, src)

    @staticmethod
    def multiply(z, pairs, nodes, src, dst):
        """Write the coefficients times the features of one block of pairs."""
        torch.mul(*pairs, out=z)

    @staticmethod
    def multiply_backward(grad_z, pairs, nodes, grads, src, dst, ptr, block):
        """Add to the gradients of ``nodes``, given that of the products of a block of
        sources.

        Returns:
            The gradients of the pairs: of the inputs of tanh, and of the features.
        """
        (a, x), (grad_a_dst, grad_a_src, grad_x_src) = pairs, grads
        grad_x = grad_z * a
        grad_a = torch.ops.aten.tanh_backward(grad_z.mul_(x), a)
        every = torch.arange(len(src))
        grad_x_src[block] = weighted_bags(grad_x, every, ptr[:-1], None)
        grad_a_src[block] = weighted_bags(grad_a, every, ptr[:-1], None)
        grad_a_dst.index_add_(0, dst, grad_a)
        return grad_a, grad_x

    @classmethod
    def forward(
        cls, kept, a_dst, a_src, x_src, edge_attr, a_edge, x_edge, w1, b1, w2, b2,
        src, dst, size, ptr,
    ):  # fmt: skip
        nodes, d = contiguous(a_dst, a_src, x_src), x_src.size(1)
        width = d if b2 is None else len(b2)
        out = x_src.new_zeros(size, width)
        ranges = list(blocks(ptr, max(width, d), x_src.itemsize))
        widths = (0, 0) if w1 is None else (d, width)
        products, messages = scratch(ranges, x_src, *widths)
        for _, e in ranges:
            attr, u, v = part(edge_attr, e), src[e], dst[e]
            if w1 is None:
                a = cls.coefficients(nodes, attr, a_edge, u, v, kept[0][e])
                out.index_add_(0, v, cls.features(nodes, attr, x_edge, u).mul_(a))
                continue
            hidden, active = kept
            z = fit(products, e)
            cls.multiply(z, cls.gather(nodes, attr, a_edge, x_edge, u, v), nodes, u, v)
            y = torch.addmm(b1, z, w1.t(), out=hidden[e]).relu_()
            cls.add_messages(out, fit(messages, e), y, w2, b2, v, active[e])
        return out

    @classmethod
    def backward(
        cls, needed, grad, kept, a_dst, a_src, x_src, edge_attr, a_edge, x_edge,
        w1, b1, w2, b2, src, dst, size, ptr,
    ):  # fmt: skip
        nodes = contiguous(a_dst, a_src, x_src)
        grads = _zeros_like(*nodes)
        grad_attr = edge_attr.new_empty(edge_attr.shape) if needed[3] else None
        grad_a_edge, grad_x_edge = _zeros_like(a_edge, x_edge)
        grad_w1, grad_b1, grad_w2, grad_b2 = _zeros_like(w1, b1, w2, b2)
        width = max(grad.size(1), x_src.size(1))
        ranges = list(blocks(ptr, width, x_src.itemsize))
        widths = (0,) * 3 if w1 is None else (grad.size(1), len(b1), x_src.size(1))
        grad_messages, grad_hidden, products = scratch(ranges, x_src, *widths)
        kernel = CombineMLPSum if w1 is None else cls  # `kept` are its coefficients
        for block, e in ranges:
            attr, u, v = part(edge_attr, e), src[e], dst[e]
            if w1 is None:
                pairs = kept[0][e], cls.features(nodes, attr, x_edge, u)
                grad_z = take_rows(grad, v)
            else:
                y, active, z = kept[0][e], kept[1][e], fit(products, e)
                pairs = cls.gather(nodes, attr, a_edge, x_edge, u, v)
                grad_message, grad_y = fit(grad_messages, e), fit(grad_hidden, e)
                cls.take_gradients(grad, v, active, grad_b2, grad_message)
                grad_w2.addmm_(grad_message.t(), y)
                torch.mm(grad_message, w2, out=grad_y)
                grad_y = cls.gate(grad_y, y, grad_b1)
                cls.multiply(z, pairs, nodes, u, v)
                grad_w1.addmm_(grad_y.t(), z)
                grad_z = torch.mm(grad_y, w1, out=z)
            local = ptr[block.start : block.stop + 1] - e.start
            grad_a, grad_x = kernel.multiply_backward(
                grad_z, pairs, nodes, grads, u, v, local, block
            )
            if attr is not None:
                grad_a_edge.addmm_(attr.t(), grad_a)
                grad_x_edge.addmm_(attr.t(), grad_x)
                if grad_attr is not None:
                    grad_attr[e] = grad_a @ a_edge.t() + grad_x @ x_edge.t()
        return (
            *grads, grad_attr, grad_a_edge, grad_x_edge,
            grad_w1, grad_b1, grad_w2, grad_b2, *(None,) * 4,
        )  # fmt: skip


OPERATORS: dict[Callable[..., Tensor], Operator] = {
    function: register("cpu", function, kernel)
    for function, kernel in (
        (sums.weighted_rows, _WeightedRows),
        (sums.outer_product_sum, _OuterProductSum),
        (sums.expand_mlp_sum, ExpandMLPSum),
        (sums.combine_mlp_sum, CombineMLPSum),
    )
}
