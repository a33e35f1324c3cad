r"""Stage 1 of a layer, :math:`\mathbf{f}_{\mathrm{local}}`: from the local structure of
a pair :math:`(v, u)` to its aggregation coefficients :math:`\mathbf{m}_{uv}`."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import reset
from torch_geometric.utils import softmax

from fullrank.nn.edgewise import take_rows
from fullrank.nn.lazy_linear import LazyLinear, materialize
from fullrank.nn.neighborhoods import Neighborhoods
from fullrank.nn.runs_as import is_linear


class Coefficients(torch.nn.Module):
    r"""Base class of everything that may stand for
    :math:`\mathbf{f}_{\mathrm{local}}(u, v)`.

    A subclass sets :attr:`num_aggregators` and implements :meth:`forward`, which maps
    :class:`~fullrank.nn.Neighborhoods` with :math:`E` pairs to a tensor of shape
    :math:`(E, s)`. The result for a pair may depend on features, degrees or any other
    local structure, but not on how the nodes are numbered.

    Args:
        num_aggregators: :math:`s`, the number of coefficients of a pair.
    """

    def __init__(self, num_aggregators: int) -> None:
        super().__init__()
        if num_aggregators < 1:
            raise ValueError(
                f"num_aggregators must be at least 1, got {num_aggregators}"
            )
        self.num_aggregators = num_aggregators

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        for child in self.children():
            reset(child)

    def forward(self, local: Neighborhoods) -> Tensor:
        """Return the coefficients of all pairs."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_aggregators})"


class _PairLinear(Coefficients):
    r"""Coefficients that start from :math:`\mathbf{W}[\mathbf{h}_v \Vert \mathbf{h}_u]
    + \mathbf{b}`, computed per node and added per pair."""

    def __init__(
        self, in_channels: int | tuple[int, int], num_aggregators: int, bias: bool
    ) -> None:
        src, dst = as_pair(in_channels)
        lazy = -1 in (src, dst)
        self._as_many_as_features = lazy and num_aggregators == -1
        super().__init__(1 if self._as_many_as_features else num_aggregators)
        if self._as_many_as_features:
            self.lin: Linear = LazyLinear(bias)
        else:
            self.lin = Linear(-1 if lazy else dst + src, num_aggregators, bias)

    def split(self, local: Neighborhoods) -> tuple[Tensor, Tensor]:
        """Return the destination's and the source's columns of the weight."""
        d_src, d_dst = local.x_src.size(1), local.x_dst.size(1)
        if self._as_many_as_features:
            self.num_aggregators = d_src
        materialize(self.lin, d_dst + d_src, self.num_aggregators)
        if self.lin.in_channels != d_dst + d_src:
            raise ValueError(
                f"{self} was made for features of total width {self.lin.in_channels}, "
                f"got {d_dst} (destination) + {d_src} (source)"
            )
        return self.lin.weight[:, :d_dst], self.lin.weight[:, d_dst:]

    def linear(self, local: Neighborhoods) -> Tensor:
        weight_dst, weight_src = self.split(local)
        if not is_linear(self.lin):
            ends = take_rows(local.x_dst, local.dst), local.neighbors()
            return self.lin(torch.cat(ends, dim=1))
        out = local.from_dst(weight_dst) + local.from_src(weight_src)
        return out if self.lin.bias is None else out + self.lin.bias


class TanhCoefficients(_PairLinear):
    r"""The paper's coefficients.

    .. math::
        \mathbf{m}_{uv} = \tanh(\mathbf{W}[\mathbf{h}_v \Vert \mathbf{h}_u]
        + \mathbf{b})

    Args:
        in_channels: Width of the features; a pair ``(source, destination)`` for
            bipartite graphs; ``-1`` to read it off the first input.
        num_aggregators: :math:`s`; ``-1`` together with ``in_channels=-1`` for as many
            as there are source features.
    """

    def __init__(
        self, in_channels: int | tuple[int, int], num_aggregators: int
    ) -> None:
        super().__init__(in_channels, num_aggregators, bias=True)

    def forward(self, local: Neighborhoods) -> Tensor:
        return self.linear(local).tanh()


