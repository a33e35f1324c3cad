"""What an aggregator, a layer or a model can and cannot tell apart."""

from fullrank.lab.aggregators import (
    MAX,
    MEAN,
    MIN,
    NMEAN,
    STD,
    SUM,
    After,
    Aggregator,
    Before,
    LinearBefore,
    MatrixAggregator,
    Multiset,
    Product,
    aggregator,
    moment,
    powers,
)
from fullrank.lab.equivariance import Equivariance, is_equivariant
from fullrank.lab.pairs import SUITES, PairSuite, load_suite, relabel
from fullrank.lab.reference import PairNet
from fullrank.lab.separates import Separation, separates
from fullrank.lab.strength import (
    Comparison,
    Proof,
    Unknown,
    Witness,
    as_strong,
    compare,
)
from fullrank.lab.wl import wl_classes, wl_colors

__all__ = [
    "MAX",
    "MEAN",
    "MIN",
    "NMEAN",
    "STD",
    "SUITES",
    "SUM",
    "After",
    "Aggregator",
    "Before",
    "Comparison",
    "Equivariance",
    "LinearBefore",
    "MatrixAggregator",
    "Multiset",
    "PairNet",
    "PairSuite",
    "Product",
    "Proof",
    "Separation",
    "Unknown",
    "Witness",
    "aggregator",
    "as_strong",
    "compare",
    "is_equivariant",
    "load_suite",
    "moment",
    "powers",
    "relabel",
    "separates",
    "wl_classes",
    "wl_colors",
]
