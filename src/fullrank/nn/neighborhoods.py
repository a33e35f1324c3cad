"""The neighbourhoods of a graph as a layer sees them: edges, self-loops, features."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.typing import SparseTensor
from torch_geometric.utils import is_sparse, to_edge_index

from fullrank.errors import DataError
from fullrank.nn.functional import sum_rows, take_rows


@dataclass(frozen=True)
class Neighborhoods:
    r"""All pairs :math:`(v, u)` with :math:`u \in \mathcal{N}(v)`, as flat arrays.

    This is the input of a :class:`~fullrank.nn.Coefficients` module. With edge
    features, the neighbour's features are :math:`\mathbf{h}_u + \mathbf{W}_e
    \mathbf{e}_{uv}` everywhere; the self-loops that a layer adds have
    :math:`\mathbf{e}_{vv} = 0`.

    Attributes:
        x_src: Features of the sources, :math:`(|\mathcal{V}_s|, d_s)`.
        x_dst: Features of the destinations, :math:`(|\mathcal{V}_t|, d_t)`.
        src: The source :math:`u` of each pair, :math:`(E)`.
        dst: The destination :math:`v` of each pair, :math:`(E)`.
        edge_attr: Edge features, :math:`(E, q)`, or :obj:`None`.
        edge_weight: :math:`\mathbf{W}_e` of shape :math:`(d_s, q)`, or :obj:`None`.
        color: The structural colour of each pair, :math:`(E)`, or a row of numbers that
            describe its structure, :math:`(E, k)`, or :obj:`None`.
        bipartite: Whether sources and destinations are different nodes.
        ptr: The first pair of each node, for kernels, if pairs are sorted.
        count: How often each pair occurs, :math:`(E)`, or :obj:`None` for once.
    """

    x_src: Tensor
    x_dst: Tensor
    src: Tensor
    dst: Tensor
    edge_attr: Tensor | None = None
    edge_weight: Tensor | None = None
    color: Tensor | None = None
    bipartite: bool = False
    ptr: Tensor | None = None
    count: Tensor | None = None

    def from_src(self, weight: Tensor) -> Tensor:
        r"""Return :math:`\mathbf{W}(\mathbf{h}_u + \mathbf{W}_e\mathbf{e}_{uv})` for
        each pair, multiplied once per node: :math:`(E, \cdot)`."""
        out = take_rows(self.x_src @ weight.t(), self.src)
        if self.edge_attr is not None and self.edge_weight is not None:
            out = out + self.edge_attr @ (weight @ self.edge_weight).t()
        return out

    def from_dst(self, weight: Tensor) -> Tensor:
        r"""Return :math:`\mathbf{W}\mathbf{h}_v` for each pair: :math:`(E, \cdot)`."""
        return take_rows(self.x_dst @ weight.t(), self.dst)

    def neighbors(self) -> Tensor:
        r"""Return :math:`\mathbf{h}_u + \mathbf{W}_e\mathbf{e}_{uv}` for each pair:
        :math:`(E, d_s)`."""
        out = take_rows(self.x_src, self.src)
        if self.edge_attr is not None and self.edge_weight is not None:
            out = out + self.edge_attr @ self.edge_weight.t()
        return out

    def sizes(self) -> Tensor:
        r"""Return :math:`|\mathcal{N}(v)|` for each destination:
        :math:`(|\mathcal{V}_t|)`."""
        if self.count is None:
            number = self.x_dst.new_ones(self.dst.numel())
        else:
            number = self.count.to(self.x_dst.dtype)
        return self.x_dst.new_zeros(self.x_dst.size(0)).index_add(0, self.dst, number)


class Destinations:
    """The destinations that a kernel sums to, if pairs may occur several times.

    All pairs that a destination has equally often form a group. A kernel sums each
    group as if it were a destination, and the sums are then added up.

    Attributes:
        of_pair: The group of each pair, :math:`(E)`.
        size: Number of groups.
    """

    def __init__(self, local: Neighborhoods) -> None:
        self.of_pair, self.size = local.dst, local.x_dst.size(0)
        self._num_dst, self._repeated = self.size, local.count is not None
        if local.count is not None:
            factor = int(local.count.max()) + 1
            keys = local.dst * factor + local.count
            groups, self.of_pair = torch.unique(keys, return_inverse=True)
            self.size = groups.size(0)
            self._dst, self._count = groups // factor, groups % factor

    def take(self, rows: Tensor) -> Tensor:
        """Return rows of the groups, given those of the destinations."""
        return take_rows(rows, self._dst) if self._repeated else rows

    def add_up(self, sums: Tensor) -> Tensor:
        """Return the sums of the destinations, given those of the groups."""
        if not self._repeated:
            return sums
        weighted = sums * self._count.to(sums.dtype)[:, None]
        return sum_rows(weighted, self._dst, self._num_dst)


def as_edge_list(edge_index, flow: str) -> tuple[Tensor, Tensor, Tensor | None]:
    """Read any of PyG's adjacency formats as ``(src, dst, value)``."""
    if isinstance(edge_index, SparseTensor):
        dst, src, value = edge_index.coo()
    elif is_sparse(edge_index):
        (dst, src), value = to_edge_index(edge_index)
    else:
        if edge_index.dim() != 2 or edge_index.size(0) != 2:
            raise ValueError(
                f"edge_index must have shape [2, num_edges], "
                f"got {list(edge_index.shape)}"
            )
        if edge_index.is_floating_point():
            raise ValueError(
                f"edge_index must contain integers, got {edge_index.dtype}"
            )
        if hasattr(edge_index, "as_tensor"):  # torch_geometric.EdgeIndex
            edge_index = edge_index.as_tensor()
        src, dst, value = edge_index[0], edge_index[1], None
    if flow == "target_to_source":
        src, dst = dst, src
    return src, dst, value


def check_indices(index: Tensor, size: int, role: str) -> None:
    """Refuse indices outside ``[0, size)``; skipped where the check is expensive."""
    if torch.compiler.is_compiling() or index.device.type != "cpu" or not len(index):
        return
    low, high = (int(bound) for bound in torch.aminmax(index))
    if low < 0 or high >= size:
        raise ValueError(
            f"edge_index contains {role} node {low if low < 0 else high}, but there "
            f"are only {size} of them (valid: 0 to {size - 1})"
        )


def is_abstract(x: Tensor) -> bool:
    """Whether a tensor has no values, or is wrapped by a transform."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing() or x.is_meta


class Layout(NamedTuple):
    """The options that determine the pairs of a graph, besides its edges.

    Attributes:
        num_src: Number of sources.
        num_dst: Number of destinations.
        bipartite: Whether sources and destinations are different nodes.
        self_loops: Whether :math:`v` is its own neighbour. If so, self-loops of the
            graph are removed first, unless the graph is bipartite, where equal indices
            refer to different nodes.
        redirect: Whether to redirect self-loops of the graph to an extra destination,
            which is dropped afterwards, instead of removing them. This keeps one pair
            per edge, so that shapes do not depend on values.
        flow: The direction of messages, as in PyG.
        order: ``"src"`` or ``"dst"`` to sort the pairs by one end, or :obj:`None` for
            the edges in their order, then self-loops.
    """

    num_src: int
    num_dst: int
    bipartite: bool = False
    self_loops: bool = True
    redirect: bool = False
    flow: str = "source_to_target"
    order: str | None = None


@dataclass(frozen=True)
class Pairs:
    r"""All pairs :math:`(v, u)` of a graph, which depend only on its edges.

    A layer takes them in place of ``edge_index``, so a network reads them once for all
    of its layers (see :meth:`~fullrank.nn.conv.base.RankConv.pairs`). A layer that
    needs another layout reads the edges again.

    Attributes:
        edge_index: The edges in the format they came in.
        layout: The other options that determine the pairs.
        src: The source :math:`u` of each pair, :math:`(E)`.
        dst: The destination :math:`v` of each pair, :math:`(E)`.
        place: The position of each pair among all edges followed by all added
            self-loops, or :obj:`None` if the pairs are in this order.
        ptr: The first pair of each node, :math:`(N + 1)`, if they are sorted.
        value: The values of a sparse matrix, or :obj:`None`.
        num_edges: Number of edges.
        spare: Whether there is an extra destination, for self-loops of the graph.
    """

    edge_index: Any
    layout: Layout
    src: Tensor
    dst: Tensor
    place: Tensor | None
    ptr: Tensor | None
    value: Tensor | None
    num_edges: int
    spare: bool

    @classmethod
    def read(cls, edge_index: Any, layout: Layout) -> "Pairs":
        """List all pairs of a graph."""
        if isinstance(edge_index, Pairs):
            if edge_index.layout == layout:
                return edge_index
            edge_index = edge_index.edge_index
        num_src, num_dst, bipartite, self_loops, redirect, flow, order = layout
        src, dst, value = as_edge_list(edge_index, flow)
        src, dst = src.long(), dst.long()
        check_indices(src, num_src, "source")
        check_indices(dst, num_dst, "destination")
        edges, place, ptr, spare = src.size(0), None, None, False
        if self_loops:
            nodes = torch.arange(num_dst, device=dst.device)
            own = nodes
            if bipartite:
                own, num_src = nodes + num_src, num_src + num_dst
            else:
                loops = src == dst
                if redirect and (is_abstract(dst) or loops.any()):
                    dst, spare = torch.where(loops, num_dst, dst), True
                elif not redirect and loops.any():
                    kept = (~loops).nonzero().squeeze(1)
                    src, dst = src[kept], dst[kept]
                    place = torch.cat([kept, nodes + edges])
            src, dst = torch.cat([src, own]), torch.cat([dst, nodes])
        if order is not None:
            key, size = (src, num_src) if order == "src" else (dst, num_dst + spare)
            key, permutation = torch.sort(key, stable=True)
            ptr = torch.searchsorted(key, torch.arange(size + 1, device=key.device))
            if order == "src":
                src, dst = key, take_rows(dst, permutation)
            else:
                src, dst = take_rows(src, permutation), key
            place = permutation if place is None else take_rows(place, permutation)
        return cls(edge_index, layout, src, dst, place, ptr, value, edges, spare)

    def arrange(self, of_edges: Tensor, of_loops: Tensor | None) -> Tensor:
        """Arrange values of the edges and of the added self-loops in the order of the
        pairs."""
        rows = of_edges
        if self.layout.self_loops and of_loops is not None:
            rows = torch.cat([of_edges, of_loops])
        return rows if self.place is None else take_rows(rows, self.place)


def read_neighborhoods(
    x: Tensor | tuple[Tensor, Tensor],
    pairs: Pairs,
    edge_attr: Tensor | None = None,
    edge_weight: Tensor | None = None,
    *,
    edge_color: Tensor | None = None,
    node_color: Tensor | None = None,
) -> Neighborhoods:
    """Combine the pairs of a graph with features.

    Args:
        x: Node features, or a pair ``(source, destination)``.
        pairs: The pairs.
        edge_attr: Edge features as columns of floats, or :obj:`None`.
        edge_weight: The weight that encodes them, or :obj:`None`.
        edge_color: A structural colour for each edge, or :obj:`None`.
        node_color: A structural colour for each self-loop, or :obj:`None`.
    """
    x_src, x_dst = (x, x) if isinstance(x, Tensor) else x
    layout, color = pairs.layout, None
    if (edge_color is None) != (node_color is None) and layout.self_loops:
        missing = "edge_color" if edge_color is None else "node_color"
        raise ValueError(f"{missing} is missing; self-loops need both colours")
    if edge_color is not None:
        _check_length("edge_color", edge_color, pairs.num_edges, "edges")
        if layout.self_loops:
            _check_length("node_color", node_color, layout.num_dst, "nodes")
        color = pairs.arrange(edge_color, node_color)
    if edge_attr is not None:
        own = edge_attr.new_zeros(layout.num_dst, edge_attr.size(1))
        edge_attr = pairs.arrange(edge_attr, own)
    if layout.self_loops and layout.bipartite:
        x_src = torch.cat([x_src, x_dst])
    if pairs.spare:
        x_dst = torch.cat([x_dst, x_dst.new_zeros(1, x_dst.size(1))])
    return Neighborhoods(
        x_src, x_dst, pairs.src, pairs.dst, edge_attr, edge_weight, color,
        layout.bipartite, pairs.ptr,
    )  # fmt: skip


def _check_length(name: str, color: Tensor | None, size: int, what: str) -> None:
    if color is not None and color.size(0) != size:
        raise ValueError(f"{name} has {color.size(0)} entries for {size} {what}")


def edge_columns(edge_attr: Tensor, edge_dim: int | Sequence[int]) -> Tensor:
    """Return edge features as columns of floats.

    Categories become one-hot columns, so that a linear map of the columns is the sum
    of one embedding for each category. With ``edge_dim=-1`` any number of columns is
    accepted.
    """
    if edge_attr.dim() == 1:
        edge_attr = edge_attr[:, None]
    if edge_dim == -1:
        edge_dim = edge_attr.size(-1)
    sizes = [edge_dim] if isinstance(edge_dim, int) else list(edge_dim)
    width = edge_dim if isinstance(edge_dim, int) else len(sizes)
    if edge_attr.dim() != 2 or edge_attr.size(1) != width:
        raise DataError(
            f"edge_attr must have {width} columns (edge_dim={edge_dim}), "
            f"got shape {list(edge_attr.shape)}"
        )
    if isinstance(edge_dim, int):
        return edge_attr
    if edge_attr.is_floating_point():
        raise DataError(
            f"edge_attr must contain integers for the categories edge_dim={edge_dim}, "
            f"got {edge_attr.dtype}"
        )
    bounds = torch.tensor(sizes, device=edge_attr.device)
    if not torch.compiler.is_compiling():
        wrong = (edge_attr < 0) | (edge_attr >= bounds)
        if wrong.any():
            row, column = wrong.nonzero()[0].tolist()
            raise DataError(
                f"edge_attr[{row}, {column}] is {int(edge_attr[row, column])}, but "
                f"category {column} of edge_dim={edge_dim} has {sizes[column]} values"
            )
    columns = edge_attr.new_zeros(edge_attr.size(0), sum(sizes))
    return columns.scatter(1, edge_attr + (bounds.cumsum(0) - bounds), 1)
