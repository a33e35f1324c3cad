"""Models without gradients: features or kernels of graphs, and a classifier.

They have scikit-learn's ``fit`` and ``predict``, called with a data set and indices of
graphs, and run in the same protocols as networks.
"""

from fullrank.train.estimators.awe import AWE
from fullrank.train.estimators.base import Estimator
from fullrank.train.estimators.dgk import DGK
from fullrank.train.estimators.wegl import WEGL

#: Estimators by name; all take ``(seed=..., **own)``.
ESTIMATORS: dict[str, type[Estimator]] = {"awe": AWE, "dgk": DGK, "wegl": WEGL}

__all__ = ["AWE", "DGK", "ESTIMATORS", "WEGL", "Estimator"]
