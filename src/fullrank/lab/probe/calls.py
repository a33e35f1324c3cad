"""What reaches the convolutions of a model while it runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from fullrank.errors import ConfigError
from fullrank.lab.precision import as_double
from fullrank.nn.resolver import AddEdgeFeatures


@dataclass(frozen=True)
class Call:
    """One convolution and what it was called with."""

    name: str
    conv: torch.nn.Module
    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    extra: dict[str, Any]

    def double(self) -> "Call":
        """The same in float64; categories stay what they are."""
        attr = None if self.edge_attr is None else as_double(self.edge_attr)
        return replace(self, x=self.x.double(), edge_attr=attr)


@torch.no_grad()
def record_calls(
    model: torch.nn.Module,
    batch: Data,
    run: Callable[[torch.nn.Module, Data], Any] | None = None,
) -> list[Call]:
    """Run a model, or one layer, and record what its convolutions are called with.

    Args:
        model: A model, or a layer called as ``layer(x, edge_index[, edge_attr])``.
        batch: A PyG graph or batch.
        run: How to run the model on the batch, by default ``model(batch)``.
    """
    calls: list[Call] = []
    with _evaluation_mode(model), _watched(model, calls):
        if run is not None:
            run(model, batch)
        elif isinstance(model, MessagePassing):
            model(*_layer_inputs(model, batch))
        else:
            model(batch)
    if not calls:
        raise ConfigError(
            f"{type(model).__name__} called no convolution of PyG or of fullrank, so "
            f"there is nothing to probe"
        )
    return calls


def _layer_inputs(layer: MessagePassing, batch: Data) -> tuple[Tensor, ...]:
    attr = batch.edge_attr if getattr(layer, "edge_dim", None) else None
    inputs = (batch.x.to(_dtype(layer)), batch.edge_index)
    return inputs if attr is None else (*inputs, attr)


def _dtype(layer: torch.nn.Module) -> torch.dtype:
    return next((p.dtype for p in layer.parameters()), torch.float32)


@contextmanager
def _evaluation_mode(model: torch.nn.Module) -> Iterator[None]:
    training = {part: part.training for part in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for part, was in training.items():
            part.training = was


@contextmanager
def _watched(model: torch.nn.Module, calls: list[Call]) -> Iterator[None]:
    """Record the outermost convolutions as they are called."""
    hooks = []
    for name, conv in _outermost_convs(model):

        def record(conv, args, kwargs, name=name or type(conv).__name__):
            calls.append(_read_call(name, conv, args, kwargs))

        hooks.append(conv.register_forward_pre_hook(record, with_kwargs=True))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _outermost_convs(
    model: torch.nn.Module, prefix: str = ""
) -> Iterator[tuple[str, torch.nn.Module]]:
    if isinstance(model, MessagePassing | AddEdgeFeatures):
        yield prefix, model
        return
    for name, child in model.named_children():
        yield from _outermost_convs(child, f"{prefix}.{name}" if prefix else name)


def _read_call(name: str, conv: torch.nn.Module, args: tuple, kwargs: dict) -> Call:
    named = dict(zip(("x", "edge_index", "edge_attr"), args, strict=False)) | kwargs
    x, edge_index = named.pop("x", None), named.pop("edge_index", None)
    if not isinstance(x, Tensor) or not _are_edges(edge_index):
        raise ConfigError(
            f"the probe reads layers called as layer(x, edge_index[, edge_attr]) with "
            f"tensors, but {name} is called with {type(x).__name__} and "
            f"{type(edge_index).__name__}"
        )
    # The name of the third argument in GCN and similar layers.
    if "edge_weight" in named:
        named["edge_attr"] = named.pop("edge_weight")
    attr = named.pop("edge_attr", None)
    attr = None if attr is None else attr.cpu()
    extra = {key: v.cpu() if isinstance(v, Tensor) else v for key, v in named.items()}
    return Call(name, conv, x.cpu(), edge_index.cpu(), attr, extra)


def _are_edges(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.long and value.dim() == 2
