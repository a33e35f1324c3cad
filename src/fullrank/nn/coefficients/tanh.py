"""The paper's coefficients."""

from torch import Tensor

from fullrank.nn.coefficients.base import PairLinear
from fullrank.nn.neighborhoods import Neighborhoods


class TanhCoefficients(PairLinear):
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
