"""Models and graphs in float64, which distinguishes equality from rounding."""

from copy import deepcopy

import torch
from torch import Tensor
from torch_geometric.data import Data


def frozen_copy(layer: torch.nn.Module) -> torch.nn.Module:
    """A copy on the CPU, in float64 and evaluation mode, with frozen parameters.

    PyG's layers with ``cached=True`` answer for the first graph they saw; the copy
    reads every graph.
    """
    copy = deepcopy(layer).cpu().double().eval().requires_grad_(False)
    for part in copy.modules():
        if getattr(part, "cached", False) is True:
            stored = [name for name in vars(part) if name.startswith("_cached_")]
            vars(part).update(dict.fromkeys(stored), cached=False)
    return copy


def double(data: Data) -> Data:
    """A graph or batch with all floating-point values in float64."""
    return data.clone().apply(as_double)


def as_double(value: Tensor) -> Tensor:
    """A tensor in float64; categories are not converted."""
    return value.double() if value.is_floating_point() else value
