"""The 1-dimensional Weisfeiler-Leman test: the bound of ordinary message passing."""

import torch
from torch import Tensor
from torch_geometric.utils import cumsum, degree


def wl_colors(
    edge_index: Tensor,
    num_nodes: int,
    labels: Tensor | None = None,
    rounds: int | None = None,
) -> Tensor:
    r"""Colours of the nodes under 1-WL refinement.

    .. math::
        c^{(t+1)}_v = \mathrm{id}\big(c^{(t)}_v,
        \{\{c^{(t)}_u : (u, v) \in E\}\}\big)

    Colours are compared, never hashed, so two nodes share one exactly when the test
    cannot tell them apart. To compare graphs, refine their disjoint union.

    Args:
        edge_index: Edges as two rows, source and target.
        num_nodes: Number of nodes.
        labels: Initial labels, one row or number per node.
        rounds: How many rounds to run; by default until the colours are stable.

    Returns:
        One colour per node, numbered from 0.
    """
    if labels is None:
        color = torch.zeros(num_nodes, dtype=torch.long)
    else:
        color = torch.unique(labels, dim=0, return_inverse=True)[1]
    num_colors = _count(color)
    for _ in range(num_nodes if rounds is None else rounds):
        color = _refine(color, edge_index)
        if _count(color) == num_colors:
            break
        num_colors = _count(color)
    return color


def wl_classes(color: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
    """Number the graphs so that two share a number when 1-WL cannot tell them apart.

    Args:
        color: Colours of the nodes of all graphs, refined together.
        batch: The graph of each node, ascending.
        num_graphs: Number of graphs, the empty ones included.
    """
    by_color = color.argsort()
    order = by_color[batch[by_color].argsort(stable=True)]
    rows = _padded_rows(color[order], batch, num_graphs)
    return torch.unique(rows, dim=0, return_inverse=True)[1]


def _refine(color: Tensor, edge_index: Tensor) -> Tensor:
    source, target = edge_index
    by_color = color[source].argsort()
    order = by_color[target[by_color].argsort(stable=True)]
    neighbors = _padded_rows(color[source[order]], target[order], color.numel())
    signature = torch.cat([color.unsqueeze(1), neighbors], dim=1)  # [N, 1 + degree]
    return torch.unique(signature, dim=0, return_inverse=True)[1]


def _padded_rows(values: Tensor, row: Tensor, num_rows: int) -> Tensor:
    """Lay values out in their rows (ascending), -1 where a row is shorter; at least one
    column, because ``torch.unique`` refuses rows without any."""
    length = degree(row, num_rows, dtype=torch.long)
    width = max(1, int(length.max())) if num_rows else 1
    column = torch.arange(row.numel()) - cumsum(length)[row]
    rows = values.new_full((num_rows, width), -1)
    rows[row, column] = values
    return rows


def _count(color: Tensor) -> int:
    return int(color.max()) + 1 if color.numel() else 0
