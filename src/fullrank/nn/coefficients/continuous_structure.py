"""Coefficients from numbers that describe the structure around a pair."""

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear

from fullrank.errors import DataError
from fullrank.nn.coefficients.base import Coefficients
from fullrank.nn.neighborhoods import Neighborhoods


class ContinuousStructureCoefficients(Coefficients):
    r"""Coefficients from the continuous structure of a pair.

    .. math::
        \mathbf{m}_{uv} = \tanh(\mathbf{W}_2 \max(\mathbf{0}, \mathbf{W}_1
        \mathbf{s}_{uv} + \mathbf{b}_1) + \mathbf{b}_2)

    :math:`\mathbf{s}_{uv}` are the random-walk probabilities, distance, common
    neighbours, ring and resistance that :class:`fullrank.data.AddContinuousStructure`
    computes for the pair, once per graph. Similar pairs have similar coefficients,
    unlike with :class:`~fullrank.nn.StructuralCoefficients`.

    The numbers are passed to the layer in place of colours, as
    ``conv(x, edge_index, edge_color=..., node_color=...)``.

    Args:
        num_aggregators: :math:`s`, the number of coefficients per pair.
        walk_length: Number of steps of the longest random walk, as in
            :class:`fullrank.data.AddContinuousStructure`.
        hidden_channels: Length of :math:`\mathbf{b}_1`.
    """

    def __init__(
        self, num_aggregators: int, walk_length: int = 8, hidden_channels: int = 32
    ) -> None:
        super().__init__(num_aggregators)
        self.walk_length = walk_length
        self.lin1 = Linear(walk_length + 5, hidden_channels)
        self.lin2 = Linear(hidden_channels, num_aggregators)

    def forward(self, local: Neighborhoods) -> Tensor:
        width = self.lin1.in_channels
        if local.color is None or local.color.shape[1:] != (width,):
            got = "none" if local.color is None else f"{list(local.color.shape[1:])}"
            raise DataError(
                f"{self} needs {width} numbers for each edge and node, got {got}; add "
                f"them to the data with AddContinuousStructure(walk_length="
                f"{self.walk_length}) and pass edge_color and node_color to the layer"
            )
        structure = local.color.to(self.lin1.weight.dtype)
        return self.lin2(torch.relu(self.lin1(structure))).tanh()

    def __repr__(self) -> str:
        return (
            f"ContinuousStructureCoefficients({self.num_aggregators}, "
            f"walk_length={self.walk_length})"
        )
