r"""Layers whose aggregators keep the rank of the neighbourhood's features.

A layer has three stages. Its :mod:`coefficients` map each pair :math:`(v, u)` of the
:class:`Neighborhoods` to :math:`\mathbf{m}_{uv}`; the :mod:`conv` layers sum
:math:`\mathrm{vec}(\mathbf{m}_{uv} \mathbf{h}_u^{\top})` or :math:`\mathbf{m}_{uv}
\odot \mathbf{h}_u`; an MLP is applied before or after the sum.

- :mod:`functional` defines the sums in the paper's notation.
- :mod:`kernels` has fast implementations of them, selected by :class:`backend`.
- :mod:`models` contains networks: :class:`GraphNet`, in which :mod:`merge` computes
  equal nodes only once, and the other models of the paper's tables.
- :mod:`resolver` creates layers by name.
"""

from fullrank.nn.coefficients import (
    AttentionCoefficients,
    Coefficients,
    ContinuousStructureCoefficients,
    GATCoefficients,
    MeanCoefficients,
    OneCoefficients,
    OnePlusTanhCoefficients,
    Stack,
    StructuralCoefficients,
    SymmetricNormCoefficients,
    TanhCoefficients,
)
from fullrank.nn.conv.comb_conv import CombConv
from fullrank.nn.conv.expanding_conv import ExpandingConv
from fullrank.nn.conv.three_stage import ThreeStageGAT, ThreeStageGCN, ThreeStageGIN0
from fullrank.nn.kernels.dispatch import backend
from fullrank.nn.models import GraphNet, make_network, network_names
from fullrank.nn.models.graph_net import OGB_ATOM_DIMS, OGB_BOND_DIMS
from fullrank.nn.models.inputs import CategoryEncoder
from fullrank.nn.neighborhoods import Neighborhoods
from fullrank.nn.resolver import conv_names, make_conv, register_conv

__all__ = [
    "OGB_ATOM_DIMS",
    "OGB_BOND_DIMS",
    "AttentionCoefficients",
    "CategoryEncoder",
    "Coefficients",
    "CombConv",
    "ContinuousStructureCoefficients",
    "ExpandingConv",
    "GATCoefficients",
    "GraphNet",
    "MeanCoefficients",
    "Neighborhoods",
    "OneCoefficients",
    "OnePlusTanhCoefficients",
    "Stack",
    "StructuralCoefficients",
    "SymmetricNormCoefficients",
    "TanhCoefficients",
    "ThreeStageGAT",
    "ThreeStageGCN",
    "ThreeStageGIN0",
    "backend",
    "conv_names",
    "make_conv",
    "make_network",
    "network_names",
    "register_conv",
]
