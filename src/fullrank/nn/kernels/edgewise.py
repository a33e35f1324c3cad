"""Sums over edges that never hold an edges x (s*d) tensor."""

import torch
from torch import Tensor

from fullrank.nn.kernels.by_hand import (
    Computation,
    EdgeOrder,
    compute,
    row_products,
    rows_of,
    weighted_bags,
)


def take_rows(x: Tensor, index: Tensor) -> Tensor:
    """Return ``x[index]``."""
    return x.index_select(0, index)


def sum_rows(x: Tensor, index: Tensor, size: int) -> Tensor:
    """Return the sum of the rows of ``x`` for each value of ``index``."""
    return x.new_zeros(size, *x.shape[1:]).index_add(0, index, x)


def mix(values: Tensor, m: Tensor, src: Tensor) -> Tensor:
    r"""Weigh the rows of each edge's source.

    .. math::
        \mathbf{y}_e = \sum_{k=1}^{s} m_{e,k} \, \mathbf{V}_{u_e, k}

    Args:
        values: For each node ``s`` rows, :math:`(N, s, h)`.
        m: Coefficients, :math:`(E, s)`.
        src: The source of each edge, :math:`(E)`.

    Returns:
        :math:`(E, h)`.
    """
    return compute(_Mix, values, m, src)


def spread(x: Tensor, m: Tensor, src: Tensor, dst: Tensor, size: int) -> Tensor:
    r"""Sum the weighted sources of each destination, once per coefficient.

    .. math::
        \mathbf{R}_v = \sum_{e \to v} \mathbf{m}_e \mathbf{x}_{u_e}^{\top}
        = \mathbf{M}_v \mathbf{H}_v

    Args:
        x: Features, :math:`(N, d)`.
        m: Coefficients, :math:`(E, s)`.
        src: The source of each edge, :math:`(E)`.
        dst: The destination of each edge, :math:`(E)`.
        size: The number of destinations.

    Returns:
        :math:`(size, s, d)`.
    """
    return compute(_Spread, x, m, src, dst, size)


def mix_edges(m: Tensor, edge_attr: Tensor, weight: Tensor) -> Tensor:
    r"""Weigh the transformed features of each edge.

    .. math::
        \mathbf{y}_e = \sum_{k=1}^{s} m_{e,k} \, \mathbf{Q}_k^{\top} \mathbf{e}_e

    Args:
        m: Coefficients, :math:`(E, s)`.
        edge_attr: Edge features, :math:`(E, q)`.
        weight: :math:`\mathbf{Q}`, :math:`(s, q, h)`.

    Returns:
        :math:`(E, h)`.
    """
    terms = [
        outer(m[:, k], edge_attr) @ weight[k].flatten(0, 1) for k in groups(weight)
    ]
    return sum(terms[1:], terms[0])


def groups(weight: Tensor) -> list[slice]:
    """Group coefficients so that group x q stays within the output's width."""
    s, q, h = weight.shape
    step = max(1, h // q)
    return [slice(k, min(k + step, s)) for k in range(0, s, step)]


def outer(m: Tensor, edge_attr: Tensor) -> Tensor:
    """Return all products of a coefficient and an edge feature, for each edge."""
    return (m[:, :, None] * edge_attr[:, None, :]).flatten(1)  # [E, group * q]


class _Mix(Computation):
    @staticmethod
    def plain(values, m, src):
        terms = [
            m[:, k, None] * take_rows(v, src) for k, v in enumerate(values.unbind(1))
        ]
        return sum(terms[1:], terms[0])

    @staticmethod
    def forward(ctx, values, m, src):
        rows = rows_of(src, m.size(1))
        return weighted_bags(values.flatten(0, 1), rows, None, m.detach())

    @staticmethod
    def backward(ctx, grad, values, m, src):
        s = m.size(1)
        order = EdgeOrder(src, len(values))
        index, offsets, weights = order.bags(order.sort(m))
        grad_values = weighted_bags(grad, order.permutation[index], offsets, weights)
        edges = torch.arange(len(src)).repeat_interleave(s)
        rows = rows_of(src, s).flatten()
        grad_m = row_products(grad, values.flatten(0, 1), edges, rows)
        return grad_values.view_as(values), grad_m.view_as(m), None


class _Spread(Computation):
    @staticmethod
    def plain(x, m, src, dst, size):
        rows = take_rows(x, src)
        terms = [sum_rows(w[:, None] * rows, dst, size) for w in m.unbind(1)]
        return torch.stack(terms, dim=1)

    @staticmethod
    def forward(ctx, x, m, src, dst, size):
        order = EdgeOrder(dst, size)
        index, offsets, weights = order.bags(order.sort(m))
        out = weighted_bags(x, src[order.permutation][index], offsets, weights)
        return out.view(size, m.size(1), x.size(1))

    @staticmethod
    def backward(ctx, grad, x, m, src, dst, size):
        s = m.size(1)
        grad = grad.flatten(0, 1)  # [size * s, d]
        grad_x = grad_m = None
        _, x_needed, m_needed, *_ = ctx.needs_input_grad
        if x_needed:
            order = EdgeOrder(src, len(x))
            rows = rows_of(dst[order.permutation], s).flatten()
            weights = order.sort(m).flatten()
            grad_x = weighted_bags(grad, rows, order.ptr[:-1] * s, weights)
        if m_needed:
            sources, rows = src.repeat_interleave(s), rows_of(dst, s).flatten()
            grad_m = row_products(x, grad, sources, rows).view_as(m)
        return grad_x, grad_m, None, None, None
