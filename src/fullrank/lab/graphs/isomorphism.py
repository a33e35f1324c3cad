"""Isomorphism classes of graphs."""

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from fullrank.lab.graphs.wl import distinct, paired, wl_classes, wl_colors
from fullrank.nn.hashing import scramble

BUDGET = 500
#: What belongs to a graph besides its edges, by PyG's names.
NODE_FEATURES = ("x", "z", "node_type")
EDGE_FEATURES = ("edge_attr", "edge_weight", "edge_type")


def isomorphism_classes(graphs: list[Data]) -> tuple[Tensor, Tensor]:
    """Number graphs by their 1-WL class, and by isomorphism.

    Features of the nodes (``x``, ``z``, ``node_type``) and of the edges (``edge_attr``,
    ``edge_weight``, ``edge_type``) are part of a graph.

    Returns:
        The 1-WL class and the isomorphism class of each graph; the latter refines the
        former. If isomorphism was not decided within a budget of refinements, two
        graphs have different classes: graphs of one class are always proved isomorphic.
    """
    batch = union(graphs)
    wl = wl_classes(_colors(batch, batch.label), batch.batch, len(graphs))
    _, which, size = wl.unique(return_inverse=True, return_counts=True)
    alike = (size[which] > 1).nonzero().flatten()
    same = len(graphs) + torch.arange(len(graphs))
    if len(alike):
        same[alike] = _within_wl([graphs[i] for i in alike.tolist()], wl[alike])
    return wl, same


def _within_wl(graphs: list[Data], wl: Tensor) -> Tensor:
    """Isomorphism classes of graphs with these 1-WL classes."""
    batch = union(graphs)
    color = _individualized(batch, _colors(batch, batch.label))
    # Equal discrete colourings define an isomorphism.
    same = wl_classes(color, batch.batch, len(graphs))
    return _joined(graphs, wl, same)


def is_isomorphic(first: Data, second: Data, budget: int = BUDGET) -> bool | None:
    """Whether two graphs are isomorphic, or None if undecided after `budget`
    refinements."""
    pair = union([first, second])
    search = _Search(pair, budget)
    return search.extend(pair.label)


class _Search:
    """Individualise a node of the first graph, and try all of its class in the
    second."""

    def __init__(self, pair: Batch, budget: int) -> None:
        self.pair, self.budget = pair, budget

    def extend(self, label: Tensor) -> bool | None:
        self.budget -= 1
        if self.budget < 0:
            return None
        color = _colors(self.pair, label)
        split = int(self.pair.ptr[1])
        first, second = color[:split].sort(), color[split:].sort()
        if not torch.equal(first.values, second.values):
            return False
        chosen = _smallest_class(first.values)
        if chosen is None:
            return True
        node = int((color[:split] == chosen).nonzero()[0])
        for other in (color[split:] == chosen).nonzero().flatten().tolist():
            marked = 2 * color
            marked[[node, split + other]] += 1
            found = self.extend(marked)
            if found is not False:
                return found
        return False


def union(graphs: list[Data]) -> Batch:
    """Only the structure of graphs: edges, and features as a number of each node
    (``label``) and edge (``kind``)."""
    bare = [
        Data(
            edge_index=graph.edge_index,
            num_nodes=graph.num_nodes,
            features=_table(graph, NODE_FEATURES),
            edge_attr=_table(graph, EDGE_FEATURES),
        )
        for graph in graphs
    ]
    batch = Batch.from_data_list(bare)
    batch.label = distinct(batch.get("features"), batch.num_nodes)
    batch.kind = distinct(batch.get("edge_attr"), batch.num_edges)
    return batch


def _table(graph: Data, names: tuple[str, ...]) -> Tensor | None:
    """These features in one table, in float64; None if there are none."""
    given = [graph.get(name) for name in names]
    columns = [
        z.flatten(1) if z.dim() > 1 else z[:, None] for z in given if z is not None
    ]
    return torch.cat([z.double() for z in columns], dim=1) if columns else None


def _colors(batch: Batch, label: Tensor) -> Tensor:
    return wl_colors(batch.edge_index, batch.num_nodes, label, edge_labels=batch.kind)


def _individualized(batch: Batch, color: Tensor) -> Tensor:
    """Refine until all classes are single nodes: number twins, which are
    interchangeable, then mark a node of the smallest class of more than one node in
    each graph, again and again."""
    number = _number_among_twins(batch, color)
    if number.any():
        color = _colors(batch, paired(color, number))
    while True:
        marked = _one_of_smallest_class(color, batch.batch)
        if not len(marked):
            return color
        label = 2 * color
        label[marked] += 1
        color = _colors(batch, label)


def _number_among_twins(batch: Batch, color: Tensor) -> Tensor:
    """Number the nodes of one colour that have the same neighbours, or the same except
    for each other, from 0; other nodes are 0.

    Neighbours are compared by hashes. A collision, or an order of nodes that are not
    interchangeable, only makes isomorphic graphs harder to recognise.
    """
    source, target = batch.edge_index
    node = scramble(torch.arange(len(color)))
    around = scramble(batch.batch)  # isolated nodes of a graph are twins
    around.index_add_(0, target, scramble(node[source] + batch.kind))
    around.index_add_(0, source, scramble(~node[target] + batch.kind))
    itself = scramble(node) + scramble(~node)
    number = torch.zeros_like(color)
    for key in (around, around + itself):
        group = paired(color, key.unique(return_inverse=True)[1])
        order = group.argsort(stable=True)
        size = group.bincount()
        first = size.cumsum(0) - size
        number[order] += torch.arange(len(group)) - first[group[order]]
    return number


def _one_of_smallest_class(color: Tensor, graph: Tensor) -> Tensor:
    """One node of the smallest class of more than one node, in each graph that has
    one."""
    classes = torch.stack([graph, color], dim=1)
    _, which, size = classes.unique(dim=0, return_inverse=True, return_counts=True)
    nodes = (size[which] > 1).nonzero().flatten()
    # First by graph, then by the size of the class, then by its colour.
    for key in (color, size[which], graph):
        nodes = nodes[key[nodes].argsort(stable=True)]
    first = torch.ones(len(nodes), dtype=torch.bool)
    first[1:] = graph[nodes][1:] != graph[nodes][:-1]
    return nodes[first]


def _smallest_class(color: Tensor) -> int | None:
    values, counts = color.unique(return_counts=True)
    values, counts = values[counts > 1], counts[counts > 1]
    return int(values[counts.argmin()]) if len(values) else None


def _joined(graphs: list[Data], wl: Tensor, same: Tensor) -> Tensor:
    """Join classes that differ only in which node of a colour was marked."""
    first_of = {number: index for index, number in enumerate(same.tolist())}
    joined = {number: number for number in first_of}
    by_wl: dict[int, list[int]] = {}
    for number, index in first_of.items():
        known = by_wl.setdefault(int(wl[index]), [])
        for other in known:
            if is_isomorphic(graphs[index], graphs[first_of[other]]):
                joined[number] = joined[other]
                break
        else:
            known.append(number)
    return torch.tensor([joined[number] for number in same.tolist()])
