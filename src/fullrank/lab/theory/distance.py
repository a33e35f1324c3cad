"""The distance between two multisets."""

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor


def nearest_reordering(x: Tensor, y: Tensor) -> Tensor:
    """The rows of `x` in the order that brings them closest to `y`."""
    cost = torch.cdist(y, x, compute_mode="donot_use_mm_for_euclid_dist") ** 2
    _, column = linear_sum_assignment(cost.numpy())
    return x[torch.from_numpy(column)]


def multiset_distance(x: Tensor, y: Tensor) -> float:
    r"""Distance between two multisets of n rows,
    :math:`\min_\pi \lVert x_\pi - y \rVert`."""
    return float((nearest_reordering(x, y) - y).norm())
