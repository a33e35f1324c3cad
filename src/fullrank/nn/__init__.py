"""Layers whose aggregators keep the rank of what they aggregate."""

from fullrank.nn.coefficients import (
    AttentionCoefficients,
    Coefficients,
    GATCoefficients,
    MeanCoefficients,
    OneCoefficients,
    Stack,
    StructuralCoefficients,
    SymmetricNormCoefficients,
    TanhCoefficients,
)
from fullrank.nn.conv.comb_conv import CombConv
from fullrank.nn.conv.expanding_conv import ExpandingConv
from fullrank.nn.conv.three_stage import ThreeStageGAT, ThreeStageGCN, ThreeStageGIN0
from fullrank.nn.models.graph_net import (
    OGB_ATOM_DIMS,
    OGB_BOND_DIMS,
    CategoryEncoder,
    GraphNet,
)
from fullrank.nn.neighborhoods import Neighborhoods
from fullrank.nn.resolver import conv_names, make_conv, register_conv

__all__ = [
    "OGB_ATOM_DIMS",
    "OGB_BOND_DIMS",
    "AttentionCoefficients",
    "CategoryEncoder",
    "Coefficients",
    "CombConv",
    "ExpandingConv",
    "GATCoefficients",
    "GraphNet",
    "MeanCoefficients",
    "Neighborhoods",
    "OneCoefficients",
    "Stack",
    "StructuralCoefficients",
    "SymmetricNormCoefficients",
    "TanhCoefficients",
    "ThreeStageGAT",
    "ThreeStageGCN",
    "ThreeStageGIN0",
    "conv_names",
    "make_conv",
    "register_conv",
]
