"""The paper's coefficients, and their initialisation."""

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import is_uninitialized_parameter

from fullrank.nn.coefficients.base import PairLinear
from fullrank.nn.neighborhoods import Neighborhoods

INITS = ("paper", "balanced")


class TanhCoefficients(PairLinear):
    r"""The paper's coefficients.

    .. math::
        \mathbf{m}_{uv} = \tanh(\mathbf{W}[\mathbf{h}_v \Vert \mathbf{h}_u]
        + \mathbf{b})

    **Initialisation.** Let the entries of :math:`\mathbf{h}` be independent with mean 0
    and variance :math:`\sigma^2`, and weights and biases be drawn as
    :class:`torch.nn.Linear` does, with variance :math:`1 / (3 \cdot \mathrm{fan\ in})`.
    The argument of the tanh has variance :math:`\sigma^2/3 + 1/(6d)`. The first linear
    map of the MLP reads the :math:`s d` numbers :math:`m_k h_i` (of CombConv, the
    :math:`d` numbers :math:`m_i h_i`), so

    .. math::
        \mathrm{Var}(\mathbf{W}_1 \mathrm{vec}(\mathbf{m} \mathbf{h}^{\top})) =
        s d \cdot \frac{1}{3 s d} \cdot \mathrm{E}[m^2] \, \sigma^2 =
        \frac{\mathrm{E}[m^2]}{3} \sigma^2

    for all :math:`s` and :math:`d`; for GIN, with :math:`m = 1`, it is
    :math:`\sigma^2/3`. With ``init="paper"``, :math:`\mathrm{E}[m^2] \approx \sigma^2/3
    + 1/(6d)` while :math:`\sigma` is small: the variance falls like :math:`\sigma^4`,
    unlike the bias of variance :math:`1/(3 s d)`, and the messages of all pairs are
    almost the same. With ``init="balanced"``, :math:`\mathbf{b} = 1`: then
    :math:`\mathrm{E}[m^2]` is :math:`\tanh^2 1 = 0.58` for :math:`\sigma \to 0`, 1 for
    :math:`\sigma \to \infty` and at least 0.53 between, so the standard deviation is
    0.72 to 1 times GIN's at every scale. The signs of :math:`\mathbf{b}` make no
    difference, because tanh is odd and the distribution of :math:`\mathbf{W}_1`
    symmetric.

    The balance is one of variances, not of training steps. The first step of Adam moves
    all entries of :math:`\mathbf{W}_1` by the learning rate :math:`\eta`. If every
    :math:`m_k` has the same sign for all pairs, as with a bias of 1, the steps of the
    :math:`s` aggregators add up: the product changes by up to :math:`\eta s d \,
    \mathrm{E}|m| \, \mathrm{E}|h|`, :math:`s` times as much as GIN's. With many
    aggregators, use a smaller learning rate or ``init="paper"``.

    Args:
        in_channels: Width of the features; a pair ``(source, destination)`` for
            bipartite graphs; ``-1`` to derive it from the first input.
        num_aggregators: :math:`s`; ``-1`` together with ``in_channels=-1`` for one per
            source feature.
        init: ``"paper"`` draws the bias as :class:`torch.nn.Linear` does;
            ``"balanced"`` sets it to 1.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        num_aggregators: int,
        init: str = "paper",
    ) -> None:
        if init not in INITS:
            raise ValueError(f"there is no init {init!r} (known: {', '.join(INITS)})")
        super().__init__(in_channels, num_aggregators, bias=True)
        self.init = init
        self._balance()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self._balance()

    def split(self, local: Neighborhoods) -> tuple[Tensor, Tensor]:
        lazy = is_uninitialized_parameter(self.lin.weight)
        weights = super().split(local)
        if lazy:  # PyG has just initialised the bias
            self._balance()
        return weights

    def _balance(self) -> None:
        if self.init == "balanced":
            torch.nn.init.ones_(self.lin.bias)

    def forward(self, local: Neighborhoods) -> Tensor:
        return self.linear(local).tanh()


class OnePlusTanhCoefficients(PairLinear):
    r"""The paper's coefficients shifted by 1, close to a SUM at initialisation.

    .. math::
        \mathbf{m}_{uv} = 1 + \tanh(\mathbf{W}[\mathbf{h}_v \Vert \mathbf{h}_u]
        + \mathbf{b})

    :math:`\mathrm{E}[m^2]` lies between 1 and 2 at any scale of the features, so the
    variance of the messages is comparable to GIN's (see :class:`TanhCoefficients`).
    Coefficients cannot be negative; weights of the MLP can.

    Args:
        in_channels: As in :class:`TanhCoefficients`.
        num_aggregators: As in :class:`TanhCoefficients`.
    """

    def __init__(
        self, in_channels: int | tuple[int, int], num_aggregators: int
    ) -> None:
        super().__init__(in_channels, num_aggregators, bias=True)

    def forward(self, local: Neighborhoods) -> Tensor:
        return 1 + self.linear(local).tanh()
