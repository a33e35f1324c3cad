r"""The layers' sums over pairs in ordinary operations, multiplied once per node.

:math:`\mathbf{W}\,\mathrm{vec}(\mathbf{m} \mathbf{h}^{\top}) = \sum_k m_k (\mathbf{W}_k
\mathbf{h})`, so a pair only weights rows that its source already has. The kernels
compute these sums and their gradients; these functions provide all other derivatives,
and run where a graph of ordinary operations is needed (``torch.export``, ONNX,
``torch.jit.trace``).

Shared arguments: ``m`` are the coefficients, :math:`(E, s)`; ``src`` and ``dst`` are
the source and the destination of each pair, :math:`(E)`; ``size`` is the number of
destinations; ``ptr`` is the first pair of each node, if they are sorted (for
:func:`outer_product_sum` by destination, otherwise by source).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from fullrank.nn.functional import sum_rows, take_rows


def weighted_rows(values: Tensor, m: Tensor, src: Tensor) -> Tensor:
    r"""Weighted sum of the source's rows, for each pair.

    .. math::
        \mathbf{y}_e = \sum_{k=1}^{s} m_{e,k} \, \mathbf{V}_{u_e, k}

    Args:
        values: ``s`` rows for each node, :math:`(N, s, h)`.
        m: Coefficients.
        src: Sources.

    Returns:
        :math:`(E, h)`.
    """
    terms = [m[:, k, None] * take_rows(v, src) for k, v in enumerate(values.unbind(1))]
    return sum(terms[1:], terms[0])


def weighted_edge_rows(m: Tensor, edge_attr: Tensor, weight: Tensor) -> Tensor:
    r"""Weighted sum of the transformed edge features, for each pair.

    .. math::
        \mathbf{y}_e = \sum_{k=1}^{s} m_{e,k} \, \mathbf{Q}_k^{\top} \mathbf{e}_e

    Args:
        m: Coefficients.
        edge_attr: Edge features, :math:`(E, q)`.
        weight: :math:`\mathbf{Q}`, :math:`(s, q, h)`.

    Returns:
        :math:`(E, h)`.
    """
    terms = [
        outer_products(m[:, k], edge_attr) @ weight[k].flatten(0, 1)
        for k in coefficient_groups(weight)
    ]
    return sum(terms[1:], terms[0])


def coefficient_groups(weight: Tensor) -> list[slice]:
    """Group coefficients so that group x q stays within the output's width."""
    s, q, h = weight.shape
    step = max(1, h // q)
    return [slice(k, min(k + step, s)) for k in range(0, s, step)]


def outer_products(m: Tensor, edge_attr: Tensor) -> Tensor:
    """Return all products of a coefficient and an edge feature, for each pair."""
    return (m[:, :, None] * edge_attr[:, None, :]).flatten(1)  # [E, group * q]


def outer_product_sum(
    x: Tensor,
    m: Tensor,
    src: Tensor,
    dst: Tensor,
    size: int,
    ptr: Tensor | None,
) -> Tensor:
    r"""Sum of the outer products of coefficients and features, for each destination.

    .. math::
        \mathbf{R}_v = \sum_{e \to v} \mathbf{m}_e \mathbf{x}_{u_e}^{\top}
        = \mathbf{M}_v \mathbf{H}_v

    Args:
        x: Features, :math:`(N, d)`.
        m: Coefficients.
        src: Sources.
        dst: Destinations.
        size: Number of destinations.
        ptr: The first pair of each destination, or :obj:`None`.

    Returns:
        :math:`(size, s, d)`.
    """
    rows = take_rows(x, src)
    terms = [sum_rows(w[:, None] * rows, dst, size) for w in m.unbind(1)]
    return torch.stack(terms, dim=1)


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
    ptr: Tensor | None,
) -> Tensor:
    r"""ExpandingConv's Re-SUM, given the first product per node.

    .. math::
        \mathbf{h}'_v = \sum_{e \to v} \mathrm{ReLU}\big(\mathbf{W}_2\,
        \mathrm{ReLU}(\textstyle\sum_k m_{e,k} (\mathbf{V}_{u_e,k}
        + \mathbf{Q}_k^{\top} \mathbf{e}_e) + \mathbf{b}_1) + \mathbf{b}_2\big)

    The arguments are those of :func:`weighted_rows`, those of
    :func:`weighted_edge_rows` (both :obj:`None` without edge features) and the rest of
    the two-layer MLP.

    Returns:
        :math:`(size, out)`.
    """
    hidden = weighted_rows(values, m, src) + bias1
    if edge_attr is not None and edge_weight is not None:
        hidden = hidden + weighted_edge_rows(m, edge_attr, edge_weight)
    return sum_rows(F.linear(hidden.relu(), weight2, bias2).relu(), dst, size)


def combine_mlp_sum(
    a_dst: Tensor,
    a_src: Tensor,
    x_src: Tensor,
    edge_attr: Tensor | None,
    a_edge: Tensor | None,
    x_edge: Tensor | None,
    weight1: Tensor | None,
    bias1: Tensor | None,
    weight2: Tensor | None,
    bias2: Tensor | None,
    src: Tensor,
    dst: Tensor,
    size: int,
    ptr: Tensor | None,
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
        weight1: The first linear layer of the MLP, followed by a ReLU; :obj:`None`,
            like the next three, to sum the MLP's inputs.
        bias1: Its bias.
        weight2: The second linear layer of the MLP, followed by a ReLU.
        bias2: Its bias.
        src: Sources.
        dst: Destinations.
        size: Number of destinations.
        ptr: The first pair of each source, or :obj:`None`.

    Returns:
        :math:`(size, out)`.
    """
    a = take_rows(a_src, src) + take_rows(a_dst, dst)
    x = take_rows(x_src, src)
    if edge_attr is not None and a_edge is not None and x_edge is not None:
        a, x = a + edge_attr @ a_edge, x + edge_attr @ x_edge
    z = a.tanh() * x
    if weight1 is not None and weight2 is not None:
        z = F.linear(F.linear(z, weight1, bias1).relu(), weight2, bias2).relu()
    return sum_rows(z, dst, size)
