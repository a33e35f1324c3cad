from math import ceil

import torch
from torch import Tensor
from torch_geometric.data.data import BaseData
from torch_geometric.nn import DenseSAGEConv, SAGEConv, dense_diff_pool
from torch_geometric.utils import to_dense_adj, to_dense_batch

from fullrank.nn.conv.base import EdgeDim
from fullrank.nn.models.inputs import BatchNetwork, Channels, batch_norm


class DiffPool(BatchNetwork):
    r"""Differentiable pooling from `"Hierarchical Graph Representation Learning with
    Differentiable Pooling" <https://arxiv.org/abs/1806.08804>`_.

    .. math::
        \mathbf{S} = \mathrm{softmax}(\mathrm{GNN}_s(\mathbf{A}, \mathbf{X})), \quad
        \mathbf{X}' = \mathbf{S}^{\top} \mathrm{GNN}_x(\mathbf{A}, \mathbf{X}), \quad
        \mathbf{A}' = \mathbf{S}^{\top} \mathbf{A} \mathbf{S}

    The layers are GraphSAGE with batch norm; the readout is the mean of each level. The
    link prediction and entropy losses of the pooling are in :attr:`penalty` after a
    forward pass, and are added to the training loss.

    Published setting: GraphSAGE with 3 layers before each of 1 or 2 poolings to 10 or
    25% of the largest number of nodes, width 64 (30 on small sets), gradients clipped
    at 2, batches of 20, Adam with 1e-3, early stopping within 3000 epochs. (The
    authors' code has the same defaults but one pooling, width 20 and 1000 epochs.)

    Args:
        in_channels: Number of node features, or category counts.
        hidden_channels: Width of all layers.
        out_channels: Number of predictions per graph.
        num_layers: Number of GraphSAGE layers per level.
        edge_dim: Ignored: a pooled graph has no edge features.
        dropout: Dropout probability in the head.
        clusters: Number of nodes after the first pooling; the second leaves a quarter
            of them.
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
        clusters: int = 32,
    ) -> None:
        super().__init__(in_channels, hidden_channels, num_layers, None, dropout)
        d, fewer = hidden_channels, ceil(clusters / 4)
        self.penalty: Tensor | None = None
        self.embed = _Level(SAGEConv, d, d, num_layers)
        self.assign = _Level(SAGEConv, d, clusters, num_layers)
        self.pooled_embed = _Level(DenseSAGEConv, d, d, num_layers)
        self.pooled_assign = _Level(DenseSAGEConv, d, fewer, num_layers)
        self.last = _Level(DenseSAGEConv, d, d, num_layers)
        self.head = torch.nn.Sequential(
            torch.nn.Linear(3 * d, d),
            torch.nn.ReLU(),
            torch.nn.Dropout(dropout),
            torch.nn.Linear(d, out_channels),
        )

    def forward(self, data: BaseData) -> Tensor:
        """Predict for each graph of a batch, :math:`(|\\mathcal{G}|, out)`."""
        h, graphs = self.read(data)
        edge_index, batch, size = graphs.edge_index, graphs.batch, graphs.size
        x, mask = to_dense_batch(self.embed(h, edge_index), batch, batch_size=size)
        s, _ = to_dense_batch(self.assign(h, edge_index), batch, batch_size=size)
        adj = to_dense_adj(edge_index, batch, batch_size=size, max_num_nodes=x.size(1))
        count = mask.sum(dim=1, keepdim=True).clamp(min=1)
        read = [x.sum(dim=1) / count]
        x, adj, *first = dense_diff_pool(x, adj.to(x.dtype), s, mask)
        read.append(x.mean(dim=1))
        x, adj, *second = dense_diff_pool(
            self.pooled_embed(x, adj), adj, self.pooled_assign(x, adj)
        )
        read.append(self.last(x, adj).mean(dim=1))
        self.penalty = sum(first) + sum(second)
        return self.head(torch.cat(read, dim=1))


class _Level(torch.nn.Module):
    """GraphSAGE layers with ReLU and batch norm between them."""

    def __init__(self, conv: type, channels: int, out: int, num_layers: int) -> None:
        super().__init__()
        widths = [channels] * num_layers + [out]
        self.convs = torch.nn.ModuleList(
            conv(widths[i], widths[i + 1]) for i in range(num_layers)
        )
        self.norms = torch.nn.ModuleList(
            batch_norm(widths[i + 1]) for i in range(num_layers - 1)
        )

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        for conv, norm in zip(self.convs, self.norms, strict=False):
            x = conv(x, edges).relu()
            x = norm(x.flatten(0, -2)).view_as(x)
        return self.convs[-1](x, edges)
