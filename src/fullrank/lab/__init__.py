"""What an aggregator, a layer or a model can and cannot distinguish."""

from fullrank.lab.graphs.brec import RPC, PairedComparisons, brec
from fullrank.lab.graphs.counting import Counting, Miscount, cannot_count
from fullrank.lab.graphs.families import cfi_pair
from fullrank.lab.graphs.kwl import WLLevel, wl_level
from fullrank.lab.graphs.merged import Group, Merging, merged
from fullrank.lab.graphs.pairs import PairSuite, relabel
from fullrank.lab.graphs.reference import PairNet
from fullrank.lab.graphs.separates import Separation, separates
from fullrank.lab.graphs.suites import SUITES, load_suite
from fullrank.lab.graphs.wl import wl_classes, wl_colors
from fullrank.lab.probe.collide import Collision, collide
from fullrank.lab.probe.compare import compare
from fullrank.lab.probe.examine import Finding, examine
from fullrank.lab.probe.layer_aggregator import as_aggregator, coefficient_aggregator
from fullrank.lab.probe.neighborhood import Neighborhood, neighborhood_of
from fullrank.lab.probe.profile import LayerProfile, profile
from fullrank.lab.probe.reach import Reach, reach
from fullrank.lab.theory.aggregators import (
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
from fullrank.lab.theory.coefficient_rank import (
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
from fullrank.lab.theory.derivation import Derivation, derive
from fullrank.lab.theory.distance import multiset_distance
from fullrank.lab.theory.equivariance import Equivariance, is_equivariant
from fullrank.lab.theory.strength import (
    Comparison,
    Proof,
    Unknown,
    Witness,
    as_strong,
)

__all__ = [
    "GROWTH_WITHOUT_GAIN",
    "MAX",
    "MEAN",
    "MIN",
    "NMEAN",
    "RPC",
    "STD",
    "SUITES",
    "SUM",
    "After",
    "Aggregator",
    "Before",
    "Certificate",
    "Collision",
    "Comparison",
    "Counting",
    "Derivation",
    "Equivariance",
    "Finding",
    "Group",
    "Injectivity",
    "LayerProfile",
    "LinearBefore",
    "MatrixAggregator",
    "Merging",
    "Miscount",
    "Multiset",
    "Neighborhood",
    "Overlap",
    "PairNet",
    "PairSuite",
    "PairedComparisons",
    "Product",
    "Proof",
    "Reach",
    "Separation",
    "StackingGain",
    "Unknown",
    "WLLevel",
    "Witness",
    "aggregator",
    "as_aggregator",
    "as_strong",
    "brec",
    "cannot_count",
    "certificate",
    "cfi_pair",
    "coefficient_aggregator",
    "collide",
    "compare",
    "derive",
    "effective_rank",
    "examine",
    "injectivity",
    "is_equivariant",
    "load_suite",
    "merged",
    "moment",
    "multiset_distance",
    "neighborhood_of",
    "numerical_rank",
    "overlap_dimension",
    "powers",
    "profile",
    "reach",
    "relabel",
    "separates",
    "stacked_overlap",
    "stacking_gain",
    "wl_classes",
    "wl_colors",
    "wl_level",
]


def __getattr__(name: str):
    # Only the monitor needs Lightning, which is slow to import and optional.
    if name == "RankMonitor":
        from fullrank.lab.probe.monitor import RankMonitor

        return RankMonitor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
