"""Layers whose aggregators keep the rank of what they aggregate."""

from fullrank.nn.coefficients import (
    AttentionCoefficients,
    Coefficients,
    GATCoefficients,
    MeanCoefficients,
    OneCoefficients,
    Stack,
    SymmetricNormCoefficients,
    TanhCoefficients,
)
from fullrank.nn.comb_conv import CombConv
from fullrank.nn.derivation import Derivation, derive
from fullrank.nn.expanding_conv import ExpandingConv
from fullrank.nn.graph_net import (
    OGB_ATOM_DIMS,
    OGB_BOND_DIMS,
    CategoryEncoder,
    GraphNet,
)
from fullrank.nn.neighborhoods import Neighborhoods
from fullrank.nn.registry import conv_names, make_conv, register_conv
from fullrank.nn.structural_coefficients import StructuralCoefficients
from fullrank.nn.three_stage import ThreeStageGAT, ThreeStageGCN, ThreeStageGIN0

__all__ = [
    "OGB_ATOM_DIMS",
    "OGB_BOND_DIMS",
    "AttentionCoefficients",
    "CategoryEncoder",
    "Coefficients",
    "CombConv",
    "Derivation",
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
    "derive",
    "make_conv",
    "register_conv",
]
