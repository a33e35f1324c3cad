r"""Stage 1 of a layer, :math:`\mathbf{f}_{\mathrm{local}}`: maps the local structure of
a pair :math:`(v, u)` to its aggregation coefficients :math:`\mathbf{m}_{uv}`."""

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import reset

from fullrank.nn.functional import take_rows
from fullrank.nn.kernels.dispatch import is_linear, is_plain
from fullrank.nn.lazy_linear import LazyLinear, materialize
from fullrank.nn.neighborhoods import Neighborhoods


class Coefficients(torch.nn.Module):
    r"""Base class of implementations of :math:`\mathbf{f}_{\mathrm{local}}(u, v)`.

    A subclass sets :attr:`num_aggregators` and implements :meth:`forward`, which maps
    :class:`~fullrank.nn.Neighborhoods` with :math:`E` pairs to a tensor of shape
    :math:`(E, s)`. The result for a pair may depend on features, degrees or any other
    local structure, but not on the numbering of the nodes.

    Args:
        num_aggregators: :math:`s`, the number of coefficients per pair.
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


class PairLinear(Coefficients):
    r"""Coefficients based on :math:`\mathbf{W}[\mathbf{h}_v \Vert \mathbf{h}_u] +
    \mathbf{b}`, computed per node and added per pair."""

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
        """Split the weight into the destination's and the source's columns."""
        d_src, d_dst = local.x_src.size(1), local.x_dst.size(1)
        if self._as_many_as_features:
            self.num_aggregators = d_src
        materialize(self.lin, d_dst + d_src, self.num_aggregators)
        if self.lin.in_channels != d_dst + d_src:
            raise ValueError(
                f"{self} expects features of total width {self.lin.in_channels}, "
                f"got {d_dst} (destination) + {d_src} (source)"
            )
        return self.lin.weight[:, :d_dst], self.lin.weight[:, d_dst:]

    def linear(self, local: Neighborhoods) -> Tensor:
        weight_dst, weight_src = self.split(local)
        if is_plain() or not is_linear(self.lin):
            ends = take_rows(local.x_dst, local.dst), local.neighbors()
            return self.lin(torch.cat(ends, dim=1))
        out = local.from_dst(weight_dst) + local.from_src(weight_src)
        return out if self.lin.bias is None else out + self.lin.bias


def as_pair(in_channels: int | tuple[int, int]) -> tuple[int, int]:
    """Return ``(source, destination)`` widths."""
    if isinstance(in_channels, int):
        src = dst = in_channels
    else:
        src, dst = in_channels
    if any(width != -1 and width < 1 for width in (src, dst)):
        raise ValueError(f"in_channels must be positive or -1, got {in_channels}")
    return src, dst
