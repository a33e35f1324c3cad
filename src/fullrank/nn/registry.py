"""Convolutions by name, all with edge features, for :class:`~fullrank.nn.GraphNet`."""

import difflib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import GATv2Conv, GENConv, MessagePassing, PNAConv, SAGEConv
from torch_geometric.nn.dense.linear import Linear

from fullrank.nn.comb_conv import CombConv
from fullrank.nn.expanding_conv import ExpandingConv
from fullrank.nn.three_stage import ThreeStageGAT, ThreeStageGCN, ThreeStageGIN0

ConvFactory = Callable[..., torch.nn.Module]

_CONVS: dict[str, ConvFactory] = {
    "expc": ExpandingConv,
    "combc": CombConv,
    "gin0": ThreeStageGIN0,
    "gcn": ThreeStageGCN,
    "gat": ThreeStageGAT,
}


def register_conv(name: str) -> Callable[[ConvFactory], ConvFactory]:
    """Make a convolution known by a name.

    The decorated class or function is called with ``(in_channels, out_channels,
    edge_dim=..., **arguments)``, where ``edge_dim`` is the number of edge features or
    :obj:`None`, and its result with ``(x, edge_index, edge_attr)``.
    """

    def register(factory: ConvFactory) -> ConvFactory:
        if name in _CONVS:
            raise ValueError(f"there is a convolution {name!r} already")
        _CONVS[name] = factory
        return factory

    return register


def conv_names() -> list[str]:
    """Return the names of all known convolutions."""
    return sorted(_CONVS)


def make_conv(
    name: str, in_channels: int, out_channels: int, edge_dim: int | None, **kwargs: Any
) -> torch.nn.Module:
    """Build the convolution of that name."""
    if name not in _CONVS:
        nearest = difflib.get_close_matches(name, _CONVS, n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        raise ValueError(
            f"there is no convolution {name!r}{hint} (known: {', '.join(conv_names())})"
        )
    return _CONVS[name](in_channels, out_channels, edge_dim=edge_dim, **kwargs)


class AddEdgeFeatures(torch.nn.Module):
    r"""A PyG convolution that sees :math:`\mathbf{h}_u + \mathbf{W}_e \mathbf{e}_{uv}`
    in place of :math:`\mathbf{h}_u` in its messages.

    For convolutions that have no edge features of their own, add no self-loops and
    call their neighbour's features ``x_j``.
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


@register_conv("gatv2")
def _gatv2(in_channels, out_channels, edge_dim=None, heads=1, **kwargs):
    return GATv2Conv(
        in_channels, out_channels, heads, concat=False, edge_dim=edge_dim, **kwargs
    )


@register_conv("sage")
def _sage(in_channels, out_channels, edge_dim=None, **kwargs):
    conv = SAGEConv(in_channels, out_channels, **kwargs)
    return conv if edge_dim is None else AddEdgeFeatures(conv, in_channels, edge_dim)


@register_conv("pna")
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
            "the convolution 'pna' needs deg, the histogram of in-degrees of the "
            "training graphs (torch.bincount), got None"
        )
    deg = torch.as_tensor(deg)
    return PNAConv(
        in_channels,
        out_channels,
        list(aggregators),
        list(scalers),
        deg=deg,
        edge_dim=edge_dim,
        **kwargs,
    )


@register_conv("gen")
def _gen(in_channels, out_channels, edge_dim=None, **kwargs):
    return GENConv(in_channels, out_channels, edge_dim=edge_dim, **kwargs)
