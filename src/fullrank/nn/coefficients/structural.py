"""Coefficients that read the structure around a pair instead of its features."""

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear

from fullrank.errors import DataError
from fullrank.nn.coefficients.base import Coefficients
from fullrank.nn.functional import take_rows
from fullrank.nn.hashing import STEP, scramble, shifted
from fullrank.nn.neighborhoods import Neighborhoods


class StructuralCoefficients(Coefficients):
    r"""Coefficients from the structural colour of a pair, more expressive than 1-WL.

    .. math::
        \mathbf{m}_{uv} = \tanh(\mathbf{W} \boldsymbol{\phi}(c_{uv}) + \mathbf{b})

    :math:`c_{uv}` is the colour that :class:`fullrank.data.AddStructuralColors`
    computes for the pair, once per graph. Each 64-bit colour seeds a fixed
    pseudo-random vector :math:`\boldsymbol{\phi}(c)` with independent uniform entries
    of mean 0 and variance 1, so colours that do not occur in training need no table
    entry.

    To combine them with :class:`~fullrank.nn.TanhCoefficients`, use a
    :class:`~fullrank.nn.Stack`. The colours are passed to the layer as
    ``conv(x, edge_index, edge_color=..., node_color=...)``.

    Args:
        num_aggregators: :math:`s`, the number of coefficients per pair.
        hops: Radius of the subgraphs that the colours describe, as in
            :class:`fullrank.data.AddStructuralColors`; :obj:`None` for the whole graph.
        expansion: Length of :math:`\boldsymbol{\phi}(c)`.
    """

    def __init__(
        self, num_aggregators: int, hops: int | None = 2, expansion: int = 32
    ) -> None:
        super().__init__(num_aggregators)
        if expansion < 1:
            raise ValueError(f"expansion must be at least 1, got {expansion}")
        self.hops = hops
        self.expansion = expansion
        self.lin = Linear(expansion, num_aggregators)

    def forward(self, local: Neighborhoods) -> Tensor:
        if local.color is None or local.color.dim() != 1:
            raise DataError(
                f"{self} needs the structural colours of edges and nodes; add them to "
                f"the data with AddStructuralColors(hops={self.hops}) and pass "
                f"edge_color and node_color to the layer"
            )
        color, which = local.color.unique(return_inverse=True)  # far fewer than pairs
        features = expand_colors(color, self.expansion).to(self.lin.weight.dtype)
        return take_rows(self.lin(features).tanh(), which)

    def __repr__(self) -> str:
        return f"StructuralCoefficients({self.num_aggregators}, hops={self.hops})"


def expand_colors(color: Tensor, width: int) -> Tensor:
    """Return `width` pseudo-random numbers for each colour, ``[E, width]`` in float64.

    They are independent and uniform with mean 0 and variance 1, and depend only on the
    colour: number j is the j-th output of splitmix64 seeded with the colour.
    """
    step = torch.arange(width, device=color.device) * STEP
    x = scramble(color[:, None] + step)  # [E, width], modulo 2^64
    unit = shifted(x, 11).double() * 2.0**-53  # all bits that float64 can hold
    return (2 * unit - 1) * 3**0.5
