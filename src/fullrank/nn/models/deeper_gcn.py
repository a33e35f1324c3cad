import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data.data import BaseData
from torch_geometric.nn import DeepGCNLayer, GENConv, global_mean_pool

from fullrank.nn.conv.base import EdgeDim
from fullrank.nn.models.inputs import BatchNetwork, Channels, batch_norm
from fullrank.nn.models.virtual_node import VirtualNode


class DeeperGCN(BatchNetwork):
    r"""The deep residual network from `"DeeperGCN: All You Need to Train Deeper GCNs"
    <https://arxiv.org/abs/2006.07739>`_.

    .. math::
        \mathbf{h}' = \mathbf{h} + \mathrm{GENConv}(\mathrm{dropout}(\mathrm{ReLU}(
        \mathrm{norm}(\mathbf{h}))))

    with a softmax aggregation whose temperature is learned, edge features added to the
    messages, and a mean readout over the nodes.

    Published setting: on ogbg-molhiv 7 layers of width 256, dropout 0.2; on ogbg-ppa 28
    layers of width 128, dropout 0.5.

    Args:
        in_channels: Number of node features, or category counts.
        hidden_channels: Width of all layers.
        out_channels: Number of predictions per graph.
        num_layers: Number of layers.
        edge_dim: Number of edge features, or category counts, or :obj:`None`.
        dropout: Dropout probability in each layer.
        virtual_node: Whether to add a virtual node to each graph.
    """

    def __init__(
        self,
        in_channels: Channels,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 7,
        *,
        edge_dim: EdgeDim = None,
        dropout: float = 0.0,
        virtual_node: bool = False,
    ) -> None:
        super().__init__(in_channels, hidden_channels, num_layers, edge_dim, dropout)
        d = hidden_channels
        self.first = self._conv(d)
        self.layers = torch.nn.ModuleList(
            DeepGCNLayer(self._conv(d), batch_norm(d), torch.nn.ReLU(), "res+", dropout)
            for _ in range(num_layers - 1)
        )
        self.virtual = VirtualNode(d, num_layers) if virtual_node else None
        self.norm = batch_norm(d)
        self.head = torch.nn.Linear(d, out_channels)

    def _conv(self, channels: int) -> GENConv:
        return GENConv(
            channels,
            channels,
            aggr="softmax",
            learn_t=True,
            norm="batch",
            edge_dim=self.edge_width or None,
        )

    def forward(self, data: BaseData) -> Tensor:
        """Predict for each graph of a batch, :math:`(|\\mathcal{G}|, out)`."""
        h, graphs = self.read(data)
        batch, size = graphs.batch, graphs.size
        g = None
        for i, layer in enumerate([self.first, *self.layers]):
            if self.virtual is not None:
                h, g = self.virtual(i, h, g, batch, size)
            h = layer(h, graphs.edge_index, graphs.edge_attr)
        h = F.dropout(self.norm(h).relu(), self.dropout, self.training)
        return self.head(global_mean_pool(h, batch, size))
