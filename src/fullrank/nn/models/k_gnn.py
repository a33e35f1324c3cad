from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data.data import BaseData
from torch_geometric.nn import GraphConv
from torch_geometric.utils import (
    degree,
    remove_self_loops,
    scatter,
    sort_edge_index,
    to_undirected,
)

from fullrank.nn.conv.base import EdgeDim
from fullrank.nn.models.edge_network import EdgeNetworkConv
from fullrank.nn.models.inputs import (
    BatchNetwork,
    Channels,
    Graphs,
    counted,
    regression_head,
)


class KGNN(BatchNetwork):
    r"""The hierarchical 1-2-3-GNN from `"Weisfeiler and Leman Go Neural"
    <https://arxiv.org/abs/1810.02244>`_.

    A GNN on the nodes, then one on all sets of two nodes and one on all connected sets
    of three. The initial features of a set are the mean of its nodes' features and its
    type (number of edges). Its neighbours are the sets that differ from it in one node,
    if the two nodes are adjacent (local neighbourhoods, the authors' *malkin*):

    .. math::
        \mathbf{h}'_S = \mathrm{ELU}(\mathbf{W}_1 \mathbf{h}_S + \mathbf{W}_2
        \sum_{T \in \mathcal{N}(S)} \mathbf{h}_T)

    The head, three linear layers, reads the means over nodes, pairs and triples. The
    authors' triples :math:`u < v < w` are connected in this order, which depends on the
    numbering of the nodes; here all connected triples are used. Types do not contain
    the labels of nodes, which are in the features.

    Published setting (QM9): 3 layers on nodes (32, 64, 64), with
    :class:`~torch_geometric.nn.NNConv` for the edge features, 2 layers of 64 on pairs
    and on triples, MSE, Adam with 1e-3, times 0.7 on plateaus, batches of 64, 200
    epochs.

    Args:
        in_channels: Number of node features, or category counts.
        hidden_channels: Width of all layers.
        out_channels: Number of predictions per graph.
        num_layers: Number of layers on the nodes.
        edge_dim: Number of edge features, or category counts, or :obj:`None`.
        dropout: Dropout probability before the head.
        set_layers: Number of layers on the sets of two and of three nodes.
    """

    def __init__(
        self,
        in_channels: Channels,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 3,
        *,
        edge_dim: EdgeDim = None,
        dropout: float = 0.0,
        set_layers: int = 2,
    ) -> None:
        super().__init__(in_channels, hidden_channels, num_layers, edge_dim, dropout)
        d = hidden_channels
        self.convs = torch.nn.ModuleList(self._conv(d) for _ in range(num_layers))
        self.on_pairs = _set_layers(d, set_layers)
        self.on_triples = _set_layers(d, set_layers)
        self.head = regression_head(3 * d, d, ceil(d / 2), out_channels)

    def _conv(self, channels: int) -> torch.nn.Module:
        if not self.edge_width:
            return GraphConv(channels, channels)
        return EdgeNetworkConv(channels, self.edge_width, 128)

    def forward(self, data: BaseData) -> Tensor:
        """Predict for each graph of a batch, :math:`(|\\mathcal{G}|, out)`."""
        h, graphs = self.read(data)
        edges = [graphs.edge_index]
        if graphs.edge_attr is not None:
            edges.append(graphs.edge_attr)
        for conv in self.convs:
            h = F.elu(conv(h, *edges))
        neighbors = Neighbors(graphs)
        read = [_mean(h, graphs.batch, graphs.size)]
        for sets, convs in (
            (neighbors.pairs(), self.on_pairs),
            (neighbors.connected_triples(), self.on_triples),
        ):
            complete = neighbors.edges_in(sets) == len(sets.T) * (len(sets.T) - 1) // 2
            kind = F.one_hot(complete.long(), 2).to(h.dtype)
            x = torch.cat([h[sets].mean(dim=1), kind], dim=1)
            between = neighbors.exchanging_one(sets)
            for conv in convs:
                x = F.elu(conv(x, between))
            read.append(_mean(x, graphs.batch[sets[:, 0]], graphs.size))
        together = torch.cat(read, dim=1)
        return self.head(F.dropout(together, self.dropout, self.training))


class Neighbors:
    """The neighbours of each node, and sets of nodes.

    A set is a row of nodes in increasing order; sets are in lexicographic order.
    """

    def __init__(self, graphs: Graphs) -> None:
        nodes = len(graphs.batch)
        edge_index, _ = remove_self_loops(graphs.edge_index)
        edge_index = to_undirected(edge_index, num_nodes=nodes)
        src, self.neighbor = sort_edge_index(edge_index, num_nodes=nodes)
        self.degree = degree(src, nodes, dtype=torch.long)
        self.first = self.degree.cumsum(0) - self.degree
        self.num_nodes = nodes
        self.edges = torch.stack([src, self.neighbor], dim=1)
        self._graphs = graphs

    def pairs(self) -> Tensor:
        """All sets of two nodes of the same graph."""
        first, second = self._graphs.pairs()
        return torch.stack([first, second], dim=1)[first < second]

    def connected_triples(self) -> Tensor:
        """All sets of three nodes with at least two edges."""
        centre, one = self.edges.T
        which, other = self._neighbors(centre)
        triples = torch.stack([centre[which], one[which], other], dim=1)
        triples = triples[one[which] < other].sort(dim=1).values
        return triples.unique(dim=0)

    def edges_in(self, sets: Tensor) -> Tensor:
        """Number of edges of each set."""
        adjacent = self._key(self.edges)
        found = [
            torch.isin(self._key(sets[:, [i, j]]), adjacent).long()
            for i in range(sets.size(1))
            for j in range(i)
        ]
        return torch.stack(found).sum(dim=0)

    def exchanging_one(self, sets: Tensor) -> Tensor:
        """Neighbours of sets: one node is replaced by an adjacent one."""
        keys = self._key(sets)
        found = []
        for position in range(sets.size(1)):
            which, node = self._neighbors(sets[:, position])
            outside = (sets[which] != node[:, None]).all(dim=1)
            which, node = which[outside], node[outside]
            other = sets[which]
            other[:, position] = node
            key = self._key(other.sort(dim=1).values)
            place = torch.searchsorted(keys, key).clamp(max=max(0, len(keys) - 1))
            known = keys[place] == key
            found.append(torch.stack([place[known], which[known]]))
        return torch.cat(found, dim=1)

    def _neighbors(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """All neighbours of the nodes, and the position of the node that each belongs
        to."""
        which, rank = counted(self.degree[nodes])
        return which, self.neighbor[self.first[nodes[which]] + rank]

    def _key(self, sets: Tensor) -> Tensor:
        key = sets[:, 0]
        for column in sets.T[1:]:
            key = key * self.num_nodes + column
        return key


def _set_layers(channels: int, count: int) -> torch.nn.ModuleList:
    return torch.nn.ModuleList(
        GraphConv(channels + 2 if i == 0 else channels, channels) for i in range(count)
    )


def _mean(x: Tensor, index: Tensor, size: int) -> Tensor:
    return scatter(x, index, dim_size=size, reduce="mean")
