"""The inputs of networks, and encoders of node features."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data.data import BaseData
from torch_geometric.nn import BatchNorm
from torch_geometric.nn.inits import reset

from fullrank.errors import ConfigError, DataError
from fullrank.nn.conv.base import EdgeDim, num_columns
from fullrank.nn.neighborhoods import edge_columns

Channels = int | Sequence[int]


class CategoryEncoder(torch.nn.Module):
    """The sum of one embedding for each column of categories.

    With :data:`OGB_ATOM_DIMS` this is OGB's atom encoder.
    """

    def __init__(self, sizes: Sequence[int], out_channels: int) -> None:
        super().__init__()
        self.embeddings = torch.nn.ModuleList(
            torch.nn.Embedding(size, out_channels) for size in sizes
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset the embeddings, initialised as in OGB."""
        for weight in self.embeddings.parameters():
            torch.nn.init.xavier_uniform_(weight)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 1:
            x = x[:, None]
        if x.size(1) != len(self.embeddings):
            raise DataError(
                f"x must have {len(self.embeddings)} columns of categories, "
                f"got {x.size(1)}"
            )
        columns = [embed(x[:, i]) for i, embed in enumerate(self.embeddings)]
        return sum(columns[1:], columns[0])


def make_encoder(in_channels: Channels, out_channels: int) -> torch.nn.Module:
    """Return a linear layer for numbers, or embeddings for categories."""
    if isinstance(in_channels, int):
        return torch.nn.Linear(in_channels, out_channels)
    return CategoryEncoder(in_channels, out_channels)


class Graphs(NamedTuple):
    """The graphs of a batch.

    Attributes:
        x: Node features as they are stored.
        edge_index: The edges, :math:`(2, E)`.
        edge_attr: Edge features as columns of numbers, :math:`(E, q)`, or :obj:`None`.
        batch: The graph of each node, :math:`(N)`; nodes of a graph are contiguous.
        size: Number of graphs.
    """

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    batch: Tensor
    size: int

    @property
    def nodes(self) -> Tensor:
        """Number of nodes of each graph."""
        return torch.bincount(self.batch, minlength=self.size)

    @property
    def starts(self) -> Tensor:
        """The first node of each graph."""
        nodes = self.nodes
        return nodes.cumsum(0) - nodes

    def pairs(self) -> tuple[Tensor, Tensor]:
        """All ordered pairs of nodes of the same graph, including each node with
        itself."""
        first, rank = counted(self.nodes[self.batch])
        return first, self.starts[self.batch[first]] + rank


def counted(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Repeat each index ``counts`` times, and number its repetitions from 0.

    >>> counted(torch.tensor([2, 0, 3]))
    (tensor([0, 0, 2, 2, 2]), tensor([0, 1, 0, 1, 2]))
    """
    index = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
    before = (counts.cumsum(0) - counts)[index]
    return index, torch.arange(len(index), device=counts.device) - before


class BatchNetwork(torch.nn.Module):
    """Base class of the networks that read a whole batch.

    Args:
        in_channels: Number of node features, or category counts.
        hidden_channels: Width of the network.
        num_layers: Number of layers.
        edge_dim: Number of edge features, or category counts, or :obj:`None`.
        dropout: Dropout probability.
    """

    def __init__(
        self,
        in_channels: Channels,
        hidden_channels: int,
        num_layers: int,
        edge_dim: EdgeDim = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if num_layers < 1:
            raise ConfigError(f"num_layers must be at least 1, got {num_layers}")
        if not 0 <= dropout < 1:
            raise ConfigError(f"dropout must be in [0, 1), got {dropout}")
        self.edge_dim = edge_dim
        self.dropout = dropout
        self.encoder = make_encoder(in_channels, hidden_channels)

    @property
    def edge_width(self) -> int:
        """Number of columns of edge features, 0 without any."""
        return 0 if self.edge_dim is None else num_columns(self.edge_dim)

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the network."""
        for child in self.children():
            reset(child)

    def read(self, data: BaseData) -> tuple[Tensor, Graphs]:
        """Return the encoded nodes of a PyG ``Data`` or ``Batch``, and the graphs."""
        if data.x is None:
            raise DataError("x is missing: the network needs node features")
        h = self.encoder(data.x)
        edge_attr = None
        if self.edge_dim is not None:
            if data.get("edge_attr") is None:
                raise DataError(
                    f"edge_attr is missing: the network has edge_dim={self.edge_dim}"
                )
            edge_attr = edge_columns(data.edge_attr, self.edge_dim).to(h.dtype)
        batch = data.get("batch")
        if batch is None:
            batch, size = data.edge_index.new_zeros(len(h)), 1
        else:
            size = data.num_graphs
        return h, Graphs(data.x, data.edge_index, edge_attr, batch, size)


def batch_norm(channels: int) -> BatchNorm:
    """Return batch norm that uses the running statistics for a single row."""
    return BatchNorm(channels, allow_single_element=True)


def regression_head(*widths: int) -> torch.nn.Sequential:
    """Return linear layers of these widths with ELU between them, as on QM9."""
    layers: list[torch.nn.Module] = []
    for before, after in pairwise(widths):
        layers += [torch.nn.Linear(before, after), torch.nn.ELU()]
    return torch.nn.Sequential(*layers[:-1])
