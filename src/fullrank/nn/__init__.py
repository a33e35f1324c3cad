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
from fullrank.nn.expanding_conv import ExpandingConv
from fullrank.nn.neighborhoods import Neighborhoods

__all__ = [
    "AttentionCoefficients",
    "Coefficients",
    "CombConv",
    "ExpandingConv",
    "GATCoefficients",
    "MeanCoefficients",
    "Neighborhoods",
    "OneCoefficients",
    "Stack",
    "SymmetricNormCoefficients",
    "TanhCoefficients",
]
