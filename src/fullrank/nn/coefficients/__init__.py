"""Stage 1 of a layer: the aggregation coefficients of each pair of nodes."""

from fullrank.nn.coefficients.attention import AttentionCoefficients, GATCoefficients
from fullrank.nn.coefficients.base import Coefficients
from fullrank.nn.coefficients.continuous_structure import (
    ContinuousStructureCoefficients,
)
from fullrank.nn.coefficients.degree import (
    MeanCoefficients,
    OneCoefficients,
    SymmetricNormCoefficients,
)
from fullrank.nn.coefficients.stack import Stack
from fullrank.nn.coefficients.structural import StructuralCoefficients
from fullrank.nn.coefficients.tanh import OnePlusTanhCoefficients, TanhCoefficients

__all__ = [
    "AttentionCoefficients",
    "Coefficients",
    "ContinuousStructureCoefficients",
    "GATCoefficients",
    "MeanCoefficients",
    "OneCoefficients",
    "OnePlusTanhCoefficients",
    "Stack",
    "StructuralCoefficients",
    "SymmetricNormCoefficients",
    "TanhCoefficients",
]
