"""What an aggregator, a layer or a model can and cannot tell apart."""

from fullrank.lab.pairs import SUITES, PairSuite, load_suite, relabel
from fullrank.lab.reference import PairNet
from fullrank.lab.separates import Separation, separates
from fullrank.lab.wl import wl_classes, wl_colors

__all__ = [
    "SUITES",
    "PairNet",
    "PairSuite",
    "Separation",
    "load_suite",
    "relabel",
    "separates",
    "wl_classes",
    "wl_colors",
]
