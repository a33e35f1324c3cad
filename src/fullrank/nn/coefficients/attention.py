"""Attention coefficients, normalised over each neighbourhood."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.utils import softmax

from fullrank.nn.coefficients.base import Coefficients, PairLinear
from fullrank.nn.lazy_linear import materialize
from fullrank.nn.neighborhoods import Neighborhoods


class AttentionCoefficients(PairLinear):
    r"""Attention with a softmax over each neighbourhood.

    .. math::
        m_{uv,k} = \mathrm{softmax}_{u \in \mathcal{N}(v)}
        (\mathrm{LeakyReLU}(\mathbf{W}_k[\mathbf{h}_v \Vert \mathbf{h}_u]))

    Args:
        in_channels: As in :class:`TanhCoefficients`.
        num_aggregators: :math:`s`, the number of heads.
        negative_slope: Negative slope of the LeakyReLU.
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
    r"""The attention of multi-head GAT, which shares its weight with the extraction.

    .. math::
        m_{uv,k} = \mathrm{softmax}_{u \in \mathcal{N}(v)}(\mathrm{LeakyReLU}(
        \mathbf{a}_k^{\top} \mathbf{W}^k \mathbf{h}_v +
        \mathbf{a}_k'^{\top} \mathbf{W}^k \mathbf{h}_u))

    The weights have the same names and shapes as in PyG's
    :class:`~torch_geometric.nn.GATConv`.

    Args:
        in_channels: Width of the features, or ``-1``.
        out_channels: Width of each head.
        heads: :math:`K`, the number of heads.
        negative_slope: Negative slope of the LeakyReLU.
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
                f"{self} applies the same weight to sources and destinations and does "
                f"not support bipartite input; use AttentionCoefficients"
            )
        materialize(self.lin, local.x_src.size(1))
        heads = self.head_weights()
        weight_dst = (self.att_dst[0, :, None] @ heads).squeeze(1)  # [K, in]
        weight_src = (self.att_src[0, :, None] @ heads).squeeze(1)
        logits = local.from_dst(weight_dst) + local.from_src(weight_src)
        return attend(local, logits, self.negative_slope)


def attend(local: Neighborhoods, logits: Tensor, negative_slope: float) -> Tensor:
    """Normalise the logits of each neighbourhood to attention coefficients."""
    logits = F.leaky_relu(logits, negative_slope)
    size = local.x_dst.size(0)
    if local.count is None:
        return softmax(logits, local.dst, num_nodes=size)
    count = local.count.to(logits.dtype)[:, None]
    return softmax(logits + count.log(), local.dst, num_nodes=size) / count
