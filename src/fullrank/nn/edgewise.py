"""Exact computations over edges that never hold an edges x (s*d) tensor.

Every function here has a *plain* form in ordinary tensor operations, which runs on any
device, compiles, exports, and has derivatives of any order and mode, and a form *by
hand* for the CPU, which goes through the edges in blocks that stay in the cache. The
two compute the same sums; which one runs is not the caller's concern.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

_BLOCK_BYTES = 1 << 21  # of one block x width tensor: a few of them fit the cache


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
    return _call(_Mix, values, m, src)


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
    return _call(_Spread, x, m, src, dst, size)


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
        _outer(m[:, k], edge_attr) @ weight[k].flatten(0, 1) for k in _groups(weight)
    ]
    return sum(terms[1:], terms[0])


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
    return _call(
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
    return _call(
        _CombineMLPSum,
        a_dst, a_src, x_src, edge_attr, a_edge, x_edge, *weights, src, dst, size,
    )  # fmt: skip


# ---------------------------------------------------------------------------------
# Which form runs.


def _call(function: type["_ByHand"], *args) -> Tensor:
    floats = [arg for arg in args if _is_float(arg)]
    if _plain_needed(floats):
        return function.plain(*args)
    return function.apply(*args)


def _is_float(arg) -> bool:
    return isinstance(arg, Tensor) and arg.is_floating_point()


def _plain_needed(floats: list[Tensor]) -> bool:
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch.is_autocast_enabled("cpu")
        or any(x.device.type != "cpu" for x in floats)
        or len({x.dtype for x in floats}) > 1
        or floats[0].dtype not in (torch.float32, torch.float64)
        or any(unpack_dual(x).tangent is not None for x in floats)
    )


def _is_batched(x: Tensor) -> bool:
    functorch = torch._C._functorch
    return functorch.is_batchedtensor(x) or functorch.is_legacy_batchedtensor(x)


class _ByHand(torch.autograd.Function):
    """A function with a plain form, and a forward and backward pass by hand.

    A backward pass that is itself differentiated goes through the plain form.
    """

    @staticmethod
    def plain(*args) -> Tensor:
        raise NotImplementedError

    @staticmethod
    def backward_by_hand(ctx, grad: Tensor, *args) -> tuple:
        raise NotImplementedError

    @staticmethod
    def save(ctx, *args) -> None:
        ctx.args = tuple(None if isinstance(arg, Tensor) else arg for arg in args)
        ctx.save_for_backward(*(a if isinstance(a, Tensor) else None for a in args))

    @classmethod
    def backward_of(cls, ctx, grad: Tensor) -> tuple:
        args = [
            kept if saved is None else saved
            for saved, kept in zip(ctx.saved_tensors, ctx.args, strict=True)
        ]
        if not (torch.is_grad_enabled() or _is_batched(grad)):
            return cls.backward_by_hand(ctx, grad.contiguous(), *args)
        wanted = [i for i, needed in enumerate(ctx.needs_input_grad) if needed]
        with torch.enable_grad():
            # A view of each input, so that the graph of this backward pass ends at
            # the inputs themselves and goes on from there.
            args = [a.view_as(a) if i in wanted else a for i, a in enumerate(args)]
            out = cls.plain(*args)
        inputs = [args[i] for i in wanted]
        found = torch.autograd.grad(out, inputs, grad, create_graph=True)
        grads: list[Tensor | None] = [None] * len(args)
        for i, g in zip(wanted, found, strict=True):
            grads[i] = g
        return tuple(grads)


# ---------------------------------------------------------------------------------
# Building blocks of the forms by hand. F.embedding_bag adds up weighted rows without
# writing the rows down; its derivative by the weights is a table of row products.


class _Order:
    """Edges in the order of one of their ends, cut into blocks between nodes."""

    def __init__(self, index: Tensor, size: int) -> None:
        self.index, self.permutation = torch.sort(index, stable=True)
        self.ptr = torch.searchsorted(self.index, torch.arange(size + 1))
        self.size = size

    def sort(self, x: Tensor | None) -> Any:
        """Bring something with a row for each edge into this order."""
        return None if x is None else take_rows(x.detach(), self.permutation)

    def unsort(self, x: Tensor | None) -> Any:
        """Bring it back into the order it came in."""
        return (
            None
            if x is None
            else torch.empty_like(x).index_copy_(0, self.permutation, x)
        )

    def blocks(self, width: int, itemsize: int) -> Iterator[tuple[slice, slice]]:
        """Yield ``(nodes, edges)``: ranges of nodes with the range of their edges."""
        rows = max(256, _BLOCK_BYTES // (width * itemsize))
        steps = torch.arange(0, self.index.numel(), rows)[1:]
        cuts = torch.searchsorted(self.ptr, steps).unique().tolist()
        first = 0
        for last in [*cuts, self.size]:
            start, stop = int(self.ptr[first]), int(self.ptr[last])
            if stop > start:
                yield slice(first, last), slice(start, stop)
            first = last

    def bags(self, m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the edges of each node once per coefficient, as bags for
        ``F.embedding_bag``: ``(edges, offsets, weights)``, all ``s`` times as long as
        the edges and the nodes. ``m`` and the edges are in this order."""
        s = m.size(1)
        edges = torch.arange(len(m))
        counts = self.ptr.diff()[:, None]  # [N, 1]
        offsets = self.ptr[:-1, None] * s + counts * torch.arange(s)  # [N, s]
        first = offsets - self.ptr[:-1, None]
        places = (take_rows(first, self.index) + edges[:, None]).flatten()  # [E * s]
        index = torch.empty_like(places)
        index[places] = edges.repeat_interleave(s)
        weights = m.new_empty(len(places))
        weights[places] = m.flatten()
        return index, offsets.flatten(), weights


