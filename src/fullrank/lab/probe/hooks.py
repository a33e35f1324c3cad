"""Hooks on PyG layers while they run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing


@contextmanager
def hooked(layer: torch.nn.Module, stage: str, hook: Callable) -> Iterator[None]:
    """Hook a stage of every message-passing part of a layer.

    Args:
        layer: The layer.
        stage: ``"aggregate"`` or ``"edge_update"``, which computes attention.
        hook: Called as PyG calls such hooks, ``hook(part, inputs, output)``.
    """
    handles = [
        getattr(part, f"register_{stage}_forward_hook")(hook)
        for part in layer.modules()
        if isinstance(part, MessagePassing)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def aggregates(layer: torch.nn.Module, run: Callable[[], object]) -> list[Tensor]:
    """The aggregates of a layer while it runs, ``[N, ...]`` for each aggregation."""
    seen: list[Tensor] = []
    with hooked(layer, "aggregate", lambda part, inputs, out: seen.append(out)):
        run()
    return seen
