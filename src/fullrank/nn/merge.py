r"""Nodes that a network cannot tell apart, so that one of them is computed for all.

After :math:`t` layers those nodes have the same features that :math:`t` rounds of
colour refinement (1-WL) leave in one class. In a batch of social networks or of
molecules these are most of the nodes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual
from torch_geometric.nn.aggr import SumAggregation
from torch_geometric.nn.dense.linear import Linear

from fullrank.nn.coefficients.degree import OneCoefficients
from fullrank.nn.coefficients.tanh import TanhCoefficients
from fullrank.nn.conv.base import RankConv
from fullrank.nn.conv.comb_conv import CombConv
from fullrank.nn.conv.expanding_conv import ExpandingConv
from fullrank.nn.conv.three_stage import ThreeStageGIN0
from fullrank.nn.hashing import row_keys, scramble
from fullrank.nn.kernels.edgewise import take_rows
from fullrank.nn.neighborhoods import check_indices
from fullrank.nn.runs_as import runs_as

# With a larger share of classes among the nodes, finding them costs more than it saves.
WORTHWHILE = 0.8
# What the layers may be made of: all of it works row by row, and draws no numbers.
_KINDS = (
    RankConv,
    TanhCoefficients,
    OneCoefficients,
    SumAggregation,
    torch.nn.Sequential,
    Linear,
    torch.nn.Linear,
    torch.nn.ReLU,
)


@dataclass(frozen=True)
class Twins:
    """Classes of nodes that are equal.

    Attributes:
        of: The class of each node, :math:`(N)`.
        one: A node of each class, :math:`(C)`.
    """

    of: Tensor
    one: Tensor

    @classmethod
    def by(cls, key: Tensor) -> "Twins":
        """Nodes with the same key."""
        keys, of = torch.unique(key, return_inverse=True)
        nodes = torch.arange(len(key))
        one = nodes.new_zeros(len(keys)).scatter_reduce_(
            0, of, nodes, "amin", include_self=False
        )
        return cls(of, one)


def is_known(module: torch.nn.Module, *kinds: type[torch.nn.Module]) -> bool:
    """Whether a module and all its parts run as one of these, with nobody watching."""
    return all(runs_as(part, *kinds) for part in module.modules())


def tells_no_twins_apart(conv: torch.nn.Module) -> bool:
    """Whether a layer is known to give the same to nodes with equal neighbourhoods."""
    return (
        isinstance(conv, RankConv)
        and type(conv) in (ExpandingConv, CombConv, ThreeStageGIN0)
        and is_known(conv, *_KINDS)
        and not conv.needs_propagate()
        and conv.own_terms
        and not conv.bipartite_self_loops
        and conv.flow == "source_to_target"
    )


def _is_constant(x: Tensor) -> bool:
    """Whether nobody asks for derivatives by a tensor that is plainly in memory."""
    dense = x.layout is torch.strided and x.device.type == "cpu"
    return dense and not x.requires_grad and unpack_dual(x).tangent is None


class TwinNodes:
    """The twins in a graph, layer after layer.

    Keys have 64 bits: in data that was not made to deceive them, two different ones of
    a million neighbourhoods are taken for equal in about one of :math:`10^7` layers.

    Args:
        x: What the nodes are equal by at first, :math:`(N, \\cdot)`.
        edge_index: The edges, :math:`(2, E)`.
        edge_attr: Features of the edges, :math:`(E, q)`, or :obj:`None`.
    """

    def __init__(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> None:
        src, dst = edge_index
        check_indices(src, len(x), "source")
        check_indices(dst, len(x), "destination")
        loops = src == dst
        if loops.any():  # a node's own term replaces them
            src, dst = src[~loops], dst[~loops]
            edge_attr = None if edge_attr is None else edge_attr[~loops]
        self.src, self.dst, self.edge_attr = src, dst, edge_attr
        self.edge_keys = 0 if edge_attr is None else row_keys(edge_attr)
        self.now = Twins.by(row_keys(x.view(len(x), -1)))

    @classmethod
    def find(
        cls, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None
    ) -> "TwinNodes | None":
        """The twins of a graph, where looking for them is possible and cheap. What is
        wrong with the input is left to the layers to say."""
        given = [t for t in (x, edge_attr) if t is not None]
        possible = (
            not torch.compiler.is_compiling()
            and not torch._C._are_functorch_transforms_active()
            and all(map(_is_constant, given))
            and x.numel() > 0
            and edge_index.dim() == 2
            and edge_index.size(0) == 2
            and not edge_index.is_floating_point()
            and (edge_attr is None or len(edge_attr) == edge_index.size(1))
        )
        return cls(x, edge_index, edge_attr) if possible else None

    def refine(self) -> Twins:
        """The twins after one more layer."""
        of = self.now.of
        pairs = scramble(take_rows(scramble(of), self.src) + self.edge_keys)
        around = torch.zeros_like(of).index_add_(0, self.dst, pairs)
        return Twins.by(scramble(scramble(~of) + around))

    def convolve(self, conv: torch.nn.Module, h: Tensor) -> Tensor | None:
        """Run a layer once for each class, or not at all if there are too many."""
        before, after = self.now, self.refine()
        self.now = after
        classes = torch.arange(len(after.one))
        if len(classes) > WORTHWHILE * len(h):
            return None
        chosen = torch.zeros(len(h), dtype=torch.bool)
        chosen[after.one] = True
        kept = chosen[self.dst].nonzero().squeeze(1)
        src = torch.cat([self.src[kept], after.one])
        dst = torch.cat([after.of[self.dst[kept]], classes])
        edge_attr = self.edge_attr
        if edge_attr is not None:
            none = edge_attr.new_zeros(len(classes), edge_attr.size(1))
            edge_attr = torch.cat([edge_attr[kept], none])
        ends = take_rows(h, before.one), take_rows(h, after.one)
        out = conv(ends, torch.stack([before.of[src], dst]), edge_attr)
        return take_rows(out, after.of)
