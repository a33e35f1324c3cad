r"""Computes equal nodes only once.

After :math:`t` layers, nodes that :math:`t` rounds of colour refinement (1-WL) leave in
one class have the same features. In a batch of social networks or molecules most nodes
share a class with others, and one node per class is enough. Nodes of one graph that no
number of rounds distinguishes can be found once for a whole data set (``find_twins``);
then equal messages are computed once and multiplied by their number.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch_geometric.nn.aggr import SumAggregation
from torch_geometric.nn.dense.linear import Linear

from fullrank.nn.coefficients.attention import AttentionCoefficients, GATCoefficients
from fullrank.nn.coefficients.degree import MeanCoefficients, OneCoefficients
from fullrank.nn.coefficients.stack import Stack
from fullrank.nn.coefficients.tanh import OnePlusTanhCoefficients, TanhCoefficients
from fullrank.nn.conv.base import RankConv
from fullrank.nn.conv.comb_conv import CombConv
from fullrank.nn.conv.expanding_conv import ExpandingConv
from fullrank.nn.conv.three_stage import HeadMean, ThreeStageGAT, ThreeStageGIN0
from fullrank.nn.functional import take_rows
from fullrank.nn.hashing import row_keys, scramble
from fullrank.nn.kernels.dispatch import is_constant, is_replaceable, needs_propagate
from fullrank.nn.neighborhoods import check_indices

# If classes / nodes is larger, finding the classes costs more than it saves.
WORTHWHILE = 0.8
# Allowed modules: they work row by row or neighbourhood by neighbourhood, and are
# deterministic.
_ROW_BY_ROW = (
    RankConv,
    TanhCoefficients,
    OnePlusTanhCoefficients,
    OneCoefficients,
    MeanCoefficients,
    AttentionCoefficients,
    GATCoefficients,
    Stack,
    torch.nn.ModuleList,
    HeadMean,
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
        and type(conv) in (ExpandingConv, CombConv, ThreeStageGIN0, ThreeStageGAT)
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
        twins: The result of ``find_twins`` for these graphs, if known.
    """

    def __init__(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        distinct_edges: bool = False,
        twins: "Twins | None" = None,
    ) -> None:
        src, dst = edge_index
        check_indices(src, len(x), "source")
        check_indices(dst, len(x), "destination")
        self.count = self.twin = None
        if twins is not None:
            kept = twins.edge_count.nonzero().squeeze(1)
            self.twin = twins.offset + torch.arange(len(x))
            self.count = twins.edge_count[kept]
            src, dst = self.twin[src[kept]], dst[kept]
            edge_attr = None if edge_attr is None else edge_attr[kept]
        elif (loops := src == dst).any():  # the layer adds a self-loop to every node
            src, dst = src[~loops], dst[~loops]
            edge_attr = None if edge_attr is None else edge_attr[~loops]
        self.src, self.dst, self.edge_attr = src, dst, edge_attr
        self.distinct_edges = distinct_edges
        self.edge_keys: Tensor | int = 0
        if edge_attr is not None and not distinct_edges:
            self.edge_keys = row_keys(edge_attr)
        self.classes = NodeClasses.by_key(_keys(x) if twins is None else twins.key)

    @classmethod
    def find(
        cls,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        distinct_edges: bool = False,
        twins: "Twins | None" = None,
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
        if not possible:
            return None
        return cls(x, edge_index, edge_attr, distinct_edges, twins)

    def refine(self) -> NodeClasses:
        """Return the classes after one more layer: one round of 1-WL."""
        class_of = self.classes.class_of
        if self.distinct_edges:
            return NodeClasses.singletons(len(class_of))
        pairs = scramble(take_rows(scramble(class_of), self.src) + self.edge_keys)
        if self.count is not None:
            pairs *= self.count
        around = torch.zeros_like(class_of).index_add_(0, self.dst, pairs)
        key = scramble(scramble(~class_of) + around)
        return NodeClasses.by_key(key if self.twin is None else key[self.twin])

    def encode(self, encoder: torch.nn.Module, x: Tensor) -> Tensor:
        """Encode the initial features of one node of each class."""
        classes = self.classes
        return take_rows(encoder(x[classes.representative]), classes.class_of)

    def convolve(self, conv: torch.nn.Module, h: Tensor) -> Tensor | None:
        """Run a layer once per class, or return :obj:`None` if there are too many.

        A layer that projects nodes also saves if only its inputs are equal.
        """
        assert isinstance(conv, RankConv)  # see keeps_equal_nodes_equal
        before, after = self.classes, self.refine()
        if len(after.representative) > WORTHWHILE * len(h):
            if len(before.representative) > len(h) / 2 or not projects_nodes(conv):
                return None
            if self.twin is None:
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
            edge_attr = torch.cat([edge_attr[kept], none]).to(h.dtype)
        ends = take_rows(h, before.representative), take_rows(h, after.representative)
        pairs = conv.pairs(ends, torch.stack([before.class_of[src], dst]))
        local = replace(conv.neighborhoods(ends, pairs, edge_attr), bipartite=False)
        if self.count is not None:
            count = torch.cat([self.count[kept], torch.ones_like(classes)])
            local = replace(local, count=pairs.arrange(count, None))
        return take_rows(conv.sum_by_kernel(local), after.class_of)


@dataclass(frozen=True)
class Twins:
    """Nodes of one graph that no number of layers distinguishes.

    Attributes:
        offset: The first twin of each node minus the node itself, :math:`(N)`; so it
            does not depend on the position of a graph in a batch.
        edge_count: The number of edges that an edge represents, :math:`(E)`: those from
            twins of its source, with the same features, to its destination. It is 0 if
            another edge represents it, if its destination is not the first of its
            twins, and for self-loops.
        key: A hash of the initial features of each node, :math:`(N)`.
    """

    offset: Tensor
    edge_count: Tensor
    key: Tensor


def _keys(x: Tensor) -> Tensor:
    return row_keys(x.view(len(x), -1))


def find_twins(
    x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, batch: Tensor
) -> Twins:
    """Find the twins in each graph of a batch by colour refinement.

    Args:
        x: Initial features of the nodes, :math:`(N, \\cdot)`.
        edge_index: The edges, :math:`(2, E)`.
        edge_attr: Features of the edges, :math:`(E, q)`, or :obj:`None`.
        batch: The graph of each node, :math:`(N)`.
    """
    nodes = EqualNodes(x, edge_index, edge_attr)
    keys = scramble(scramble(batch) + nodes.classes.class_of)
    classes, found = NodeClasses.by_key(keys), 0
    while len(classes.representative) > found:
        found = len(classes.representative)
        nodes.classes = classes
        classes = nodes.refine()
    twin = classes.representative[classes.class_of]
    src, dst = edge_index
    into = ((twin[dst] == dst) & (src != dst)).nonzero().squeeze(1)
    ends = dst[into] * len(x) + twin[src[into]]
    if edge_attr is not None:
        ends = scramble(scramble(ends) + row_keys(edge_attr[into]))
    equal = NodeClasses.by_key(ends)
    edge_count = torch.zeros_like(src)
    edge_count[into[equal.representative]] = torch.bincount(equal.class_of)
    return Twins(twin - torch.arange(len(x)), edge_count, _keys(x))
