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
from fullrank.lab.coefficient_rank import (
    GROWTH_WITHOUT_GAIN,
    Certificate,
    Injectivity,
    Overlap,
    StackingGain,
    certificate,
    effective_rank,
    injectivity,
    numerical_rank,
    overlap_dimension,
    stacked_overlap,
    stacking_gain,
)
from fullrank.lab.collide import Collision, collide
from fullrank.lab.distance import multiset_distance
from fullrank.lab.equivariance import Equivariance, is_equivariant
from fullrank.lab.examine import Finding, examine
from fullrank.lab.layer_aggregator import as_aggregator, coefficient_aggregator
from fullrank.lab.neighborhood import Neighborhood, neighborhood_of
from fullrank.lab.pairs import SUITES, PairSuite, load_suite, relabel
from fullrank.lab.probe import LayerProfile, profile
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
    "GROWTH_WITHOUT_GAIN",
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
    "Certificate",
    "Collision",
    "Comparison",
    "Equivariance",
    "Finding",
    "Injectivity",
    "LayerProfile",
    "LinearBefore",
    "MatrixAggregator",
    "Multiset",
    "Neighborhood",
    "Overlap",
    "PairNet",
    "PairSuite",
    "Product",
    "Proof",
    "RankMonitor",
    "Separation",
    "StackingGain",
    "Unknown",
    "Witness",
    "aggregator",
    "as_aggregator",
    "as_strong",
    "certificate",
    "coefficient_aggregator",
    "collide",
    "compare",
    "effective_rank",
    "examine",
    "injectivity",
    "is_equivariant",
    "load_suite",
    "moment",
    "multiset_distance",
    "neighborhood_of",
    "numerical_rank",
    "overlap_dimension",
    "powers",
    "profile",
    "relabel",
    "separates",
    "stacked_overlap",
    "stacking_gain",
    "wl_classes",
    "wl_colors",
]


def __getattr__(name: str):
    # Lightning is slow to import and needed by the monitor only.
    if name == "RankMonitor":
        from fullrank.lab.monitor import RankMonitor

        return RankMonitor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
