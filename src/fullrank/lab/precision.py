"""Models and graphs in float64, which distinguishes equality from rounding."""

from copy import deepcopy

import torch
from torch import Tensor
from torch_geometric.data import Data


def frozen_copy(layer: torch.nn.Module) -> torch.nn.Module:
    """A copy on the CPU, in float64 and evaluation mode, with frozen parameters."""
    return deepcopy(layer).cpu().double().eval().requires_grad_(False)


def double(data: Data) -> Data:
    """A graph or batch with all floating-point values in float64."""
    return data.clone().apply(as_double)


def as_double(value: Tensor) -> Tensor:
    """A tensor in float64; categories are not converted."""
    return value.double() if value.is_floating_point() else value
