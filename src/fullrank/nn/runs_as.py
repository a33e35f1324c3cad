"""When a module may be replaced by a formula: only if it is known to run as one."""

from typing import TypeGuard, TypeVar

import torch
from torch_geometric.nn.dense.linear import Linear

M = TypeVar("M", bound=torch.nn.Module)


def runs_as(module: torch.nn.Module, *kinds: type[M]) -> TypeGuard[M]:
    """Tell whether calling a module does what one of these classes does, and no more.

    A forward of its own, or any hook (which is how pruning and the older spectral norm
    work), may do more; parametrisations, which sit in the weights, do not.
    """
    forward = getattr(module.forward, "__func__", None)
    return any(forward is kind.forward for kind in kinds) and not (
        module._forward_pre_hooks
        or module._forward_hooks
        or module._backward_pre_hooks
        or module._backward_hooks
    )


def is_linear(module: torch.nn.Module) -> bool:
    """Tell whether a module runs as a linear layer, PyG's or torch's."""
    return runs_as(module, Linear, torch.nn.Linear)
