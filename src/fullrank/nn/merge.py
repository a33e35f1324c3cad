r"""Computes equal nodes only once.

After :math:`t` layers, nodes that :math:`t` rounds of colour refinement (1-WL) leave in
one class have the same features. In a batch of social networks or molecules most nodes
share a class with others, and one node per class is enough.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.nn.aggr import SumAggregation
from torch_geometric.nn.dense.linear import Linear

from fullrank.nn.coefficients.degree import OneCoefficients
from fullrank.nn.coefficients.tanh import OnePlusTanhCoefficients, TanhCoefficients
from fullrank.nn.conv.base import RankConv
from fullrank.nn.conv.comb_conv import CombConv
from fullrank.nn.conv.expanding_conv import ExpandingConv
from fullrank.nn.conv.three_stage import ThreeStageGIN0
from fullrank.nn.functional import take_rows
from fullrank.nn.hashing import row_keys, scramble
from fullrank.nn.kernels.dispatch import is_constant, is_replaceable, needs_propagate
from fullrank.nn.neighborhoods import check_indices

# If classes / nodes is larger, finding the classes costs more than it saves.
WORTHWHILE = 0.8
# Allowed modules: they work row by row and are deterministic.
_ROW_BY_ROW = (
    RankConv,
    TanhCoefficients,
    OnePlusTanhCoefficients,
    OneCoefficients,
    SumAggregation,
    torch.nn.Sequential,
    Linear,
    torch.nn.Linear,
    torch.nn.ReLU,
)


@dataclass(frozen=True)
class NodeClasses:
    """A partition of the nodes.

    Attributes:
        class_of: The class of each node, :math:`(N)`.
        representative: One node of each class, :math:`(C)`.
    """

    class_of: Tensor
    representative: Tensor

    @classmethod
    def by_key(cls, key: Tensor) -> "NodeClasses":
        """Put nodes with the same key into one class."""
        keys, class_of = torch.unique(key, return_inverse=True)
        nodes = torch.arange(len(key))
        representative = nodes.new_zeros(len(keys)).scatter_reduce_(
            0, class_of, nodes, "amin", include_self=False
        )
        return cls(class_of, representative)

    @classmethod
    def singletons(cls, num_nodes: int) -> "NodeClasses":
        """Put every node into a class of its own."""
        return cls(*[torch.arange(num_nodes)] * 2)


def consists_of(module: torch.nn.Module, *kinds: type[torch.nn.Module]) -> bool:
    """Whether a module and all its submodules are replaceable by these classes."""
    return all(is_replaceable(part, *kinds) for part in module.modules())


def keeps_equal_nodes_equal(conv: torch.nn.Module) -> bool:
    """Whether a layer is known to map equal neighbourhoods to equal outputs."""
    return (
        isinstance(conv, RankConv)
        and type(conv) in (ExpandingConv, CombConv, ThreeStageGIN0)
        and consists_of(conv, *_ROW_BY_ROW)
        and not needs_propagate(conv, RankConv)
        and conv.self_loops
        and not conv.bipartite_self_loops
        and conv.flow == "source_to_target"
    )


def projects_nodes(conv: torch.nn.Module) -> bool:
    """Whether a layer maps every node by a wide product before it reads any pair."""
    return isinstance(conv, ExpandingConv) and conv.re_sum


class EqualNodes:
    """The classes of equal nodes in a graph, layer by layer.

    Neighbourhoods are compared by 64-bit hashes: except in adversarial data, two
    different ones among a million have the same hash in about one of :math:`10^7`
    layers.

    Args:
        x: Initial features of the nodes, :math:`(N, \\cdot)`.
        edge_index: The edges, :math:`(2, E)`.
        edge_attr: Features of the edges, :math:`(E, q)`, or :obj:`None`.
        distinct_edges: Whether hardly any two edges have the same features, so that no
            two nodes are equal after the first layer.
    """

    def __init__(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        distinct_edges: bool = False,
    ) -> None:
        src, dst = edge_index
        check_indices(src, len(x), "source")
        check_indices(dst, len(x), "destination")
        loops = src == dst
        if loops.any():  # the layer adds a self-loop to every node
            src, dst = src[~loops], dst[~loops]
            edge_attr = None if edge_attr is None else edge_attr[~loops]
        self.src, self.dst, self.edge_attr = src, dst, edge_attr
        self.distinct_edges = distinct_edges
        self.edge_keys: Tensor | int = 0
        if edge_attr is not None and not distinct_edges:
            self.edge_keys = row_keys(edge_attr)
        self.classes = NodeClasses.by_key(row_keys(x.view(len(x), -1)))

    @classmethod
    def find(
        cls,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        distinct_edges: bool = False,
    ) -> "EqualNodes | None":
        """Return the classes of a graph, or :obj:`None` if they cannot be determined.
        Invalid input is reported by the layers."""
        given = [t for t in (x, edge_index, edge_attr) if t is not None]
        possible = (
            all(map(is_constant, given))
            and x.numel() > 0
            and edge_index.dim() == 2
            and edge_index.size(0) == 2
            and not edge_index.is_floating_point()
            and (edge_attr is None or len(edge_attr) == edge_index.size(1))
        )
        return cls(x, edge_index, edge_attr, distinct_edges) if possible else None

    def refine(self) -> NodeClasses:
        """Return the classes after one more layer: one round of 1-WL."""
        class_of = self.classes.class_of
        if self.distinct_edges:
            return NodeClasses.singletons(len(class_of))
        pairs = scramble(take_rows(scramble(class_of), self.src) + self.edge_keys)
        around = torch.zeros_like(class_of).index_add_(0, self.dst, pairs)
        return NodeClasses.by_key(scramble(scramble(~class_of) + around))

    def convolve(self, conv: torch.nn.Module, h: Tensor) -> Tensor | None:
        """Run a layer once per class, or return :obj:`None` if there are too many.

        A layer that projects nodes also saves if only its inputs are equal.
        """
        before, after = self.classes, self.refine()
        if len(after.representative) > WORTHWHILE * len(h):
            if len(before.representative) > len(h) / 2 or not projects_nodes(conv):
                return None
            after = NodeClasses.singletons(len(h))
        self.classes = after
        classes = torch.arange(len(after.representative))
        chosen = torch.zeros(len(h), dtype=torch.bool)
        chosen[after.representative] = True
        kept = chosen[self.dst].nonzero().squeeze(1)
        src = torch.cat([self.src[kept], after.representative])
        dst = torch.cat([after.class_of[self.dst[kept]], classes])
        edge_attr = self.edge_attr
        if edge_attr is not None:
            none = edge_attr.new_zeros(len(classes), edge_attr.size(1))
            edge_attr = torch.cat([edge_attr[kept], none])
        ends = take_rows(h, before.representative), take_rows(h, after.representative)
        out = conv(ends, torch.stack([before.class_of[src], dst]), edge_attr)
        return take_rows(out, after.class_of)
