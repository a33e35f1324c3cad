"""The three stages of Re-SUM: which neighbours each dimension sums over."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.typing import Adj

from fullrank.nn.conv.expanding_conv import ExpandingConv
from fullrank.nn.kernels.dispatch import is_linear, is_replaceable
from fullrank.nn.neighborhoods import Neighborhoods


@dataclass(frozen=True)
class Derivation:
    r"""The three-stage form of an ExpandingConv with a one-layer MLP.

    A ReLU before the sum lets dimension :math:`i` of node :math:`v` sum over a subset
    :math:`\mathcal{N}_i(v)` of the neighbours, those with a positive message:

    .. math::
        \mathbf{M}_{v_i} &= (\mathbf{m}_{uv})_{u \in \mathcal{N}_i(v)}, \qquad
        \bar{\mathbf{r}}_{v_i} = \mathbf{M}_{v_i} \bar{\mathbf{h}}_{v_i}^{\top}

        h'_{v,i} &= \mathbf{W}'_{[i,:]} \mathrm{vec}(\bar{\mathbf{r}}_{v_i}) +
        |\mathcal{N}_i(v)| \, b'_{[i]}

    Attributes:
        local: All pairs :math:`(v, u)` with :math:`u \in \mathcal{N}(v)`.
        coefficients: :math:`\mathbf{m}_{uv}` of each pair, :math:`(E, s)`.
        sampled: Whether :math:`u \in \mathcal{N}_i(v)`, for each pair and dimension,
            :math:`(E, d')`.
        weight: :math:`\mathbf{W}'`, :math:`(d', s d)`.
        bias: :math:`\mathbf{b}'`, :math:`(d')`.
    """

    local: Neighborhoods
    coefficients: Tensor
    sampled: Tensor
    weight: Tensor
    bias: Tensor

    def subset(self, v: int, i: int) -> Tensor:
        r"""Return the pairs of :math:`\mathcal{N}_i(v)`, as indices into the pairs."""
        return ((self.local.dst == v) & self.sampled[:, i]).nonzero().flatten()

    def coefficient_matrix(self, v: int, i: int) -> Tensor:
        r"""Return :math:`\mathbf{M}_{v_i}`, :math:`(s, |\mathcal{N}_i(v)|)`."""
        return self.coefficients[self.subset(v, i)].t()

    def features(self, v: int, i: int) -> Tensor:
        r"""Return :math:`\bar{\mathbf{h}}_{v_i}^{\top}`,
        :math:`(|\mathcal{N}_i(v)|, d)`."""
        return self.local.neighbors()[self.subset(v, i)]

    def aggregated(self, i: int) -> Tensor:
        r"""Return :math:`\bar{\mathbf{r}}_{v_i}` of every node, :math:`(N, s, d)`."""
        m = self.coefficients * self.sampled[:, i, None]
        return self._sum(m[:, :, None] * self.local.neighbors()[:, None, :])

    def rebuild(self) -> Tensor:
        """Return the layer's output, computed from the three stages."""
        counts = self._sum(self.sampled.to(self.weight.dtype))
        sums = [self.aggregated(i).flatten(1) @ w for i, w in enumerate(self.weight)]
        return torch.stack(sums, dim=1) + counts * self.bias

    def _sum(self, values: Tensor) -> Tensor:
        """Sum the values of all pairs of each node, ``[E, ...]`` to ``[N, ...]``."""
        out = values.new_zeros(self.local.x_dst.size(0), *values.shape[1:])
        return out.index_add(0, self.local.dst, values)


def derive(
    conv: ExpandingConv,
    x: Tensor | tuple[Tensor, Tensor],
    edge_index: Adj,
    edge_attr: Tensor | None = None,
) -> Derivation:
    """Derive the three-stage form of an ExpandingConv with Re-SUM and a one-layer MLP.

    Args:
        conv: A layer with ``mlp=Sequential(Linear(s * d, out), ReLU())``.
        x: As for the layer.
        edge_index: As for the layer.
        edge_attr: As for the layer.
    """
    local = conv.neighborhoods(x, edge_index, edge_attr)
    first, rest = conv.split_mlp()
    one_layer = is_linear(first) and len(rest) == 1
    if not (conv.re_sum and one_layer and is_replaceable(rest[0], torch.nn.ReLU)):
        raise ValueError(
            f"derive needs a layer with Re-SUM whose mlp is Sequential(Linear, ReLU), "
            f"got re_sum={conv.re_sum} and {conv.mlp}"
        )
    m = conv.read_coefficients(local)
    messages = conv.message_pairs(local, m)
    bias = messages.new_zeros(messages.size(1)) if first.bias is None else first.bias
    return Derivation(local, m, messages > 0, first.weight, bias)
