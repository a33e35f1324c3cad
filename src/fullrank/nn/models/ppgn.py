import torch
from torch import Tensor
from torch_geometric.data.data import BaseData
from torch_geometric.nn.dense.linear import Linear

from fullrank.errors import ConfigError
from fullrank.nn.conv.base import EdgeDim
from fullrank.nn.models.inputs import BatchNetwork, Channels, Graphs


class PPGN(BatchNetwork):
    r"""The provably powerful graph network from `"Provably Powerful Graph Networks"
    <https://arxiv.org/abs/1905.11136>`_, as expressive as 2-FWL.

    A graph is a tensor over its ordered pairs of nodes: node features on the diagonal,
    adjacency, edge features and, if there are coordinates, distances. A block is

    .. math::
        \mathbf{X}' = m_3([\mathbf{X} \Vert m_1(\mathbf{X}) \cdot m_2(\mathbf{X})])

    with MLPs :math:`m_i` on each pair and a matrix product per channel. The readout of
    the diagonal and of the rest after the last block is a maximum as in the authors'
    code, or a sum as in the proof that the network is as strong as 2-FWL: a maximum
    ignores multiplicities. Graphs of the same size are computed together, without
    padding. Memory grows with the square of the number of nodes, time with its cube.

    Published setting: 3 blocks of width 400, MLPs of 2 layers; on QM9 the readout of
    the last block and three linear layers (512, 256), Adam with 1e-4, times 0.8 every
    20 epochs, batches of 64, 500 epochs.

    Args:
        in_channels: Number of node features, or category counts.
        hidden_channels: Width of the blocks.
        out_channels: Number of predictions per graph.
        num_layers: Number of blocks.
        edge_dim: Number of edge features, or category counts, or :obj:`None`.
        dropout: Dropout probability in the head.
        readout: ``"max"`` or ``"sum"``.
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
        readout: str = "max",
    ) -> None:
        super().__init__(in_channels, hidden_channels, num_layers, edge_dim, dropout)
        if readout not in ("max", "sum"):
            raise ConfigError(f"readout must be 'max' or 'sum', got {readout!r}")
        self.readout = readout
        d = hidden_channels
        channels = d + 2 + self.edge_width  # nodes, adjacency, distance, edges
        self.blocks = torch.nn.ModuleList(
            _Block(channels if i == 0 else d, d) for i in range(num_layers)
        )
        self.head = torch.nn.Sequential(
            torch.nn.Linear(2 * d, d),
            torch.nn.ReLU(),
            torch.nn.Dropout(dropout),
            torch.nn.Linear(d, d),
            torch.nn.ReLU(),
            torch.nn.Linear(d, out_channels),
        )

    def forward(self, data: BaseData) -> Tensor:
        """Predict for each graph of a batch, :math:`(|\\mathcal{G}|, out)`."""
        h, graphs = self.read(data)
        pos = data.get("pos")
        pairs = self._pair_features(h, graphs, pos)  # [P, c], graph by graph
        nodes = graphs.nodes
        of_graphs = pairs.split(nodes.square().tolist())
        rows: list[Tensor] = [h.new_empty(0)] * graphs.size
        for n in nodes.unique().tolist():
            which = (nodes == n).nonzero().squeeze(1).tolist()
            together = torch.stack([of_graphs[i] for i in which])
            tensor = together.view(len(which), n, n, -1)
            for block in self.blocks:
                tensor = block(tensor)
            for i, row in zip(which, self._read(tensor), strict=True):
                rows[i] = row
        return self.head(torch.stack(rows))

    def _pair_features(self, h: Tensor, graphs: Graphs, pos: Tensor | None) -> Tensor:
        first, second = graphs.pairs()
        nodes = graphs.nodes
        before = nodes.square().cumsum(0) - nodes.square()  # the first pair of a graph
        src, dst = graphs.edge_index
        graph = graphs.batch[src]
        start = graphs.starts[graph]
        edge = before[graph] + (src - start) * nodes[graph] + dst - start
        diagonal = torch.where((first == second)[:, None], h[first], 0)
        columns = h.new_zeros(len(first), 2 + self.edge_width)
        columns[edge, 0] = 1
        if pos is not None:
            columns[:, 1] = (pos[first] - pos[second]).norm(dim=1).to(h.dtype)
        if graphs.edge_attr is not None:
            columns[edge, 2:] = graphs.edge_attr
        return torch.cat([diagonal, columns], dim=1)

    def _read(self, x: Tensor) -> Tensor:
        """Return the diagonal and the rest of each channel, ``[B, 2 c]``."""
        n = x.size(1)
        own = torch.eye(n, dtype=torch.bool, device=x.device)
        diagonal, rest = x[:, own], x[:, ~own]  # [B, n, c], [B, n² - n, c]
        if self.readout == "sum":
            parts = diagonal.sum(dim=1), rest.sum(dim=1)
        elif n == 1:  # there is no rest
            parts = diagonal[:, 0], torch.zeros_like(diagonal[:, 0])
        else:
            parts = diagonal.amax(dim=1), rest.amax(dim=1)
        return torch.cat(parts, dim=1)


class _Block(torch.nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.left = _mlp(in_channels, out_channels)
        self.right = _mlp(in_channels, out_channels)
        self.skip = _linear(in_channels + out_channels, out_channels)

    def forward(self, x: Tensor) -> Tensor:  # [B, n, n, c]
        left, right = self.left(x).movedim(-1, 1), self.right(x).movedim(-1, 1)
        product = (left @ right).movedim(1, -1)
        return self.skip(torch.cat([x, product], dim=-1))


def _mlp(in_channels: int, out_channels: int) -> torch.nn.Sequential:
    return torch.nn.Sequential(
        _linear(in_channels, out_channels),
        torch.nn.ReLU(),
        _linear(out_channels, out_channels),
        torch.nn.ReLU(),
    )


def _linear(in_channels: int, out_channels: int) -> Linear:
    """Return a linear layer that is initialised as in the authors' code."""
    return Linear(
        in_channels,
        out_channels,
        weight_initializer="glorot",
        bias_initializer="zeros",
    )
