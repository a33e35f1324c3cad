"""Whole layers over edges: first product done per node, the rest block by block."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fullrank.nn.kernels.by_hand import (
    Computation,
    EdgeOrder,
    compute,
    row_products,
    rows_of,
    weighted_bags,
)
from fullrank.nn.kernels.edgewise import (
    groups,
    mix,
    mix_edges,
    outer,
    sum_rows,
    take_rows,
)


def expand_mlp_sum(
    values: Tensor,
    m: Tensor,
    edge_attr: Tensor | None,
    edge_weight: Tensor | None,
    bias1: Tensor,
    weight2: Tensor,
    bias2: Tensor,
    src: Tensor,
    dst: Tensor,
    size: int,
) -> Tensor:
    r"""ExpandingConv's Re-SUM with the first product already done per node.

    .. math::
        \mathbf{h}'_v = \sum_{e \to v} \mathrm{ReLU}\big(\mathbf{W}_2\,
        \mathrm{ReLU}(\textstyle\sum_k m_{e,k} (\mathbf{V}_{u_e,k}
        + \mathbf{Q}_k^{\top} \mathbf{e}_e) + \mathbf{b}_1) + \mathbf{b}_2\big)

    Args are those of :func:`mix`, :func:`mix_edges` (both :obj:`None` without edge
    features) and the rest of the two-layer MLP. Returns :math:`(size, out)`.
    """
    return compute(
        _ExpandMLPSum,
        values, m, edge_attr, edge_weight, bias1, weight2, bias2, src, dst, size,
    )  # fmt: skip


def combine_mlp_sum(
    a_dst: Tensor,
    a_src: Tensor,
    x_src: Tensor,
    edge_attr: Tensor | None,
    a_edge: Tensor | None,
    x_edge: Tensor | None,
    mlp: tuple[Tensor, Tensor, Tensor, Tensor] | None,
    src: Tensor,
    dst: Tensor,
    size: int,
) -> Tensor:
    r"""CombConv's sum with tanh-linear coefficients, with or without the MLP inside.

    .. math::
        \mathbf{h}'_v = \sum_{e \to v} \mathrm{MLP}\big(\tanh(\mathbf{a}_v +
        \mathbf{a}_{u_e} + \mathbf{A}^{\top}\mathbf{e}_e) \odot (\mathbf{x}_{u_e} +
        \mathbf{X}^{\top}\mathbf{e}_e)\big)

    Args:
        a_dst: The destination's part of the coefficients, :math:`(size, d)`.
        a_src: The source's part of the coefficients, :math:`(N, d)`.
        x_src: Features of the sources, :math:`(N, d)`.
        edge_attr: Edge features, :math:`(E, q)`, or :obj:`None`.
        a_edge: :math:`\mathbf{A}`, :math:`(q, d)`, or :obj:`None`.
        x_edge: :math:`\mathbf{X}`, :math:`(q, d)`, or :obj:`None`.
        mlp: Weights and biases of the two linear layers, each followed by a ReLU;
            :obj:`None` sums what would be the MLP's input.
        src: The source of each edge, :math:`(E)`.
        dst: The destination of each edge, :math:`(E)`.
        size: The number of destinations.

    Returns:
        :math:`(size, out)`.
    """
    weights = mlp if mlp is not None else (None,) * 4
    return compute(
        _CombineMLPSum,
        a_dst, a_src, x_src, edge_attr, a_edge, x_edge, *weights, src, dst, size,
    )  # fmt: skip


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


class _ExpandMLPSum(Computation):
    @staticmethod
    def plain(values, m, edge_attr, edge_weight, bias1, weight2, bias2, src, dst, size):
        hidden = mix(values, m, src) + bias1
        if edge_attr is not None:
            hidden = hidden + mix_edges(m, edge_attr, edge_weight)
        return sum_rows(F.linear(hidden.relu(), weight2, bias2).relu(), dst, size)

    @staticmethod
    def _hidden(rows, m, attr, edge_weight, bias1, src):
        """The first layer's output for one block of edges."""
        y = weighted_bags(rows, rows_of(src, m.size(1)), None, m)
        if attr is not None:
            for k in groups(edge_weight):
                y.addmm_(outer(m[:, k], attr), edge_weight[k].flatten(0, 1))
        return y.add_(bias1).relu_()

    @staticmethod
    def forward(
        ctx, values, m, edge_attr, edge_weight, bias1, weight2, bias2, src, dst, size
    ):
        order = EdgeOrder(src, len(values))
        m_, attr_, dst_ = order.sort(m), order.sort(edge_attr), order.sort(dst)
        rows = values.flatten(0, 1)
        out = values.new_zeros(size, len(bias2))
        active = torch.empty(len(src), len(bias2), dtype=_FLAG)
        # The first layer's output is kept only where it is no larger than `values`,
        # which are kept anyway: on sparse graphs. Otherwise it is computed again.
        hidden: list[Tensor] | None = [] if len(src) <= len(rows) else None
        for _, e in order.blocks(max(len(bias1), len(bias2)), rows.itemsize):
            y = _ExpandMLPSum._hidden(
                rows, m_[e], _block(attr_, e), edge_weight, bias1, order.index[e]
            )
            if hidden is not None:
                hidden.append(y)
            z = torch.addmm(bias2, y, weight2.t()).relu_()
            out.index_add_(0, dst_[e], z)
            active[e] = z.sign_()
        ctx.order, ctx.active, ctx.hidden = order, active, hidden
        return out

    @staticmethod
    def backward(
        ctx, grad, values, m, edge_attr, edge_weight, bias1, weight2, bias2, src, dst, _
    ):
        s, order = m.size(1), ctx.order
        m_, attr_, dst_ = order.sort(m), order.sort(edge_attr), order.sort(dst)
        rows = values.flatten(0, 1)
        grad_attr, grad_edge_weight = _zeros_like(attr_, edge_weight)
        grad_values, grad_m = [], torch.empty_like(m_)
        grad_bias1, grad_weight2, grad_bias2 = _zeros_like(bias1, weight2, bias2)
        index, offsets, weights = order.bags(m_)
        blocks = order.blocks(max(len(bias1), len(bias2)), rows.itemsize)
        for block, (nodes, e) in enumerate(blocks):
            m_e, attr, u = m_[e], _block(attr_, e), order.index[e]
            if ctx.hidden is None:
                y = _ExpandMLPSum._hidden(rows, m_e, attr, edge_weight, bias1, u)
            else:
                y = ctx.hidden[block]
            grad_z = _gate(take_rows(grad, dst_[e]), ctx.active[e])
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
                for k in groups(edge_weight):
                    weight = edge_weight[k].flatten(0, 1)
                    grad_edge_weight[k].view_as(weight).addmm_(
                        outer(m_e[:, k], attr).t(), grad_y
                    )
                    products = (grad_y @ weight.t()).view(len(u), -1, attr.size(1))
                    grad_m[e, k] += (products @ attr[:, :, None]).squeeze(2)
                    if edge_attr.requires_grad:
                        grad_attr[e] += (m_e[:, None, k] @ products).squeeze(1)
        return (
            _joined(grad_values).view_as(values),
            order.unsort(grad_m), order.unsort(grad_attr),
            grad_edge_weight, grad_bias1, grad_weight2, grad_bias2, None, None, None,
        )  # fmt: skip


