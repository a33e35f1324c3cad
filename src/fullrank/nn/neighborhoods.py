"""The neighbourhoods of a graph as a layer sees them: edges, self-loops, features."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.typing import SparseTensor
from torch_geometric.utils import is_sparse, to_edge_index

from fullrank.errors import DataError
from fullrank.nn.functional import take_rows


@dataclass(frozen=True)
class Neighborhoods:
    r"""All pairs :math:`(v, u)` with :math:`u \in \mathcal{N}(v)`, as flat arrays.

    This is what a :class:`~fullrank.nn.Coefficients` module reads. Where there are
    edge features, the neighbour's features are
    :math:`\mathbf{h}_u + \mathbf{W}_e \mathbf{e}_{uv}` everywhere; the
    self-loops that a layer adds have :math:`\mathbf{e}_{vv} = 0`.

    Attributes:
        x_src: Features of the sources, :math:`(|\mathcal{V}_s|, d_s)`.
        x_dst: Features of the destinations, :math:`(|\mathcal{V}_t|, d_t)`.
        src: For each pair the source :math:`u`, :math:`(E)`.
        dst: For each pair the destination :math:`v`, :math:`(E)`.
        edge_attr: Edge features, :math:`(E, q)`, or :obj:`None`.
        edge_weight: :math:`\mathbf{W}_e` of shape :math:`(d_s, q)`, or :obj:`None`.
        color: A structural colour for each pair, :math:`(E)`, or :obj:`None`.
        bipartite: Whether sources and destinations are different nodes.
    """

    x_src: Tensor
    x_dst: Tensor
    src: Tensor
    dst: Tensor
    edge_attr: Tensor | None = None
    edge_weight: Tensor | None = None
    color: Tensor | None = None
    bipartite: bool = False

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
        ones = self.x_dst.new_ones(self.dst.numel())
        return self.x_dst.new_zeros(self.x_dst.size(0)).index_add(0, self.dst, ones)


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
            raise ValueError(f"edge_index must hold integers, got {edge_index.dtype}")
        if hasattr(edge_index, "as_tensor"):  # torch_geometric.EdgeIndex
            edge_index = edge_index.as_tensor()
        src, dst, value = edge_index[0], edge_index[1], None
    if flow == "target_to_source":
        src, dst = dst, src
    return src, dst, value


def check_indices(index: Tensor, size: int, role: str) -> None:
    """Refuse indices outside of ``[0, size)``; skipped where it is not cheap."""
    if torch.compiler.is_compiling() or index.device.type != "cpu" or not len(index):
        return
    low, high = (int(bound) for bound in torch.aminmax(index))
    if low < 0 or high >= size:
        raise ValueError(
            f"edge_index names {role} node {low if low < 0 else high}, but there are "
            f"only {size} of them (valid: 0 to {size - 1})"
        )


class _Edges(NamedTuple):
    """What there is for each pair, in one order."""

    src: Tensor
    dst: Tensor
    attr: Tensor | None
    color: Tensor | None

    def keep(self, mask: Tensor) -> "_Edges":
        attr, color = (None if x is None else x[mask] for x in (self.attr, self.color))
        return _Edges(self.src[mask], self.dst[mask], attr, color)

    def append(self, src: Tensor, dst: Tensor, color: Tensor | None) -> "_Edges":
        attr = None
        if self.attr is not None:
            zeros = self.attr.new_zeros(src.numel(), self.attr.size(1))
            attr = torch.cat([self.attr, zeros])
        if self.color is not None and color is not None:
            color = torch.cat([self.color, color])
        return _Edges(
            torch.cat([self.src, src]), torch.cat([self.dst, dst]), attr, color
        )


def read_neighborhoods(
    x: Tensor | tuple[Tensor, Tensor],
    edges: tuple[Tensor, Tensor],
    edge_attr: Tensor | None,
    edge_weight: Tensor | None,
    *,
    self_loops: bool,
    edge_color: Tensor | None = None,
    node_color: Tensor | None = None,
) -> Neighborhoods:
    """List all pairs ``(v, u)`` of a graph.

    Args:
        x: Node features, or a pair ``(source, destination)``.
        edges: The ends of each edge, ``(src, dst)``.
        edge_attr: Edge features as columns of floats, or :obj:`None`.
        edge_weight: The weight that encodes them, or :obj:`None`.
        self_loops: Whether :math:`v` is one of its own neighbours. If so, self-loops
            of the graph are removed first, together with their features, unless the
            graph is bipartite, where a number names different nodes on the two sides.
        edge_color: A structural colour for each edge, or :obj:`None`.
        node_color: A structural colour for each self-loop, or :obj:`None`.
    """
    if (edge_color is None) != (node_color is None) and self_loops:
        missing = "edge_color" if edge_color is None else "node_color"
        raise ValueError(f"{missing} is missing; self-loops need both colours")
    bipartite = not isinstance(x, Tensor)
    x_src, x_dst = (x, x) if isinstance(x, Tensor) else x
    _check_length("edge_color", edge_color, edges[0].size(0), "edges")
    if self_loops:
        _check_length("node_color", node_color, x_dst.size(0), "nodes")
    pairs = _Edges(*edges, edge_attr, edge_color)
    nodes = torch.arange(x_dst.size(0), device=x_dst.device)
    if self_loops and bipartite:
        pairs = pairs.append(nodes + x_src.size(0), nodes, node_color)
        x_src = torch.cat([x_src, x_dst])
    elif self_loops:
        loops = pairs.src == pairs.dst
        if torch.compiler.is_compiling():
            # Shapes may not depend on values: loops go to an extra destination,
            # whose result the layer drops.
            pairs = pairs._replace(dst=torch.where(loops, x_dst.size(0), pairs.dst))
            x_dst = torch.cat([x_dst, x_dst.new_zeros(1, x_dst.size(1))])
        elif loops.any():
            pairs = pairs.keep(~loops)
        pairs = pairs.append(nodes, nodes, node_color)
    return Neighborhoods(
        x_src, x_dst, *pairs[:3], edge_weight, pairs.color, bipartite=bipartite
    )


def _check_length(name: str, color: Tensor | None, size: int, what: str) -> None:
    if color is not None and color.size(0) != size:
        raise ValueError(f"{name} has {color.size(0)} entries for {size} {what}")


def edge_columns(edge_attr: Tensor, edge_dim: int | Sequence[int]) -> Tensor:
    """Return edge features as columns of floats.

    Categories become one-hot columns, so that a linear map of the columns is the sum
    of one embedding for each category.
    """
    sizes = [edge_dim] if isinstance(edge_dim, int) else list(edge_dim)
    width = edge_dim if isinstance(edge_dim, int) else len(sizes)
    if edge_attr.dim() == 1:
        edge_attr = edge_attr[:, None]
    if edge_attr.dim() != 2 or edge_attr.size(1) != width:
        raise DataError(
            f"edge_attr must have {width} columns (edge_dim={edge_dim}), "
            f"got shape {list(edge_attr.shape)}"
        )
    if isinstance(edge_dim, int):
        return edge_attr
    if edge_attr.is_floating_point():
        raise DataError(
            f"edge_attr must hold integers for the categories edge_dim={edge_dim}, "
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
