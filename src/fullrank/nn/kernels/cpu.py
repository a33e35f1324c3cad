"""Sums over edges in blocks that stay in the processor's cache, forward and backward.

The sums are those of :mod:`fullrank.nn.kernels.portable`, with the same arguments. They
go through the edges in the order of their sources, do all there is to do for one block
before the next, and write nothing down that they can add up at once.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fullrank.nn.functional import take_rows
from fullrank.nn.kernels import portable
from fullrank.nn.kernels.autograd import Kernel, apply
from fullrank.nn.kernels.portable import coefficient_groups, outer_products

BLOCK_BYTES = 1 << 21  # of one block x width tensor: a few of them fit the cache


def run(function: Callable[..., Tensor], *args: Any) -> Tensor:
    """Compute one of the portable sums in blocks."""
    return apply(_KERNELS[function], function, *args)


class EdgeOrder:
    """Edges in the order of one of their ends, cut into blocks between nodes."""

    def __init__(
        self, index: Tensor, size: int, permutation: Tensor | None = None
    ) -> None:
        if permutation is None:
            self.index, self.permutation = torch.sort(index, stable=True)
        else:
            self.index, self.permutation = index[permutation], permutation
        self.ptr = torch.searchsorted(self.index, torch.arange(size + 1))
        self.size = size

    def sort(self, x: Tensor | None) -> Any:
        """Bring something with a row for each edge into this order."""
        return None if x is None else x.detach().index_select(0, self.permutation)

    def unsort(self, x: Tensor | None) -> Any:
        """Bring it back into the order it came in."""
        return (
            None
            if x is None
            else torch.empty_like(x).index_copy_(0, self.permutation, x)
        )

    def blocks(self, width: int, itemsize: int) -> Iterator[tuple[slice, slice]]:
        """Yield ``(nodes, edges)``: ranges of nodes, all together, with their edges."""
        rows = max(256, BLOCK_BYTES // (width * itemsize))
        edges = self.index.numel()
        # Two blocks are not worth their overhead.
        steps = torch.arange(0, edges if edges > 2 * rows else 0, rows)[1:]
        cuts = torch.searchsorted(self.ptr, steps).unique().tolist()
        if cuts and self.ptr[cuts[-1]] == edges:
            cuts.pop()  # the nodes at the end that have no edges are no block
        for first, last in pairwise([0, *cuts, self.size]):
            yield slice(first, last), slice(int(self.ptr[first]), int(self.ptr[last]))

    def bags(self, m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the edges of each node once per coefficient, as bags for
        ``F.embedding_bag``: ``(edges, offsets, weights)``, all ``s`` times as long as
        the edges and the nodes. ``m`` and the edges are in this order."""
        s = m.size(1)
        edges = torch.arange(len(m))
        counts = self.ptr.diff()[:, None]  # [N, 1]
        offsets = self.ptr[:-1, None] * s + counts * torch.arange(s)  # [N, s]
        first = offsets - self.ptr[:-1, None]
        places = (first[self.index] + edges[:, None]).flatten()  # [E * s]
        index = torch.empty_like(places)
        index[places] = edges.repeat_interleave(s)
        weights = m.new_empty(len(places))
        weights[places] = m.flatten()
        return index, offsets.flatten(), weights


def weighted_bags(
    rows: Tensor, index: Tensor, offsets: Tensor | None, weights: Tensor | None
) -> Tensor:
    """Add up weighted rows, bag by bag, without writing the weighted rows down."""
    if not len(rows):
        bags = len(index) if offsets is None else len(offsets)
        return rows.new_zeros(bags, rows.size(1))
    return F.embedding_bag(
        index, rows.detach(), offsets, mode="sum", per_sample_weights=weights
    )


def row_products(a: Tensor, b: Tensor, index_a: Tensor, index_b: Tensor) -> Tensor:
    """Return ``(a[index_a] * b[index_b]).sum(-1)`` without the two gathers."""
    return torch.ops.aten._embedding_bag_per_sample_weights_backward(
        a, b, index_b, index_b[:0], index_a, 0
    )


