"""Running layers and models in the lab."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.nn import MeshCNNConv, MessagePassing

from fullrank.errors import ConfigError
from fullrank.nn.conv.base import RankConv
from fullrank.nn.resolver import AddEdgeFeatures

#: Runs a module on a PyG graph or batch: the ``call=`` of the lab's functions.
Runner = Callable[[torch.nn.Module, Data], Tensor]

# Its edges are nodes, and its edge_index contains the four sides around each of them.
_OTHER_EDGES = (MeshCNNConv,)
_STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def runner_of(module: torch.nn.Module, call: Runner | None = None) -> Runner:
    """`call`, or the default: ``layer(x, edge_index[, edge_attr])`` for a layer,
    ``model(data)`` for any other module."""
    if call is not None:
        return call
    return _run_layer if is_layer(module) else _run_model


def is_layer(module: torch.nn.Module) -> bool:
    """Whether a module is called as ``layer(x, edge_index, ...)``.

    Raises:
        ConfigError: If it is a layer with arguments of other meaning.
    """
    parameters = inspect.signature(module.forward).parameters.values()
    names = [p.name for p in parameters if p.default is p.empty]
    starred = any(p.kind in _STARRED for p in parameters)
    if isinstance(module, _OTHER_EDGES) or (
        isinstance(module, MessagePassing)
        and not starred
        and names[:2] != ["x", "edge_index"]
    ):
        raise ConfigError(
            f"the lab runs layers as layer(x, edge_index), where edge_index joins "
            f"nodes; {type(module).__name__}({', '.join(names)}) has a different "
            f"signature: pass call=lambda layer, data: layer(...)"
        )
    if isinstance(module, MessagePassing | AddEdgeFeatures):
        return True
    return names[:2] == ["x", "edge_index"]


def _run_layer(layer: torch.nn.Module, data: Data) -> Tensor:
    attr = data.edge_attr if _takes_edge_attr(layer) else None
    inputs = [data.x, data.edge_index, *([] if attr is None else [attr])]
    colors: dict[str, Any] = {}
    if isinstance(layer, RankConv):
        colors = {name: data.get(name) for name in ("edge_color", "node_color")}
    return layer(*inputs, **colors)


def _takes_edge_attr(layer: torch.nn.Module) -> bool:
    """Whether a layer reads edge features: determined by their width if it has one,
    otherwise by its third argument."""
    if isinstance(layer, AddEdgeFeatures):
        return True
    for name in ("edge_dim", "in_edge_channels"):
        if hasattr(layer, name):
            return getattr(layer, name) is not None
    names = list(inspect.signature(layer.forward).parameters)
    return len(names) > 2 and names[2] == "edge_attr"


def _run_model(model: torch.nn.Module, data: Data) -> Tensor:
    return model(data)


def centers(output: Tensor, batch: Batch) -> Tensor:
    """One row for each graph of a batch: the graph's, or that of its first node."""
    if not isinstance(output, Tensor) or output.dim() == 0:
        raise ConfigError(f"a module must return a tensor, got {type(output).__name__}")
    if output.size(0) == batch.num_nodes:
        output = output[batch.ptr[:-1]]
    if output.size(0) != batch.num_graphs:
        raise ConfigError(
            f"a module must return a row for each of {batch.num_nodes} nodes or "
            f"{batch.num_graphs} graphs, got shape {list(output.shape)}"
        )
    return output.flatten(1) if output.dim() > 1 else output[:, None]
