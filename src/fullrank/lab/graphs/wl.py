"""The 1-dimensional Weisfeiler-Leman test, which bounds message passing."""

import torch
from torch import Tensor
from torch_geometric.utils import cumsum, degree


def wl_colors(
    edge_index: Tensor,
    num_nodes: int,
    labels: Tensor | None = None,
    rounds: int | None = None,
    edge_labels: Tensor | None = None,
) -> Tensor:
    r"""Colours of the nodes under 1-WL refinement.

    .. math::
        c^{(t+1)}_v = \mathrm{id}\big(c^{(t)}_v,
        \{\{(c^{(t)}_u, e_{uv}) : (u, v) \in E\}\}\big)

    Colours are compared, never hashed, so two nodes share a colour if and only if the
    test cannot distinguish them. To compare graphs, refine their disjoint union.

    Args:
        edge_index: Edges as two rows, source and target.
        num_nodes: Number of nodes.
        labels: Initial labels, one row or number per node.
        rounds: Number of rounds; by default until the colours are stable.
        edge_labels: Labels of the edges, one row or number per edge.

    Returns:
        One colour per node, numbered from 0.
    """
    color = distinct(labels, num_nodes)
    kind = distinct(edge_labels, edge_index.size(1))
    num_colors = _count(color)
    for _ in range(num_nodes if rounds is None else rounds):
        color = _refine(color, edge_index, kind)
        if _count(color) == num_colors:
            break
        num_colors = _count(color)
    return color


def wl_classes(color: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
    """Number the graphs so that two share a number if 1-WL cannot distinguish them.

    Args:
        color: Colours of the nodes of all graphs, refined together.
        batch: The graph of each node, ascending.
        num_graphs: Number of graphs, including empty ones.
    """
    return multisets(color, batch, num_graphs)


def multisets(values: Tensor, row: Tensor, num_rows: int) -> Tensor:
    """Number the rows so that two share a number if they contain the same values in any
    order: ``values[i]`` belongs to ``row[i]``."""
    order = values.argsort()
    order = order[row[order].argsort(stable=True)]
    length = degree(row, num_rows, dtype=torch.long)
    start = cumsum(length)[:-1]
    key = length.clone()
    # Column by column, which avoids a table of rows x longest row. Rows that are
    # complete stay separate from the others, because their length differs.
    for column in range(int(length.max()) if num_rows else 0):
        rows = (length > column).nonzero().flatten()
        key[rows] = paired(key[rows], values[order[start[rows] + column]])
    return paired(length, key)


def paired(first: Tensor, second: Tensor) -> Tensor:
    """Number distinct pairs of numbers from 0."""
    key = first * (_count(second) or 1) + second
    return key.unique(return_inverse=True)[1]


def distinct(labels: Tensor | None, count: int) -> Tensor:
    """Number distinct rows of labels from 0; all 0 if there are none."""
    number = torch.zeros(count, dtype=torch.long)
    if labels is None or not labels.numel():
        return number
    for column in labels.reshape(count, -1).T:
        number = paired(number, column.unique(return_inverse=True)[1])
    return number


def _refine(color: Tensor, edge_index: Tensor, kind: Tensor) -> Tensor:
    source, target = edge_index
    around = multisets(paired(color[source], kind), target, color.numel())
    return paired(color, around)


def _count(color: Tensor) -> int:
    return int(color.max()) + 1 if color.numel() else 0