def rows_of(index: Tensor, s: int) -> Tensor:
    """Number the ``s`` rows of each node in ``index``: ``[E]`` to ``[E, s]``."""
    return index[:, None] * s + torch.arange(s)


def _block(x: Tensor | None, edges: slice) -> Any:
    return None if x is None else x[edges]


def _zeros_like(*tensors: Tensor | None) -> list[Any]:
    return [None if x is None else torch.zeros_like(x) for x in tensors]


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _sum_columns(x: Tensor) -> Tensor:
    return x.t().mv(x.new_ones(len(x)))


def _relu_gate(grad: Tensor, output: Tensor) -> Tensor:
    """Return the gradient by a ReLU's input, given its output."""
    return torch.ops.aten.threshold_backward(grad, output, 0)


# Whether the last ReLU let an entry through is kept in one byte; int8, because torch
# converts between float and int8 ten times faster than from or to uint8 or bool.
_FLAG = torch.int8


def _gate(grad: Tensor, flags: Tensor) -> Tensor:
    return grad.mul_(flags.to(grad.dtype))


def _tanh_(x: Tensor) -> Tensor:
    """Compute tanh(x) = 2 sigmoid(2x) - 1 in place: torch's sigmoid is four times as
    fast as its tanh, and the absolute error is below the one of the sum ``x``."""
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)


class _WeightedRows(Kernel):
    @staticmethod
    def forward(values, m, src):
        rows = rows_of(src, m.size(1))
        return (weighted_bags(values.flatten(0, 1), rows, None, m.detach()),)

    @staticmethod
    def backward(needed, grad, values, m, src):
        s = m.size(1)
        order = EdgeOrder(src, len(values))
        index, offsets, weights = order.bags(order.sort(m))
        grad_values = weighted_bags(grad, order.permutation[index], offsets, weights)
        edges = torch.arange(len(src)).repeat_interleave(s)
        rows = rows_of(src, s).flatten()
        grad_m = row_products(grad, values.flatten(0, 1), edges, rows)
        return grad_values.view_as(values), grad_m.view_as(m), None


class _OuterProductSum(Kernel):
    @staticmethod
    def forward(x, m, src, dst, size):
        order = EdgeOrder(dst, size)
        index, offsets, weights = order.bags(order.sort(m))
        out = weighted_bags(x, src[order.permutation][index], offsets, weights)
        return (out.view(size, m.size(1), x.size(1)),)

    @staticmethod
    def backward(needed, grad, x, m, src, dst, size):
        s = m.size(1)
        grad = grad.flatten(0, 1)  # [size * s, d]
        grad_x = grad_m = None
        x_needed, m_needed, *_ = needed
        if x_needed:
            order = EdgeOrder(src, len(x))
            rows = rows_of(dst[order.permutation], s).flatten()
            weights = order.sort(m).flatten()
            grad_x = weighted_bags(grad, rows, order.ptr[:-1] * s, weights)
        if m_needed:
            sources, rows = src.repeat_interleave(s), rows_of(dst, s).flatten()
            grad_m = row_products(x, grad, sources, rows).view_as(m)
        return grad_x, grad_m, None, None, None


