"""Concatenation of coefficient modules."""

import torch
from torch import Tensor

from fullrank.nn.coefficients.base import Coefficients
from fullrank.nn.neighborhoods import Neighborhoods


class Stack(Coefficients):
    r"""Concatenation of several coefficient modules, :math:`[\mathbf{m}_{uv} \Vert
    \mathbf{m}'_{uv} \Vert \dots]`.

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
