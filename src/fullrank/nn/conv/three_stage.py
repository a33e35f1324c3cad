r"""GCN, GIN-0 and GAT written as coefficients, aggregation, extraction.

Each is an :class:`~fullrank.nn.ExpandingConv` without Re-SUM: its coefficients weight
the neighbours, its MLP is the extraction. With one aggregator,
:math:`\mathrm{vec}(\mathbf{m}_{uv}\mathbf{h}_u^{\top})` is :math:`m_{uv}\mathbf{h}_u`.
"""

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear

from fullrank.nn.coefficients.attention import GATCoefficients
from fullrank.nn.coefficients.degree import OneCoefficients, SymmetricNormCoefficients
from fullrank.nn.conv.base import EdgeDim
from fullrank.nn.conv.expanding_conv import ExpandingConv


class ThreeStageGCN(ExpandingConv):
    r"""GCN in three stages.

    .. math::
        m_{uv} = \frac{1}{\sqrt{|\mathcal{N}(v)|\,|\mathcal{N}(u)|}}, \quad
        \mathbf{h}'_v = \mathbf{W} \sum_{u \in \mathcal{N}(v)} m_{uv} \mathbf{h}_u +
        \mathbf{b}

    Equals PyG's :class:`~torch_geometric.nn.GCNConv`; ``conv.mlp`` holds its
    ``lin.weight`` and ``bias``.

    Args:
        in_channels: Size of each input sample, or ``-1``.
        out_channels: Size of each output sample.
        edge_dim: As in :class:`~fullrank.nn.ExpandingConv`.
        **kwargs: Additional arguments of :class:`~fullrank.nn.ExpandingConv`.
    """

    def __init__(
        self, in_channels: int, out_channels: int, edge_dim: EdgeDim = None, **kwargs
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            re_sum=False,
            edge_dim=edge_dim,
            coefficients=SymmetricNormCoefficients(),
            mlp=Linear(in_channels, out_channels, weight_initializer="glorot"),
            **kwargs,
        )


class ThreeStageGIN0(ExpandingConv):
    r"""GIN-0 in three stages.

    .. math::
        m_{uv} = 1, \quad
        \mathbf{h}'_v = \mathrm{MLP}(\sum_{u \in \mathcal{N}(v)} \mathbf{h}_u)

    Equals PyG's :class:`~torch_geometric.nn.GINConv` with ``eps=0`` on graphs without
    self-loops.

    Args:
        in_channels: Size of each input sample, or ``-1``.
        out_channels: Size of each output sample.
        edge_dim: As in :class:`~fullrank.nn.ExpandingConv`.
        mlp: By default two linear layers, each followed by a ReLU.
        **kwargs: Additional arguments of :class:`~fullrank.nn.ExpandingConv`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        edge_dim: EdgeDim = None,
        mlp: torch.nn.Module | None = None,
        **kwargs,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            re_sum=False,
            edge_dim=edge_dim,
            coefficients=OneCoefficients(),
            mlp=mlp,
            **kwargs,
        )


class ThreeStageGAT(ExpandingConv):
    r"""GAT with :math:`K` averaged heads in three stages (Proposition 4).

    .. math::
        \mathbf{h}'_v = \frac{1}{K} [\mathbf{W}^1 \Vert \dots \Vert \mathbf{W}^K]
        \sum_{u \in \mathcal{N}(v)} \mathrm{vec}(\boldsymbol{\alpha}_{vu}
        \mathbf{h}_u^{\top}) + \mathbf{b}

    with the attention :math:`\boldsymbol{\alpha}_{vu} \in \mathbb{R}^K` of
    :class:`~fullrank.nn.GATCoefficients`. Equals PyG's
    ``GATConv(heads=K, concat=False)``; ``conv.coefficients`` holds its ``lin``,
    ``att_src`` and ``att_dst``, ``conv.mlp`` its ``bias``.

    Args:
        in_channels: Size of each input sample, or ``-1``.
        out_channels: Size of each output sample.
        heads: :math:`K`, the number of heads.
        negative_slope: Negative slope of the attention's LeakyReLU.
        edge_dim: As in :class:`~fullrank.nn.ExpandingConv`.
        **kwargs: Additional arguments of :class:`~fullrank.nn.ExpandingConv`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        negative_slope: float = 0.2,
        edge_dim: EdgeDim = None,
        **kwargs,
    ) -> None:
        attention = GATCoefficients(in_channels, out_channels, heads, negative_slope)
        super().__init__(
            in_channels,
            out_channels,
            re_sum=False,
            edge_dim=edge_dim,
            coefficients=attention,
            mlp=HeadMean(attention),
            **kwargs,
        )


class HeadMean(torch.nn.Module):
    """The extraction of GAT: the mean over heads, with the attention's weights."""

    def __init__(self, attention: GATCoefficients) -> None:
        super().__init__()
        # In a tuple, so that the weights are registered only with the attention.
        self._attention = (attention,)
        self.bias = torch.nn.Parameter(torch.zeros(attention.out_channels))

    def reset_parameters(self) -> None:
        torch.nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        heads = self._attention[0].head_weights()  # [K, out, in]
        weight = heads.transpose(0, 1).flatten(1)  # [out, K * in]
        return x @ weight.t() / heads.size(0) + self.bias