class _ExpandMLPSum(Kernel):
    kept = 3

    @staticmethod
    def _weighted(rows, m, attr, edge_weight, src):
        """The first layer's output for one block of edges, without the bias."""
        y = weighted_bags(rows, rows_of(src, m.size(1)), None, m)
        if attr is not None:
            for k in coefficient_groups(edge_weight):
                y.addmm_(outer_products(m[:, k], attr), edge_weight[k].flatten(0, 1))
        return y

    @staticmethod
    def forward(
        values, m, edge_attr, edge_weight, bias1, weight2, bias2, src, dst, size
    ):
        order = EdgeOrder(src, len(values))
        m_, attr_, dst_ = order.sort(m), order.sort(edge_attr), order.sort(dst)
        rows = values.flatten(0, 1)
        out = values.new_zeros(size, len(bias2))
        active = torch.empty(len(src), len(bias2), dtype=_FLAG)
        # The first layer's output is kept only where it is no larger than `values`,
        # which are kept anyway: on sparse graphs. Otherwise it is computed again.
        keep = len(src) <= len(rows)
        hidden = values.new_empty(len(src) if keep else 0, len(bias1))
        for _, e in order.blocks(max(len(bias1), len(bias2)), rows.itemsize):
            y = _ExpandMLPSum._weighted(
                rows, m_[e], _block(attr_, e), edge_weight, order.index[e]
            )
            y = torch.add(y, bias1, out=hidden[e] if keep else y).relu_()
            z = torch.addmm(bias2, y, weight2.t()).relu_()
            out.index_add_(0, dst_[e], z)
            active[e] = z.sign_()
        return out, order.permutation, active, hidden

    @staticmethod
    def backward(
        needed, grad, values, m, edge_attr, edge_weight, bias1, weight2, bias2,
        src, dst, size, permutation, active, hidden,
    ):  # fmt: skip
        s, order = m.size(1), EdgeOrder(src, len(values), permutation)
        m_, attr_, dst_ = order.sort(m), order.sort(edge_attr), order.sort(dst)
        rows = values.flatten(0, 1)
        grad_attr, grad_edge_weight = _zeros_like(attr_, edge_weight)
        grad_values, grad_m = [], torch.empty_like(m_)
        grad_bias1, grad_weight2, grad_bias2 = _zeros_like(bias1, weight2, bias2)
        index, offsets, weights = order.bags(m_)
        for nodes, e in order.blocks(max(len(bias1), len(bias2)), rows.itemsize):
            m_e, attr, u = m_[e], _block(attr_, e), order.index[e]
            if len(hidden):
                y = hidden[e]
            else:
                y = _ExpandMLPSum._weighted(rows, m_e, attr, edge_weight, u)
                y.add_(bias1).relu_()
            grad_z = _gate(take_rows(grad, dst_[e]), active[e])
            grad_weight2.addmm_(grad_z.t(), y)
            grad_bias2 += _sum_columns(grad_z)
            grad_y = _relu_gate(grad_z @ weight2, y)
            grad_bias1 += _sum_columns(grad_y)

            bag = slice(s * e.start, s * e.stop)
            grad_values.append(
                weighted_bags(
                    grad_y,
                    index[bag] - e.start,
                    offsets[s * nodes.start : s * nodes.stop] - bag.start,
                    weights[bag],
                )
            )
            edges = torch.arange(len(u)).repeat_interleave(s)
            grad_m[e] = row_products(
                grad_y, rows, edges, rows_of(u, s).flatten()
            ).view_as(m_e)
            if attr is not None:
                for k in coefficient_groups(edge_weight):
                    weight = edge_weight[k].flatten(0, 1)
                    grad_edge_weight[k].view_as(weight).addmm_(
                        outer_products(m_e[:, k], attr).t(), grad_y
                    )
                    products = (grad_y @ weight.t()).view(len(u), -1, attr.size(1))
                    grad_m[e, k] += (products @ attr[:, :, None]).squeeze(2)
                    if needed[2]:
                        grad_attr[e] += (m_e[:, None, k] @ products).squeeze(1)
        return (
            _joined(grad_values).view_as(values),
            order.unsort(grad_m), order.unsort(grad_attr),
            grad_edge_weight, grad_bias1, grad_weight2, grad_bias2, None, None, None,
        )  # fmt: skip


