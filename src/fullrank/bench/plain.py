"""The layers as their formulas read, edge by edge: what speed is measured against.

They share the weights' names with the layers, so that a model computes the same thing
with either; the test suite holds a truth of its own.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import scatter

from fullrank.nn import CombConv, ExpandingConv, Neighborhoods
from fullrank.nn.conv.base import RankConv


def _aggregate(
    conv: RankConv, local: Neighborhoods, meet: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    h_u, h_v = local.neighbors(), local.x_dst[local.dst]
    lin: Any = conv.coefficients.lin
    m = lin(torch.cat([h_v, h_u], dim=1)).tanh()
    messages = meet(m, h_u)
    messages = conv.mlp(messages) if conv.re_sum else messages
    out = scatter(messages, local.dst, dim=0, dim_size=len(local.x_dst))
    return out if conv.re_sum else conv.mlp(out)


class PlainExpandingConv(ExpandingConv):
    """ExpandingConv with a tensor of edges x (s * d)."""

    def aggregate_fast(self, local: Neighborhoods) -> Tensor:
        return _aggregate(
            self, local, lambda m, h: (m[:, :, None] * h[:, None, :]).flatten(1)
        )


class PlainCombConv(CombConv):
    """CombConv with all products per edge."""

    def aggregate_fast(self, local: Neighborhoods) -> Tensor:
        return _aggregate(self, local, torch.mul)