def _weighted_bags(
    rows: Tensor, index: Tensor, offsets: Tensor | None, weights: Tensor | None
) -> Tensor:
    if not len(rows):
        bags = len(index) if offsets is None else len(offsets)
        return rows.new_zeros(bags, rows.size(1))
    return F.embedding_bag(
        index, rows.detach(), offsets, mode="sum", per_sample_weights=weights
    )


def _row_products(a: Tensor, b: Tensor, index_a: Tensor, index_b: Tensor) -> Tensor:
    """Return ``(a[index_a] * b[index_b]).sum(-1)`` without the two gathers."""
    return torch.ops.aten._embedding_bag_per_sample_weights_backward(
        a, b, index_b, index_b[:0], index_a, 0
    )


def _rows_of(index: Tensor, s: int) -> Tensor:
    """Number the ``s`` rows of each node in ``index``: ``[E]`` to ``[E, s]``."""
    return index[:, None] * s + torch.arange(s)


def _groups(weight: Tensor) -> list[slice]:
    """Group coefficients so that group x q stays within the output's width."""
    s, q, h = weight.shape
    step = max(1, h // q)
    return [slice(k, min(k + step, s)) for k in range(0, s, step)]


def _outer(m: Tensor, edge_attr: Tensor) -> Tensor:
    return (m[:, :, None] * edge_attr[:, None, :]).flatten(1)  # [E, group * q]


def _block(x: Tensor | None, edges: slice) -> Any:
    return None if x is None else x[edges]


def _zeros_like(*tensors: Tensor | None) -> list[Any]:
    return [None if x is None else torch.zeros_like(x) for x in tensors]


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


class _Mix(_ByHand):
    @staticmethod
    def plain(values, m, src):
        terms = [
            m[:, k, None] * take_rows(v, src) for k, v in enumerate(values.unbind(1))
        ]
        return sum(terms[1:], terms[0])

    @staticmethod
    def forward(ctx, values, m, src):
        _Mix.save(ctx, values, m, src)
        rows = _rows_of(src, m.size(1))
        return _weighted_bags(values.flatten(0, 1), rows, None, m.detach())

    @staticmethod
    def backward(ctx, grad):
        return _Mix.backward_of(ctx, grad)

    @staticmethod
    def backward_by_hand(ctx, grad, values, m, src):
        s = m.size(1)
        order = _Order(src, len(values))
        index, offsets, weights = order.bags(order.sort(m))
        grad_values = _weighted_bags(grad, order.permutation[index], offsets, weights)
        edges = torch.arange(len(src)).repeat_interleave(s)
        rows = _rows_of(src, s).flatten()
        grad_m = _row_products(grad, values.flatten(0, 1), edges, rows)
        return grad_values.view_as(values), grad_m.view_as(m), None


class _Spread(_ByHand):
    @staticmethod
    def plain(x, m, src, dst, size):
        rows = take_rows(x, src)
        terms = [sum_rows(w[:, None] * rows, dst, size) for w in m.unbind(1)]
        return torch.stack(terms, dim=1)

    @staticmethod
    def forward(ctx, x, m, src, dst, size):
        _Spread.save(ctx, x, m, src, dst, size)
        order = _Order(dst, size)
        index, offsets, weights = order.bags(order.sort(m))
        out = _weighted_bags(x, src[order.permutation][index], offsets, weights)
        return out.view(size, m.size(1), x.size(1))

    @staticmethod
    def backward(ctx, grad):
        return _Spread.backward_of(ctx, grad)

    @staticmethod
    def backward_by_hand(ctx, grad, x, m, src, dst, size):
        s = m.size(1)
        grad = grad.flatten(0, 1)  # [size * s, d]
        order = _Order(src, len(x))
        rows = _rows_of(dst[order.permutation], s).flatten()
        grad_x = _weighted_bags(grad, rows, order.ptr[:-1] * s, order.sort(m).flatten())
        sources, rows = src.repeat_interleave(s), _rows_of(dst, s).flatten()
        grad_m = _row_products(x, grad, sources, rows)
        return grad_x, grad_m.view_as(m), None, None, None


class _ExpandMLPSum(_ByHand):
    @staticmethod
    def plain(values, m, edge_attr, edge_weight, bias1, weight2, bias2, src, dst, size):
        hidden = mix(values, m, src) + bias1
        if edge_attr is not None:
            hidden = hidden + mix_edges(m, edge_attr, edge_weight)
        return sum_rows(F.linear(hidden.relu(), weight2, bias2).relu(), dst, size)

    @staticmethod
    def _hidden(rows, m, attr, edge_weight, bias1, src):
        """The first layer's output for one block of edges."""
        y = _weighted_bags(rows, _rows_of(src, m.size(1)), None, m)
        if attr is not None:
            for k in _groups(edge_weight):
                y.addmm_(_outer(m[:, k], attr), edge_weight[k].flatten(0, 1))
        return y.add_(bias1).relu_()

    @staticmethod
    def forward(
        ctx, values, m, edge_attr, edge_weight, bias1, weight2, bias2, src, dst, size
    ):
        order = _Order(src, len(values))
        m_, attr_, dst_ = order.sort(m), order.sort(edge_attr), order.sort(dst)
        rows = values.flatten(0, 1)
        out = values.new_zeros(size, len(bias2))
        active = torch.empty(len(src), len(bias2), dtype=_FLAG)
        for _, e in order.blocks(max(len(bias1), len(bias2)), rows.itemsize):
            y = _ExpandMLPSum._hidden(
                rows, m_[e], _block(attr_, e), edge_weight, bias1, order.index[e]
            )
            z = torch.addmm(bias2, y, weight2.t()).relu_()
            out.index_add_(0, dst_[e], z)
            active[e] = z.sign_()
        ctx.order, ctx.active = order, active
        _ExpandMLPSum.save(
            ctx,
            values,
            m,
            edge_attr,
            edge_weight,
            bias1,
            weight2,
            bias2,
            src,
            dst,
            size,
        )
        return out

    @staticmethod
    def backward(ctx, grad):
        return _ExpandMLPSum.backward_of(ctx, grad)

    @staticmethod
    def backward_by_hand(
        ctx, grad, values, m, edge_attr, edge_weight, bias1, weight2, bias2, src, dst, _
    ):
        s, order = m.size(1), ctx.order
        m_, attr_, dst_ = order.sort(m), order.sort(edge_attr), order.sort(dst)
        rows = values.flatten(0, 1)
        grad_values, grad_m, grad_attr, grad_edge_weight = _zeros_like(
            values, m_, attr_, edge_weight
        )
        grad_bias1, grad_weight2, grad_bias2 = _zeros_like(bias1, weight2, bias2)
        index, offsets, weights = order.bags(m_)
        for nodes, e in order.blocks(max(len(bias1), len(bias2)), rows.itemsize):
            m_e, attr, u = m_[e], _block(attr_, e), order.index[e]
            y = _ExpandMLPSum._hidden(rows, m_e, attr, edge_weight, bias1, u)
            grad_z = _gate(take_rows(grad, dst_[e]), ctx.active[e])
            grad_weight2.addmm_(grad_z.t(), y)
            grad_bias2 += _sum_columns(grad_z)
            grad_y = _relu_gate(grad_z @ weight2, y)
            grad_bias1 += _sum_columns(grad_y)

            bag = slice(s * e.start, s * e.stop)
            grad_values[nodes] = _weighted_bags(
                grad_y,
                index[bag] - e.start,
                offsets[s * nodes.start : s * nodes.stop] - bag.start,
                weights[bag],
            ).view(-1, s, len(bias1))
            edges = torch.arange(len(u)).repeat_interleave(s)
            grad_m[e] = _row_products(
                grad_y, rows, edges, _rows_of(u, s).flatten()
            ).view_as(m_e)
            if attr is not None:
                for k in _groups(edge_weight):
                    weight = edge_weight[k].flatten(0, 1)
                    grad_edge_weight[k].view_as(weight).addmm_(
                        _outer(m_e[:, k], attr).t(), grad_y
                    )
                    outer = (grad_y @ weight.t()).view(len(u), -1, attr.size(1))
                    grad_m[e, k] += (outer @ attr[:, :, None]).squeeze(2)
                    grad_attr[e] += (m_e[:, None, k] @ outer).squeeze(1)
        return (
            grad_values, order.unsort(grad_m), order.unsort(grad_attr),
            grad_edge_weight, grad_bias1, grad_weight2, grad_bias2, None, None, None,
        )  # fmt: skip


class _CombineMLPSum(_ByHand):
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
        order = _Order(src, len(x_src))
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
        _CombineMLPSum.save(
            ctx, a_dst, a_src, x_src, edge_attr, a_edge, x_edge,
            w1, b1, w2, b2, src, dst, size,
        )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx, grad):
        return _CombineMLPSum.backward_of(ctx, grad)

    @staticmethod
    def backward_by_hand(
        ctx, grad, a_dst, a_src, x_src, edge_attr, a_edge, x_edge,
        w1, b1, w2, b2, src, dst, size,
    ):  # fmt: skip
        order = ctx.order
        attr_, dst_ = order.sort(edge_attr), order.sort(dst)
        grad_a_dst, grad_a_src, grad_x_src = _zeros_like(a_dst, a_src, x_src)
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
            grad_x_src[nodes] = _weighted_bags(grad_x, edges, offsets, None)
            grad_a_src[nodes] = _weighted_bags(grad_a, edges, offsets, None)
            grad_a_dst.index_add_(0, v, grad_a)
            if attr is not None:
                grad_a_edge.addmm_(attr.t(), grad_a)
                grad_x_edge.addmm_(attr.t(), grad_x)
                grad_attr[e] = grad_a @ a_edge.t() + grad_x @ x_edge.t()
        return (
            grad_a_dst, grad_a_src, grad_x_src, order.unsort(grad_attr),
            grad_a_edge, grad_x_edge, grad_w1, grad_b1, grad_w2, grad_b2,
            None, None, None,
        )  # fmt: skip
