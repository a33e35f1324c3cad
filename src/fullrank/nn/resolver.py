"""Convolutions by name, all with edge features, for :class:`~fullrank.nn.GraphNet`."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import GATv2Conv, GENConv, MessagePassing, PNAConv, SAGEConv
from torch_geometric.nn.dense.linear import Linear

from fullrank.errors import ConfigError, nearest
from fullrank.nn.coefficients import (
    ContinuousStructureCoefficients,
    Stack,
    StructuralCoefficients,
    TanhCoefficients,
)
from fullrank.nn.conv.comb_conv import CombConv
from fullrank.nn.conv.expanding_conv import ExpandingConv
from fullrank.nn.conv.three_stage import ThreeStageGAT, ThreeStageGCN, ThreeStageGIN0

ConvFactory = Callable[..., torch.nn.Module]

_STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

# For each name the factory, and the layer that receives its further keyword arguments.
_CONVS: dict[str, tuple[ConvFactory, ...]] = {
    "expc": (ExpandingConv,),
    "combc": (CombConv,),
    "gin0": (ThreeStageGIN0,),
    "gcn": (ThreeStageGCN,),
    "gat": (ThreeStageGAT,),
    "gen": (GENConv,),
}


def register_conv(
    name: str, hands_on_to: ConvFactory | None = None
) -> Callable[[ConvFactory], ConvFactory]:
    """Register a convolution under a name.

    The decorated class or function is called with ``(in_channels, out_channels,
    edge_dim=..., **arguments)``, where ``edge_dim`` is the number of edge features or
    :obj:`None`, and its result with ``(x, edge_index, edge_attr)``.

    Args:
        name: The name.
        hands_on_to: The layer to which a decorated function passes its ``**kwargs``, so
            that errors can list them.
    """

    def register(factory: ConvFactory) -> ConvFactory:
        if name in _CONVS:
            raise ValueError(f"the convolution {name!r} already exists")
        _CONVS[name] = (factory,) if hands_on_to is None else (factory, hands_on_to)
        return factory

    return register


def conv_names() -> list[str]:
    """Return the names of all registered convolutions."""
    return sorted(_CONVS)


def make_conv(
    name: str,
    in_channels: int,
    out_channels: int,
    edge_dim: int | None,
    /,
    **kwargs: Any,
) -> torch.nn.Module:
    """Create a convolution by name."""
    if name not in _CONVS:
        raise ConfigError(
            f"there is no convolution {name!r}{nearest(name, _CONVS)}; known: "
            f"{', '.join(conv_names())}"
        )
    make, *_ = _CONVS[name]
    try:
        return make(in_channels, out_channels, edge_dim=edge_dim, **kwargs)
    except Exception as error:  # a wrong value raises anything in other libraries
        for option in kwargs:
            if f"argument {option!r}" in str(error):
                known = _options(*_CONVS[name]) - {option}
                raise ConfigError(
                    f"the convolution {name!r} has no option {option!r}"
                    f"{nearest(option, known)}; known: {', '.join(sorted(known))}"
                ) from error
        shown = ", ".join(f"{option}={value!r}" for option, value in kwargs.items())
        raise ConfigError(
            f"the convolution {name!r} cannot be created with ({shown}): "
            f"{str(error) or type(error).__name__}"
        ) from error


def _options(*factories: ConvFactory) -> set[str]:
    """Return the keyword arguments of a factory, following its ``**kwargs``."""
    options: set[str] = set()
    for factory in factories:
        line = getattr(factory, "__mro__", ())  # of a class
        inits = [vars(cls)["__init__"] for cls in line if "__init__" in vars(cls)]
        for function in inits or [factory]:
            parameters = inspect.signature(function).parameters.values()
            starred = {p.name for p in parameters if p.kind in _STARRED}
            options |= {p.name for p in parameters} - starred
            if not starred:
                break
    return options - {"self", "in_channels", "out_channels", "edge_dim"}


class AddEdgeFeatures(torch.nn.Module):
    r"""A PyG convolution with :math:`\mathbf{h}_u + \mathbf{W}_e \mathbf{e}_{uv}` in
    place of :math:`\mathbf{h}_u` in its messages.

    For convolutions that do not support edge features, add no self-loops and name the
    neighbour's features ``x_j``.
    """

    def __init__(self, conv: MessagePassing, in_channels: int, edge_dim: int) -> None:
        super().__init__()
        self.conv = conv
        self.edge_lin = Linear(edge_dim, in_channels, bias=False)

    def reset_parameters(self) -> None:
        self.conv.reset_parameters()
        self.edge_lin.reset_parameters()

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        encoded = self.edge_lin(edge_attr)

        def add(conv, inputs):
            (messages,) = inputs
            return ({**messages, "x_j": messages["x_j"] + encoded},)

        hook = self.conv.register_message_forward_pre_hook(add)
        try:
            return self.conv(x, edge_index)
        finally:
            hook.remove()


@register_conv("gatv2", hands_on_to=GATv2Conv)
def _gatv2(in_channels, out_channels, edge_dim=None, heads=1, **kwargs):
    return GATv2Conv(
        in_channels, out_channels, heads, concat=False, edge_dim=edge_dim, **kwargs
    )


@register_conv("sage", hands_on_to=SAGEConv)
def _sage(in_channels, out_channels, edge_dim=None, **kwargs):
    conv = SAGEConv(in_channels, out_channels, **kwargs)
    return conv if edge_dim is None else AddEdgeFeatures(conv, in_channels, edge_dim)


@register_conv("pna", hands_on_to=PNAConv)
def _pna(
    in_channels,
    out_channels,
    edge_dim=None,
    deg=None,
    aggregators=("mean", "min", "max", "std"),
    scalers=("identity", "amplification", "attenuation"),
    **kwargs,
):
    if deg is None:
        raise ValueError(
            "it needs deg, the histogram of in-degrees of the training graphs "
            "(torch.bincount)"
        )
    deg = torch.as_tensor(deg, device="cpu")  # PNA reads it, also on the meta device
    return PNAConv(
        in_channels,
        out_channels,
        list(aggregators),
        list(scalers),
        deg=deg,
        edge_dim=edge_dim,
        **kwargs,
    )


@register_conv("expc-structural", hands_on_to=ExpandingConv)
def _expc_structural(
    in_channels,
    out_channels,
    num_aggregators=4,
    num_structural=4,
    hops=2,
    init="paper",
    **kwargs,
):
    tanh = TanhCoefficients(in_channels, num_aggregators, init)
    both = Stack(tanh, StructuralCoefficients(num_structural, hops))
    return ExpandingConv(in_channels, out_channels, coefficients=both, **kwargs)


@register_conv("expc-continuous", hands_on_to=ExpandingConv)
def _expc_continuous(
    in_channels,
    out_channels,
    num_aggregators=4,
    num_structural=4,
    walk_length=8,
    init="paper",
    **kwargs,
):
    tanh = TanhCoefficients(in_channels, num_aggregators, init)
    structure = ContinuousStructureCoefficients(num_structural, walk_length)
    both = Stack(tanh, structure)
    return ExpandingConv(in_channels, out_channels, coefficients=both, **kwargs)


@register_conv("combc-structural", hands_on_to=CombConv)
def _combc_structural(in_channels, out_channels, hops=2, init="paper", **kwargs):
    half = in_channels // 2
    tanh = TanhCoefficients(in_channels, in_channels - half, init)
    both = Stack(tanh, StructuralCoefficients(half, hops))
    return CombConv(in_channels, out_channels, coefficients=both, **kwargs)