class _CombineMLPSum(Computation):
    @staticmethod
    def plain(
        a_dst, a_src, x_src, edge_attr, a_edge, x_edge, w1, b1, w2, b2, src, dst, size
    ):
        a = take_rows(a_src, src) + take_rows(a_dst, dst)
        x = take_rows(x_src, src)
        if edge_attr is not None:
            a, x = a + edge_attr @ a_edge, x + edge_attr @ x_edge
        z = a.tanh() * x
        if w1 is not None:
            z = F.linear(F.linear(z, w1, b1).relu(), w2, b2).relu()
        return sum_rows(z, dst, size)

    @staticmethod
    def _features(x_src, attr, x_edge, src):
        """The sources' features for one block of edges."""
        x = take_rows(x_src, src)
        return x if attr is None else x.addmm_(attr, x_edge)

    @staticmethod
    def forward(
        ctx, a_dst, a_src, x_src, edge_attr, a_edge, x_edge,
        w1, b1, w2, b2, src, dst, size,
    ):  # fmt: skip
        order = EdgeOrder(src, len(x_src))
        attr_, dst_ = order.sort(edge_attr), order.sort(dst)
        width = x_src.size(1) if b2 is None else len(b2)
        out = x_src.new_zeros(size, width)
        ctx.order, ctx.coefficients = order, x_src.new_empty(len(src), x_src.size(1))
        if w1 is not None:
            ctx.hidden = x_src.new_empty(len(src), len(b1))
            ctx.active = torch.empty(len(src), width, dtype=_FLAG)
        for _, e in order.blocks(max(width, x_src.size(1)), x_src.itemsize):
            u, attr = order.index[e], _block(attr_, e)
            a = torch.index_select(a_src, 0, u, out=ctx.coefficients[e])
            a.add_(take_rows(a_dst, dst_[e]))
            if attr is not None:
                a.addmm_(attr, a_edge)
            z = _CombineMLPSum._features(x_src, attr, x_edge, u).mul_(_tanh_(a))
            if w1 is not None:
                y = torch.addmm(b1, z, w1.t(), out=ctx.hidden[e]).relu_()
                z = torch.addmm(b2, y, w2.t()).relu_()
            out.index_add_(0, dst_[e], z)
            if w1 is not None:
                ctx.active[e] = z.sign_()
        return out

    @staticmethod
    def backward(
        ctx, grad, a_dst, a_src, x_src, edge_attr, a_edge, x_edge,
        w1, b1, w2, b2, src, dst, size,
    ):  # fmt: skip
        order = ctx.order
        attr_, dst_ = order.sort(edge_attr), order.sort(dst)
        grad_a_dst = torch.zeros_like(a_dst)
        grad_a_src, grad_x_src = torch.empty_like(a_src), torch.empty_like(x_src)
        grad_attr, grad_a_edge, grad_x_edge = _zeros_like(attr_, a_edge, x_edge)
        grad_w1, grad_b1, grad_w2, grad_b2 = _zeros_like(w1, b1, w2, b2)
        width = max(grad.size(1), x_src.size(1))
        for nodes, e in order.blocks(width, x_src.itemsize):
            attr, v, a = _block(attr_, e), dst_[e], ctx.coefficients[e]
            x = _CombineMLPSum._features(x_src, attr, x_edge, order.index[e])
            grad_z = take_rows(grad, v)
            if w1 is not None:
                y = ctx.hidden[e]
                grad_z = _gate(grad_z, ctx.active[e])
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
                if edge_attr.requires_grad:
                    grad_attr[e] = grad_a @ a_edge.t() + grad_x @ x_edge.t()
        return (
            grad_a_dst, grad_a_src, grad_x_src, order.unsort(grad_attr),
            grad_a_edge, grad_x_edge, grad_w1, grad_b1, grad_w2, grad_b2,
            None, None, None,
        )  # fmt: skip
