from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data.data import BaseData

from fullrank.extras import need
from fullrank.nn.conv.base import EdgeDim
from fullrank.nn.models.inputs import BatchNetwork, Channels, Graphs

if TYPE_CHECKING:
    import igraph


class PatchySAN(BatchNetwork):
    r"""PATCHY-SAN (PSCN) from `"Learning Convolutional Neural Networks for Graphs"
    <https://arxiv.org/abs/1605.05273>`_.

    The first :math:`w` nodes in a canonical order each get a field of :math:`k` nodes:
    the nearest ones, with ties in canonical order. The sequence of :math:`w k` nodes
    passes through two one-dimensional convolutions, the first with stride :math:`k`,
    and a dense layer. Graphs and fields that are too small are padded with zeros.

    Nodes are ordered by degree and three rounds of 1-WL; ties are broken by a canonical
    labelling of the whole graph (BLISS in igraph), so that isomorphic graphs give the
    same sequence. Nodes with different features are never exchanged. The authors rank
    and canonicalise the nodes of each field anew, with nauty; here, every field keeps
    the order of the whole graph, so isomorphic fields of different graphs may be
    ordered differently.

    Published setting: :math:`w` the average number of nodes, :math:`k = 10`,
    convolutions with 16 and 8 filters, a dense layer of 128 with dropout 0.5, RMSprop
    in Keras. The authors' code was not found; this agrees with the reimplementation
    `tvayer/PSCN <https://github.com/tvayer/PSCN>`_.

    Args:
        in_channels: Number of node features, or category counts.
        hidden_channels: Width of the encoded nodes and of the dense layer.
        out_channels: Number of predictions per graph.
        num_layers: Ignored: there are two convolutions.
        edge_dim: Ignored.
        dropout: Dropout probability after the dense layer.
        width: :math:`w`, the number of fields, at least 10.
        field: :math:`k`, the number of nodes per field.
    """

    def __init__(
        self,
        in_channels: Channels,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        *,
        edge_dim: EdgeDim = None,
        dropout: float = 0.0,
        width: int = 32,
        field: int = 10,
    ) -> None:
        super().__init__(in_channels, hidden_channels, num_layers, None, dropout)
        need("igraph")
        self.width, self.field = max(width, 10), field
        self.convs = torch.nn.Sequential(
            torch.nn.Conv1d(hidden_channels, 16, field, stride=field),
            torch.nn.ReLU(),
            torch.nn.Conv1d(16, 8, 10),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
        )
        self.head = torch.nn.Sequential(
            torch.nn.Linear(8 * (self.width - 9), hidden_channels),
            torch.nn.ReLU(),
            torch.nn.Dropout(dropout),
            torch.nn.Linear(hidden_channels, out_channels),
        )

    def forward(self, data: BaseData) -> Tensor:
        """Predict for each graph of a batch, :math:`(|\\mathcal{G}|, out)`."""
        h, graphs = self.read(data)
        nodes = receptive_fields(graphs, self.width, self.field)  # [G, w * k]
        rows = torch.where((nodes >= 0)[..., None], h[nodes.clamp(min=0)], 0)
        return self.head(self.convs(rows.transpose(1, 2)))


def receptive_fields(graphs: Graphs, width: int, field: int) -> Tensor:
    """Return the nodes of all fields of each graph, padded with -1."""
    sizes, starts = graphs.nodes.tolist(), graphs.starts.tolist()
    ends = graphs.edge_index.cpu().sort(dim=0).values
    edges = ends[:, ends[0] < ends[1]].unique(dim=1).numpy()
    graph_of_edge = graphs.batch.cpu().numpy()[edges[0]]
    x = graphs.x.detach().cpu().numpy().reshape(len(graphs.batch), -1)
    fields = []
    for graph, (size, start) in enumerate(zip(sizes, starts, strict=True)):
        own = edges[:, graph_of_edge == graph] - start
        kind = np.unique(x[start : start + size], axis=0, return_inverse=True)[1]
        given = own.astype(np.int32).tobytes(), kind.astype(np.int32).tobytes()
        found = _fields(*given, width, field)
        fields.append(np.where(found >= 0, found + start, -1))
    return torch.from_numpy(np.stack(fields)).to(graphs.batch.device)


@lru_cache(maxsize=100_000)
def _fields(edges: bytes, kinds: bytes, width: int, field: int) -> np.ndarray:
    import igraph

    kind = np.frombuffer(kinds, np.int32)
    pairs = np.frombuffer(edges, np.int32).reshape(2, -1).T
    graph = igraph.Graph(len(kind), pairs.tolist())
    rank = _canonical_rank(graph, kind)
    found = np.full((width, field), -1, dtype=np.int64)
    for row, root in enumerate(np.argsort(rank)[:width].tolist()):
        near, before, hops = [root], 0, 0
        while before < len(near) < field:
            before, hops = len(near), hops + 1
            near = graph.neighborhood(root, order=hops)
        distance = dict(zip(near, graph.distances(root, near)[0], strict=True))
        nodes = sorted(near, key=lambda v: (distance[v], rank[v]))[:field]
        found[row, : len(nodes)] = nodes
    return found.ravel()


def _canonical_rank(graph: "igraph.Graph", kind: np.ndarray) -> np.ndarray:
    """The rank of each node: by degree, 1-WL, and a canonical labelling."""
    degrees = np.stack([-np.array(graph.degree()), kind], axis=1)
    color = np.unique(degrees, axis=0, return_inverse=True)[1].tolist()
    neighbors = graph.get_adjlist()
    for _ in range(3):
        seen = [
            (own, tuple(sorted(color[u] for u in around)))
            for own, around in zip(color, neighbors, strict=True)
        ]
        place = {key: i for i, key in enumerate(sorted(set(seen)))}
        color = [place[key] for key in seen]
    canonical = graph.canonical_permutation(color=color)
    rank = np.empty(len(kind), dtype=np.int64)
    rank[np.lexsort((canonical, color))] = np.arange(len(kind))
    return rank