class _CombineMLPSum(Kernel):
    kept = 4

    @staticmethod
    def _features(x_src, attr, x_edge, src):
        """The sources' features for one block of edges."""
        x = take_rows(x_src, src)
        return x if attr is None else x.addmm_(attr, x_edge)

    @staticmethod
    def forward(
        a_dst, a_src, x_src, edge_attr, a_edge, x_edge, w1, b1, w2, b2, src, dst, size
    ):
        order = EdgeOrder(src, len(x_src))
        attr_, dst_ = order.sort(edge_attr), order.sort(dst)
        width = x_src.size(1) if b2 is None else len(b2)
        out = x_src.new_zeros(size, width)
        coefficients = x_src.new_empty(len(src), x_src.size(1))
        hidden = x_src.new_empty(0 if b1 is None else (len(src), len(b1)))
        active = torch.empty(0 if b1 is None else (len(src), width), dtype=_FLAG)
        for _, e in order.blocks(max(width, x_src.size(1)), x_src.itemsize):
            u, attr = order.index[e], _block(attr_, e)
            a = torch.index_select(a_src, 0, u, out=coefficients[e])
            a.add_(take_rows(a_dst, dst_[e]))
            if attr is not None:
                a.addmm_(attr, a_edge)
            z = _CombineMLPSum._features(x_src, attr, x_edge, u).mul_(_tanh_(a))
            if w1 is not None:
                y = torch.addmm(b1, z, w1.t(), out=hidden[e]).relu_()
                z = torch.addmm(b2, y, w2.t()).relu_()
            out.index_add_(0, dst_[e], z)
            if w1 is not None:
                active[e] = z.sign_()
        return out, order.permutation, coefficients, hidden, active

    @staticmethod
    def backward(
        needed, grad, a_dst, a_src, x_src, edge_attr, a_edge, x_edge, w1, b1, w2, b2,
        src, dst, size, permutation, coefficients, hidden, active,
    ):  # fmt: skip
        order = EdgeOrder(src, len(x_src), permutation)
        attr_, dst_ = order.sort(edge_attr), order.sort(dst)
        grad_a_dst = torch.zeros_like(a_dst)
        grad_a_src, grad_x_src = torch.empty_like(a_src), torch.empty_like(x_src)
        grad_attr, grad_a_edge, grad_x_edge = _zeros_like(attr_, a_edge, x_edge)
        grad_w1, grad_b1, grad_w2, grad_b2 = _zeros_like(w1, b1, w2, b2)
        width = max(grad.size(1), x_src.size(1))
        for nodes, e in order.blocks(width, x_src.itemsize):
            attr, v, a = _block(attr_, e), dst_[e], coefficients[e]
            x = _CombineMLPSum._features(x_src, attr, x_edge, order.index[e])
            grad_z = take_rows(grad, v)
            if w1 is not None:
                y = hidden[e]
                grad_z = _gate(grad_z, active[e])
                grad_w2.addmm_(grad_z.t(), y)
                grad_b2 += _sum_columns(grad_z)
                grad_y = _relu_gate(grad_z @ w2, y)
                grad_w1.addmm_(grad_y.t(), a * x)
                grad_b1 += _sum_columns(grad_y)
                grad_z = grad_y @ w1
            grad_x = grad_z * a
            grad_a = torch.ops.aten.tanh_backward(grad_z.mul_(x), a)
            edges, offsets = torch.arange(len(v)), order.ptr[nodes] - e.start
            grad_x_src[nodes] = weighted_bags(grad_x, edges, offsets, None)
            grad_a_src[nodes] = weighted_bags(grad_a, edges, offsets, None)
            grad_a_dst.index_add_(0, v, grad_a)
            if attr is not None:
                grad_a_edge.addmm_(attr.t(), grad_a)
                grad_x_edge.addmm_(attr.t(), grad_x)
                if needed[3]:
                    grad_attr[e] = grad_a @ a_edge.t() + grad_x @ x_edge.t()
        return (
            grad_a_dst, grad_a_src, grad_x_src, order.unsort(grad_attr),
            grad_a_edge, grad_x_edge, grad_w1, grad_b1, grad_w2, grad_b2,
            None, None, None,
        )  # fmt: skip


_KERNELS: dict[Callable[..., Tensor], type[Kernel]] = {
    portable.weighted_rows: _WeightedRows,
    portable.outer_product_sum: _OuterProductSum,
    portable.expand_mlp_sum: _ExpandMLPSum,
    portable.combine_mlp_sum: _CombineMLPSum,
}
