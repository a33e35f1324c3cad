"""The inputs of the convolutions of a model while it runs."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from fullrank.errors import ConfigError
from fullrank.lab.precision import as_double
from fullrank.lab.probe.neighborhood import Neighborhood, neighborhood_of
from fullrank.lab.running import Runner, is_layer, runner_of
from fullrank.nn.neighborhoods import Pairs
from fullrank.nn.resolver import AddEdgeFeatures

COLORS = ("edge_color", "node_color")


@dataclass(frozen=True)
class Call:
    """One convolution and the arguments of its call.

    Attributes:
        name: Name of the convolution in the model.
        conv: The convolution.
        x: Node features.
        edge_index: The edges.
        edge_attr: Edge features or weights.
        attr_name: Name of the convolution's argument for them.
        extra: All other arguments.
    """

    name: str
    conv: torch.nn.Module
    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    attr_name: str
    extra: dict[str, Any]

    def double(self) -> "Call":
        """The call in float64; categories are not converted."""
        attr = None if self.edge_attr is None else as_double(self.edge_attr)
        return replace(self, x=self.x.double(), edge_attr=attr)

    @property
    def unknown(self) -> list[str]:
        """The arguments that are undefined for a neighbourhood cut out of the graph."""
        return [name for name in self.extra if name not in COLORS]

    def neighborhood(self, node: int) -> Neighborhood:
        """The neighbourhood of a node, with its edge features and colours."""
        colors = {name: self.extra.get(name) for name in COLORS}
        return neighborhood_of(node, self.x, self.edge_index, self.edge_attr, **colors)

    def run(self, conv: torch.nn.Module, data: Data) -> Tensor:
        """Run the convolution, or a copy of it, on another graph with the same
        arguments."""
        given = {} if data.edge_attr is None else {self.attr_name: data.edge_attr}
        given |= {name: data.get(name) for name in COLORS if name in self.extra}
        return conv(data.x, data.edge_index, **given)


@torch.no_grad()
def record_calls(
    model: torch.nn.Module, batch: Data, call: Runner | None = None
) -> list[Call]:
    """Run a model, or one layer, and record the calls of its convolutions.

    Args:
        model: A model, or a layer called as ``layer(x, edge_index[, edge_attr])``.
        batch: A PyG graph or batch.
        call: Runs the model, ``call(model, batch)``; ``model(batch)`` by default.
    """
    calls: list[Call] = []
    run = runner_of(model, call)
    if call is None and is_layer(model):
        batch = batch.clone()
        batch.x = batch.x.to(_dtype(model))
    with _evaluation_mode(model), _watched(model, calls):
        run(model, batch)
    if not calls:
        raise ConfigError(
            f"{type(model).__name__} called no convolution of PyG or of fullrank, so "
            f"there is nothing to probe"
        )
    return calls


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
    given = inspect.signature(conv.forward).bind(*args, **kwargs).arguments
    given |= given.pop("kwargs", {})
    named = {key: _on_cpu(value) for key, value in given.items() if value is not None}
    x, edge_index = named.pop("x", None), named.pop("edge_index", None)
    if isinstance(edge_index, Pairs):  # which our networks share between layers
        edge_index = _on_cpu(edge_index.edge_index)
    if not isinstance(x, Tensor) or not _are_edges(edge_index) or not is_layer(conv):
        raise ConfigError(
            f"the probe reads layers called as layer(x, edge_index[, edge_attr]) with "
            f"tensors, but {name} ({type(conv).__name__}) is called with "
            + ", ".join(
                f"{key}: {type(value).__name__}" for key, value in given.items()
            )
        )
    attr_name = "edge_weight" if "edge_weight" in named else "edge_attr"
    attr = named.pop(attr_name, None)
    return Call(name, conv, x, edge_index, attr, attr_name, named)


def _on_cpu(value: Any) -> Any:
    return value.cpu() if isinstance(value, Tensor) else value


def _are_edges(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.long and value.dim() == 2
