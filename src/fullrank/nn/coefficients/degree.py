"""Coefficients that depend only on the sizes of neighbourhoods."""

import torch
from torch import Tensor

from fullrank.nn.coefficients.base import Coefficients
from fullrank.nn.neighborhoods import Neighborhoods


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
                "SymmetricNormCoefficients does not support bipartite input; use "
                "MeanCoefficients"
            )
        sizes = local.sizes()
        # A source with an empty neighbourhood (no self-loops added) has weight 0.
        scale = torch.where(sizes > 0, sizes.clamp(min=1).rsqrt(), 0)
        return (scale[local.src] * scale[local.dst])[:, None]


class OneCoefficients(Coefficients):
    r"""The constant :math:`m_{uv} = 1` (SUM).

    Args:
        num_aggregators: Number of equal coefficients. More than one is useful only for
            :class:`CombConv`, which needs one per feature.
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
