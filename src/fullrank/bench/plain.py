"""The layers as their formulas read, edge by edge: what speed is measured against.

They share the weights' names with the layers, so that a model computes the same thing
with either; :mod:`tests` holds a truth of its own.
"""

import torch
from torch import Tensor
from torch_geometric.utils import scatter

from fullrank.nn import CombConv, ExpandingConv


class _Plain:
    def forward(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None
    ) -> Tensor:
        local = self.neighborhoods(x, edge_index, edge_attr)
        h_u, h_v = x[local.src], x[local.dst]
        if local.edge_attr is not None:
            h_u = h_u + self.edge_lin(local.edge_attr)
        m = self.coefficients.lin(torch.cat([h_v, h_u], dim=1)).tanh()
        messages = self.meet(m, h_u)
        messages = self.mlp(messages) if self.re_sum else messages
        out = scatter(messages, local.dst, dim=0, dim_size=len(x))
        return out if self.re_sum else self.mlp(out)


class PlainExpandingConv(_Plain, ExpandingConv):
    """ExpandingConv with a tensor of edges x (s * d)."""

    def meet(self, m: Tensor, h_u: Tensor) -> Tensor:
        return (m[:, :, None] * h_u[:, None, :]).flatten(1)


class PlainCombConv(_Plain, CombConv):
    """CombConv with all products per edge."""

    def meet(self, m: Tensor, h_u: Tensor) -> Tensor:
        return m * h_u
