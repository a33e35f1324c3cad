import torch
from torch import Tensor
from torch_geometric.data.data import BaseData
from torch_geometric.nn import Set2Set

from fullrank.nn.conv.base import EdgeDim
from fullrank.nn.models.edge_network import EdgeNetworkConv
from fullrank.nn.models.inputs import BatchNetwork, Channels


class MPNN(BatchNetwork):
    r"""The message passing network enn-s2s from `"Neural Message Passing for Quantum
    Chemistry" <https://arxiv.org/abs/1704.01212>`_.

    .. math::
        \mathbf{m}_v = \mathrm{ReLU}(\sum_{u \in \mathcal{N}(v)} A(\mathbf{e}_{uv})
        \mathbf{h}_u + \mathbf{b}), \qquad
        \mathbf{h}'_v = \mathrm{GRU}(\mathbf{h}_v, \mathbf{m}_v)

    :math:`A` is a two-layer network with :math:`d \times d` outputs, shared by all
    steps; the readout is Set2Set. Without edge features :math:`A` is a single matrix.

    Published setting: complete graphs with bond types and distances, :math:`d = 73`,
    3 to 8 steps, 12 steps of Set2Set, Adam with a learning rate between 1e-5 and 5e-4
    and batches of 20, for 540 epochs. The paper's row is MoleculeNet's MPNN, in
    DeepChem: :math:`d = 100`, 2 steps, 5 steps of Set2Set, Adam with 1e-3 and batches
    of 16, for 50 epochs.

    Args:
        in_channels: Number of node features, or category counts.
        hidden_channels: :math:`d`, the width of the states.
        out_channels: Number of predictions per graph.
        num_layers: Number of message passing steps.
        edge_dim: Number of edge features, or category counts, or :obj:`None`.
        dropout: Dropout probability before the last layer.
        edge_channels: Hidden width of :math:`A`.
        processing_steps: Number of Set2Set steps.
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
        edge_channels: int = 64,
        processing_steps: int = 3,
    ) -> None:
        super().__init__(in_channels, hidden_channels, num_layers, edge_dim, dropout)
        d = hidden_channels
        self.num_layers = num_layers
        width = max(1, self.edge_width)
        self.conv = EdgeNetworkConv(d, width, edge_channels, root_weight=False)
        self.gru = torch.nn.GRUCell(d, d)
        self.readout = Set2Set(d, processing_steps)
        self.head = torch.nn.Sequential(
            torch.nn.Linear(2 * d, d),
            torch.nn.ReLU(),
            torch.nn.Dropout(dropout),
            torch.nn.Linear(d, out_channels),
        )

    def step(self, h: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        """Return the states of all nodes after one more step."""
        return self.gru(self.conv(h, edge_index, edge_attr).relu(), h)

    def forward(self, data: BaseData) -> Tensor:
        """Predict for each graph of a batch, :math:`(|\\mathcal{G}|, out)`."""
        h, graphs = self.read(data)
        edge_attr = graphs.edge_attr
        if edge_attr is None:
            edge_attr = h.new_ones(graphs.edge_index.size(1), 1)
        h = h.relu()
        for _ in range(self.num_layers):
            h = self.step(h, graphs.edge_index, edge_attr)
        return self.head(self.readout(h, graphs.batch, dim_size=graphs.size))
