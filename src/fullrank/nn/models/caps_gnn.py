import torch
from torch import Tensor
from torch_geometric.data.data import BaseData
from torch_geometric.nn import GCNConv
from torch_geometric.utils import scatter, softmax

from fullrank.errors import ConfigError
from fullrank.nn.conv.base import EdgeDim
from fullrank.nn.models.inputs import BatchNetwork, Channels


class CapsGNN(BatchNetwork):
    r"""The capsule graph network from `"Capsule Graph Neural Network"
    <https://openreview.net/forum?id=Byl8BnRcYm>`_.

    GCN layers give each node capsules of several layers and channels, attention weights
    them over the nodes of a graph, and dynamic routing maps them to graph capsules and
    these to one capsule for each output:

    .. math::
        \mathbf{s}_j = \sum_i c_{ij} \mathbf{W}_{ij} \mathbf{u}_i, \qquad
        \mathbf{v}_j = \frac{\lVert \mathbf{s}_j \rVert^2}{1 + \lVert \mathbf{s}_j
        \rVert^2} \frac{\mathbf{s}_j}{\lVert \mathbf{s}_j \rVert}

    where :math:`c_{ij}` is a softmax over :math:`j` that grows with the agreement
    :math:`\mathbf{v}_j^{\top} \mathbf{W}_{ij} \mathbf{u}_i`. An output is the log-odds
    of its capsule's length, :math:`\log \lVert \mathbf{s}_j \rVert^2`, so that the
    usual losses apply; the authors use a margin loss and a reconstruction loss.

    Published setting: 5 layers of 2 channels of size 8, 16 graph capsules, 3 iterations
    of routing, dropout of 0.3 on the input, Adam with 1e-2, batches of 32.

    Args:
        in_channels: Number of node features, or category counts.
        hidden_channels: Channels of a layer times ``capsule_channels``.
        out_channels: Number of predictions per graph.
        num_layers: Number of GCN layers.
        edge_dim: Ignored.
        dropout: Dropout probability of the encoded nodes.
        capsule_channels: Size of a capsule.
        num_capsules: Number of graph capsules.
        iterations: Number of routing iterations.
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
        capsule_channels: int = 8,
        num_capsules: int = 16,
        iterations: int = 3,
    ) -> None:
        super().__init__(in_channels, hidden_channels, num_layers, None, dropout)
        if hidden_channels % capsule_channels:
            raise ConfigError(
                f"hidden_channels must be a multiple of capsule_channels "
                f"({capsule_channels}), got {hidden_channels}"
            )
        d, size = hidden_channels, capsule_channels
        capsules = num_layers * d // size  # of a node
        self.capsule_channels = size
        self.convs = torch.nn.ModuleList(GCNConv(d, d) for _ in range(num_layers))
        self.attention = torch.nn.Sequential(
            torch.nn.Linear(num_layers * d, d),
            torch.nn.Tanh(),
            torch.nn.Linear(d, capsules),
        )
        self.to_graph = Routing(capsules, num_capsules, size, iterations)
        self.to_output = Routing(num_capsules, out_channels, size, iterations)
        self.input_dropout = torch.nn.Dropout(dropout)

    def forward(self, data: BaseData) -> Tensor:
        """Predict for each graph of a batch, :math:`(|\\mathcal{G}|, out)`."""
        h, graphs = self.read(data)
        batch, size = graphs.batch, graphs.size
        h = self.input_dropout(h)
        layers = []
        for conv in self.convs:
            h = conv(h, graphs.edge_index).tanh()
            layers.append(h)
        flat = torch.cat(layers, dim=1)
        weight = softmax(self.attention(flat), batch, num_nodes=size)  # over nodes
        capsules = flat.unflatten(1, (-1, self.capsule_channels)) * weight[..., None]
        graph = squash(self.to_graph(capsules, batch, size))  # [G, P, size]
        each = torch.arange(size, device=batch.device)
        total = self.to_output(graph, each, size)  # [G, out, size]
        return total.square().sum(dim=-1).clamp(min=1e-12).log()


class Routing(torch.nn.Module):
    """Dynamic routing from the capsules of rows to those of their graphs.

    Args:
        in_capsules: Number of capsules per row.
        out_capsules: Number of capsules per graph.
        channels: Size of a capsule.
        iterations: Number of routing iterations.
    """

    def __init__(
        self, in_capsules: int, out_capsules: int, channels: int, iterations: int
    ) -> None:
        super().__init__()
        self.iterations = iterations
        self.weight = torch.nn.Parameter(
            torch.empty(in_capsules, out_capsules, channels, channels)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = self.weight.size(-1) ** -0.5
        torch.nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, capsules: Tensor, index: Tensor, size: int) -> Tensor:
        """Return the sums :math:`\\mathbf{s}`, before squashing.

        Args:
            capsules: :math:`(N, I, c)`.
            index: The graph of each row, :math:`(N)`.
            size: Number of graphs.
        """
        votes = torch.einsum("nic,ijcd->nijd", capsules, self.weight)
        agreement = votes.new_zeros(votes.shape[:-1])  # [N, I, J]
        for i in range(self.iterations):
            share = agreement.softmax(dim=2)[..., None]
            total = scatter((share * votes).sum(dim=1), index, dim_size=size)
            if i + 1 < self.iterations:
                mine = squash(total)[index][:, None]  # [N, 1, J, d]
                agreement = agreement + (votes * mine).sum(dim=-1)
        return total


def squash(x: Tensor) -> Tensor:
    """Scale vectors to a length below 1."""
    square = x.square().sum(dim=-1, keepdim=True)
    return x * square.clamp(min=1e-12).sqrt() / (1 + square)