class AttentionCoefficients(_PairLinear):
    r"""Attention with a softmax over each neighbourhood.

    .. math::
        m_{uv,k} = \mathrm{softmax}_{u \in \mathcal{N}(v)}
        (\mathrm{LeakyReLU}(\mathbf{W}_k[\mathbf{h}_v \Vert \mathbf{h}_u]))

    Args:
        in_channels: As in :class:`TanhCoefficients`.
        num_aggregators: :math:`s`, here the number of heads.
        negative_slope: Of the LeakyReLU.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        num_aggregators: int,
        negative_slope: float = 0.2,
    ) -> None:
        super().__init__(in_channels, num_aggregators, bias=False)
        self.negative_slope = negative_slope

    def forward(self, local: Neighborhoods) -> Tensor:
        return attend(local, self.linear(local), self.negative_slope)


class GATCoefficients(Coefficients):
    r"""The attention of multi-head GAT, which looks through the extraction's weight.

    .. math::
        m_{uv,k} = \mathrm{softmax}_{u \in \mathcal{N}(v)}(\mathrm{LeakyReLU}(
        \mathbf{a}_k^{\top} \mathbf{W}^k \mathbf{h}_v +
        \mathbf{a}_k'^{\top} \mathbf{W}^k \mathbf{h}_u))

    Names and shapes of the weights are those of PyG's
    :class:`~torch_geometric.nn.GATConv`.

    Args:
        in_channels: Width of the features, or ``-1``.
        out_channels: Width of each head.
        heads: :math:`K`, the number of heads.
        negative_slope: Of the LeakyReLU.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        negative_slope: float = 0.2,
    ) -> None:
        super().__init__(heads)
        self.out_channels = out_channels
        self.negative_slope = negative_slope
        self.lin = Linear(
            in_channels, heads * out_channels, bias=False, weight_initializer="glorot"
        )
        self.att_src = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = torch.nn.Parameter(torch.empty(1, heads, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        torch.nn.init.xavier_uniform_(self.att_src[0])
        torch.nn.init.xavier_uniform_(self.att_dst[0])

    def head_weights(self) -> Tensor:
        """Return the weight of each head, :math:`(K, out, in)`."""
        return self.lin.weight.view(self.num_aggregators, self.out_channels, -1)

    def forward(self, local: Neighborhoods) -> Tensor:
        if local.bipartite:
            raise ValueError(
                f"{self} reads both ends through one weight and takes no bipartite "
                f"input; use AttentionCoefficients"
            )
        materialize(self.lin, local.x_src.size(1))
        heads = self.head_weights()
        weight_dst = (self.att_dst[0, :, None] @ heads).squeeze(1)  # [K, in]
        weight_src = (self.att_src[0, :, None] @ heads).squeeze(1)
        logits = local.from_dst(weight_dst) + local.from_src(weight_src)
        return attend(local, logits, self.negative_slope)


class SymmetricNormCoefficients(Coefficients):
    r"""Symmetric degree normalisation (GCN's nMEAN).

    .. math::
        m_{uv} = \frac{1}{\sqrt{|\mathcal{N}(v)|\,|\mathcal{N}(u)|}}
    """

    def __init__(self) -> None:
        super().__init__(1)

    def forward(self, local: Neighborhoods) -> Tensor:
        if local.bipartite:
            raise ValueError(
                "SymmetricNormCoefficients needs sources and destinations to be the "
                "same nodes, got bipartite input; use MeanCoefficients"
            )
        sizes = local.sizes()
        # A source without any neighbourhood of its own (no loops added) weighs 0.
        scale = torch.where(sizes > 0, sizes.clamp(min=1).rsqrt(), 0)
        return (scale[local.src] * scale[local.dst])[:, None]


class OneCoefficients(Coefficients):
    r"""The constant :math:`m_{uv} = 1` (SUM).

    Args:
        num_aggregators: How many equal coefficients; more than one makes sense for
            :class:`CombConv` only, which needs as many as there are features.
    """

    def __init__(self, num_aggregators: int = 1) -> None:
        super().__init__(num_aggregators)

    def forward(self, local: Neighborhoods) -> Tensor:
        return local.x_dst.new_ones(local.dst.numel(), self.num_aggregators)


class MeanCoefficients(Coefficients):
    r"""The inverse size of the neighbourhood, :math:`m_{uv} = 1 / |\mathcal{N}(v)|`
    (MEAN).

    Args:
        num_aggregators: As in :class:`OneCoefficients`.
    """

    def __init__(self, num_aggregators: int = 1) -> None:
        super().__init__(num_aggregators)

    def forward(self, local: Neighborhoods) -> Tensor:
        inverse = local.sizes().clamp(min=1).reciprocal()
        return inverse[local.dst, None].expand(-1, self.num_aggregators)


class Stack(Coefficients):
    r"""Several coefficient modules side by side,
    :math:`[\mathbf{m}_{uv} \Vert \mathbf{m}'_{uv} \Vert \dots]`.

    The paper's variants that are stronger than SUM and than SUM :math:`\otimes` MEAN
    are ``Stack(TanhCoefficients(d, s), OneCoefficients())`` and the same with
    ``MeanCoefficients()`` as a third.
    """

    def __init__(self, *parts: Coefficients) -> None:
        if not parts:
            raise ValueError("Stack needs at least one coefficient module, got none")
        for part in parts:
            if not isinstance(part, Coefficients):
                raise ValueError(f"Stack takes Coefficients modules, got {part!r}")
        super().__init__(sum(part.num_aggregators for part in parts))
        self.parts = torch.nn.ModuleList(parts)

    def forward(self, local: Neighborhoods) -> Tensor:
        return torch.cat([part(local) for part in self.parts], dim=1)

    def __repr__(self) -> str:
        return f"Stack({', '.join(repr(part) for part in self.parts)})"


def attend(local: Neighborhoods, logits: Tensor, negative_slope: float) -> Tensor:
    """Normalise the logits of each neighbourhood to attention coefficients."""
    logits = F.leaky_relu(logits, negative_slope)
    return softmax(logits, local.dst, num_nodes=local.x_dst.size(0))


def as_pair(in_channels: int | tuple[int, int]) -> tuple[int, int]:
    """Return ``(source, destination)`` widths."""
    if isinstance(in_channels, int):
        src = dst = in_channels
    else:
        src, dst = in_channels
    if any(width != -1 and width < 1 for width in (src, dst)):
        raise ValueError(f"in_channels must be positive or -1, got {in_channels}")
    return src, dst
