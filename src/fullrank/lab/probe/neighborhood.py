"""One node and its neighbours, as a small graph that any layer can run on."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import degree, remove_self_loops

from fullrank.lab.precision import as_double


@dataclass(frozen=True)
class Neighborhood:
    r"""A centre and its neighbours.

    Attributes:
        x: Features, the centre's in the first row, ``[n, d]``.
        degrees: :math:`|\mathcal{N}(u)|` of each row, itself included, ``[n]``; by
            default each neighbour is joined to the centre only.
        edge_attr: Features of the edges to the neighbours, ``[n - 1, q]``.
    """

    x: Tensor
    degrees: Tensor | None = None
    edge_attr: Tensor | None = None

    def __post_init__(self) -> None:
        if self.x.dim() != 2 or len(self.x) < 1:
            raise ValueError(
                f"a neighbourhood is a matrix with the centre in its first row, "
                f"got features of shape {tuple(self.x.shape)}"
            )

    def __len__(self) -> int:
        return len(self.x)

    def double(self) -> "Neighborhood":
        attr = None if self.edge_attr is None else as_double(self.edge_attr)
        return Neighborhood(self.x.double(), self.degrees, attr)

    def with_neighbors(self, neighbors: Tensor) -> "Neighborhood":
        """The same centre, degrees and edges, with other neighbours ``[n - 1, d]``."""
        x = torch.cat([self.x[:1], neighbors.view(len(self) - 1, -1)])
        return Neighborhood(x, self.degrees, self.edge_attr)

    def graph(self) -> Data:
        """A star with the centre as node 0.

        Where degrees are given, one more node, with features 0, points at the
        neighbours as often as their degree requires.
        """
        n = len(self)
        spokes = torch.stack([torch.arange(1, n), torch.zeros(n - 1, dtype=torch.long)])
        edges, which = [spokes, spokes.flip(0)], [torch.arange(n - 1)] * 2
        x = self.x
        if self.degrees is not None:
            missing = (self.degrees[1:].long() - 2).clamp(min=0)
            ends = torch.arange(1, n).repeat_interleave(missing)
            edges.append(torch.stack([torch.full_like(ends, n), ends]))
            which.append(ends - 1)
            x = torch.cat([x, x.new_zeros(1, x.size(1))])
        attr = None if self.edge_attr is None else self.edge_attr[torch.cat(which)]
        return Data(x=x, edge_index=torch.cat(edges, dim=1), edge_attr=attr)


def neighborhood_of(
    node: int, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None
) -> Neighborhood:
    """Extract the neighbourhood of a node from a graph.

    Args:
        node: The centre.
        x: Features of all nodes, ``[N, d]``.
        edge_index: Edges; self-loops are left out.
        edge_attr: Features of the edges.
    """
    if not 0 <= node < len(x):
        raise ValueError(f"node must be one of {len(x)} nodes, got {node}")
    edge_index, edge_attr = remove_self_loops(edge_index, edge_attr)
    into = (edge_index[1] == node).nonzero().flatten()
    rows = torch.cat([torch.tensor([node]), edge_index[0, into]])
    degrees = degree(edge_index[1], len(x), dtype=torch.long) + 1
    attr = None if edge_attr is None else edge_attr[into]
    return Neighborhood(x[rows], degrees[rows], attr)
