"""GraphNet: encoder, convolutions, jumping knowledge, readout, head."""

from collections.abc import Sequence
from math import ceil
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data.data import BaseData
from torch_geometric.nn import BatchNorm
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import aggregation_resolver
from torch_geometric.typing import Adj
from torch_geometric.utils import is_sparse

from fullrank.errors import ConfigError, DataError
from fullrank.nn.conv.base import EdgeDim, RankConv, num_columns
from fullrank.nn.kernels.dispatch import is_plain
from fullrank.nn.merge import (
    EqualNodes,
    Twins,
    consists_of,
    keeps_equal_nodes_equal,
    projects_nodes,
)
from fullrank.nn.models.inputs import (
    CategoryEncoder,
    make_encoder,
    regression_head,
)
from fullrank.nn.models.inputs import (
    batch_norm as make_batch_norm,
)
from fullrank.nn.models.virtual_node import VirtualNode
from fullrank.nn.neighborhoods import Pairs, as_edge_list, edge_columns
from fullrank.nn.resolver import make_conv

OGB_ATOM_DIMS = (119, 5, 12, 12, 10, 6, 6, 2, 2)
OGB_BOND_DIMS = (5, 6, 2)

HEADS = ("qm9", "qm9-paper", "tu", "ogb")
READOUTS = ("sum", "mean", "max")


class Standardize(torch.nn.Module):
    """Standardises columns to mean 0 and standard deviation 1 on the training graphs.

    Constant columns become 0; values far outside the training range are clipped. The
    statistics are saved with the weights.
    """

    LARGEST = 6.0

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("std", torch.ones(channels))
        self.mean: Tensor
        self.std: Tensor

    def forward(self, x: Tensor) -> Tensor:
        known = self.std > 0
        scaled = (x - self.mean) / torch.where(known, self.std, 1)
        return torch.where(known, scaled, 0).clamp(-self.LARGEST, self.LARGEST)


_ENCODERS = (
    CategoryEncoder,
    torch.nn.ModuleList,
    torch.nn.Embedding,
    torch.nn.Linear,
)
_NORMS = (torch.nn.ModuleList, BatchNorm, torch.nn.BatchNorm1d, torch.nn.Identity)


class GraphNet(torch.nn.Module):
    r"""A network for graph-level prediction.

    .. math::
        \mathbf{h}^{(0)}_v &= \mathrm{norm}(\mathrm{encode}(\mathbf{x}_v)), \qquad
        \mathbf{h}^{(t)} = \mathrm{dropout}(\mathrm{norm}(\mathrm{ReLU}(
        \mathrm{conv}^{(t)}(\mathbf{h}^{(t-1)}))))

        \mathbf{y} &= \mathrm{head}(\mathrm{norm}(\mathrm{readout}_v
        [\mathbf{h}^{(1)}_v \Vert \dots \Vert \mathbf{h}^{(L)}_v]) \Vert \mathbf{d})

    where :math:`\mathbf{d}` are the descriptors of the graph, if any.

    Every readout works dimension by dimension, so layers may be concatenated before or
    after it. The paper's ExpC, CombC and GIN-0 end in a ReLU, so the additional ReLU
    does not change them; it makes networks of other layers nonlinear.

    Args:
        in_channels: Number of node features; a sequence of category counts (such as
            :data:`OGB_ATOM_DIMS`) if ``x`` holds categories.
        hidden_channels: Width of every layer.
        out_channels: Number of predictions per graph.
        num_layers: :math:`L`, the number of layers; with 0 the readout is of the
            encoded nodes.
        conv: A registered name, see :func:`fullrank.nn.conv_names`.
        conv_args: Further arguments of the convolution, such as
            ``{"num_aggregators": 16}``.
        edge_dim: Number of edge features; a sequence of category counts (such as
            :data:`OGB_BOND_DIMS`) if ``edge_attr`` holds categories; or :obj:`None`.
        batch_norm: Whether to apply batch norm after each layer.
        norm_encoder: Whether to apply batch norm after the encoder.
        norm_readout: Whether to apply batch norm after the readout.
        dropout: Dropout probability in the head; ``"qm9"`` has none.
        layer_dropout: Dropout probability after each layer; 0 in the paper's networks.
        jumping_knowledge: Whether the readout is of all layers or only of the last one.
        readout: ``"sum"``, ``"mean"`` or ``"max"`` over the nodes of a graph.
        head: ``"qm9"`` (three linear layers with ELU), ``"qm9-paper"`` (the same with
            the authors' widths, :math:`L d \to \lceil L/2 \rceil d \to d \to` out),
            ``"tu"`` (two with ReLU and dropout) or ``"ogb"`` (dropout before the
            readout, one after it).
        virtual_node: Whether to add a node that is adjacent to all others to each
            graph, see :class:`~fullrank.nn.models.virtual_node.VirtualNode`.
        num_descriptors: Number of graph-level ``descriptors`` that the head reads.
        merge_equal_nodes: Whether to compute nodes that the layers cannot distinguish
            only once (see :mod:`fullrank.nn.merge`). This is exact. It applies on a
            CPU, to features that do not require gradients and layers without hooks,
            with any backend except ``"plain"``.
    """

    def __init__(
        self,
        in_channels: int | Sequence[int],
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        *,
        conv: str = "expc",
        conv_args: dict[str, Any] | None = None,
        edge_dim: EdgeDim = None,
        batch_norm: bool = False,
        norm_encoder: bool = False,
        norm_readout: bool = False,
        dropout: float = 0.0,
        layer_dropout: float = 0.0,
        jumping_knowledge: bool = True,
        readout: str = "sum",
        head: str = "ogb",
        virtual_node: bool = False,
        num_descriptors: int = 0,
        merge_equal_nodes: bool = True,
    ) -> None:
        super().__init__()
        if num_layers < 0:
            raise ConfigError(f"num_layers must be at least 0, got {num_layers}")
        for name, p in (("dropout", dropout), ("layer_dropout", layer_dropout)):
            if not 0 <= p < 1:
                raise ConfigError(f"{name} must be in [0, 1), got {p}")
        if readout not in READOUTS:
            raise ConfigError(
                f"there is no readout {readout!r} (known: {', '.join(READOUTS)})"
            )
        self.edge_dim = edge_dim
        self.layer_dropout = layer_dropout
        self.readout_dropout = dropout if head == "ogb" else 0.0
        self.jumping_knowledge = jumping_knowledge
        self.merge_equal_nodes = merge_equal_nodes
        self.encoder = make_encoder(in_channels, hidden_channels)
        self.norm_encoder = _norm(hidden_channels, norm_encoder)
        columns = None if edge_dim is None else num_columns(edge_dim)
        self.convs = torch.nn.ModuleList(
            make_conv(
                conv, hidden_channels, hidden_channels, columns, **conv_args or {}
            )
            for _ in range(num_layers)
        )
        self.norms = torch.nn.ModuleList(
            _norm(hidden_channels, batch_norm) for _ in range(num_layers)
        )
        self.virtual = (
            VirtualNode(hidden_channels, num_layers) if virtual_node else None
        )
        self.readout: Aggregation = aggregation_resolver(readout)
        read = hidden_channels * (num_layers or 1 if jumping_knowledge else 1)
        self.norm_readout = _norm(read, norm_readout)
        self.standardize = Standardize(num_descriptors) if num_descriptors else None
        read += num_descriptors
        self.head = _make_head(head, read, hidden_channels, out_channels, dropout)

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the network."""
        for child in self.children():
            reset(child)

    def forward(
        self,
        x: Tensor | BaseData,
        edge_index: Adj | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        edge_color: Tensor | None = None,
        node_color: Tensor | None = None,
        descriptors: Tensor | None = None,
    ) -> Tensor:
        """Predict for each graph.

        Args:
            x: Node features; or a PyG ``Data`` or ``Batch`` that contains all
                arguments.
            edge_index: The edges, in any of PyG's formats.
            edge_attr: Edge features; requires ``edge_dim``.
            batch: The graph of each node; one graph if :obj:`None`.
            batch_size: Number of graphs, if known.
            edge_color: Structural colours of the edges, for coefficients that read
                them.
            node_color: Structural colours of the nodes.
            descriptors: Descriptors of each graph, :math:`(|\\mathcal{G}|,
                num\\_descriptors)`.

        Returns:
            :math:`(|\\mathcal{G}|, out)`.
        """
        if isinstance(x, BaseData):
            descriptors = x.get("descriptors")
        read = self.embed(
            x, edge_index, edge_attr, batch, batch_size, edge_color, node_color
        )
        return self.head(self.join(read, descriptors))

    def join(self, read: Tensor, descriptors: Tensor | None) -> Tensor:
        """Return the head's input: the readout, and the standardised descriptors."""
        if self.standardize is None:
            return read
        if descriptors is None:
            raise DataError(
                f"descriptors are missing: the network needs "
                f"{self.standardize.mean.numel()} for each graph"
            )
        return torch.cat([read, self.standardize(descriptors.to(read.dtype))], dim=1)

    def embed(
        self,
        x: Tensor | BaseData | None,
        edge_index: Adj | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        edge_color: Tensor | None = None,
        node_color: Tensor | None = None,
        twins: Twins | None = None,
    ) -> Tensor:
        """Return the readout of each graph.

        The arguments are those of `forward`. If the twins of the graphs are known (see
        ``fullrank.nn.merge.find_twins``), merging equal nodes is faster. A batch has
        them as ``twin_offset``, ``twin_edge_count`` and ``twin_key``.
        """
        if isinstance(x, BaseData):
            return self.embed(**_inputs_of(x, self.edge_dim))
        if x is None:
            raise DataError(
                "x is missing: add node features first, for example with "
                "torch_geometric.transforms.OneHotDegree"
            )
        if edge_index is None:
            raise DataError("edge_index is missing: pass x and edge_index, or a Data")
        if is_sparse(edge_index):
            src, dst, value = as_edge_list(edge_index, "source_to_target")
            edge_index = torch.stack([src, dst])
            if self.edge_dim is not None and edge_attr is None:
                edge_attr = value
        if self.edge_dim is not None:
            if edge_attr is None:
                raise DataError(
                    f"edge_attr is missing: the network has edge_dim={self.edge_dim}"
                )
            edge_attr = edge_columns(edge_attr, self.edge_dim)
        colors = {"edge_color": edge_color, "node_color": node_color}
        equal = None
        if edge_color is None and node_color is None and self._may_merge():
            distinct = self._distinct_edges
            equal = EqualNodes.find(x, edge_index, edge_attr, distinct, twins)
        h = self.encoder(x) if equal is None else equal.encode(self.encoder, x)
        h = self.norm_encoder(h)
        if edge_attr is not None:
            edge_attr = edge_attr.to(h.dtype)
        if batch is None:
            batch, batch_size = edge_index.new_zeros(h.size(0)), 1
        layers = [] if len(self.convs) else [h]
        edges: Adj | Pairs = edge_index
        g = None
        for conv, norm in zip(self.convs, self.norms, strict=True):
            if self.virtual is not None:
                if batch_size is None:
                    batch_size = int(batch.max()) + 1
                h, g = self.virtual(len(layers), h, g, batch, batch_size)
            out = None if equal is None else equal.convolve(conv, h)
            if out is None:
                equal, extra = None, {}
                if isinstance(conv, RankConv):
                    extra, edges = colors, conv.pairs(h, edges)  # once for all layers
                out = conv(
                    h, edges, *([] if edge_attr is None else [edge_attr]), **extra
                )
            h = norm(out.relu())
            h = self._drop(h, self.layer_dropout)
            layers.append(h)
        read = torch.cat(layers, dim=1) if self.jumping_knowledge else layers[-1]
        read = self._drop(read, self.readout_dropout)
        return self.norm_readout(self.readout(read, batch, dim_size=batch_size))

    @property
    def reads_twins(self) -> bool:
        """Whether the network runs faster if twins are known."""
        return self._may_merge() and not self._distinct_edges

    @property
    def _distinct_edges(self) -> bool:
        return isinstance(self.edge_dim, int)

    def _may_merge(self) -> bool:
        """Whether there may be equal nodes: dropout makes them different, and
        real-valued edge features leave hardly any after the first layer."""
        dropped = self.training and self.layer_dropout
        first_projects = any(map(projects_nodes, self.convs[:1]))
        return (
            self.merge_equal_nodes
            and self.virtual is None
            and not is_plain()
            and not dropped
            and (not self._distinct_edges or first_projects)
            and all(map(keeps_equal_nodes_equal, self.convs))
            and consists_of(self.encoder, *_ENCODERS)
            and consists_of(self.norm_encoder, *_NORMS)
            and consists_of(self.norms, *_NORMS)
        )

    def _drop(self, x: Tensor, p: float) -> Tensor:
        """Dropout with a mask from ``torch.rand``, which on a CPU is three times as
        fast as ``torch.bernoulli`` in ``F.dropout``."""
        if not (self.training and p):
            return x
        dtype = torch.promote_types(x.dtype, torch.float32)  # half is too coarse
        return x * (torch.rand_like(x, dtype=dtype) >= p).to(x.dtype).div_(1 - p)


def _inputs_of(data: BaseData, edge_dim: EdgeDim) -> dict[str, Any]:
    batch, twins = data.get("batch"), None
    if "twin_offset" in data:
        twins = Twins(data.twin_offset, data.twin_edge_count, data.twin_key)
    return {
        "x": data.x,
        "edge_index": data.get("edge_index", data.get("adj_t")),
        "edge_attr": None if edge_dim is None else data.get("edge_attr"),
        "batch": batch,
        "batch_size": None if batch is None else data.num_graphs,
        "edge_color": data.get("edge_color"),
        "node_color": data.get("node_color"),
        "twins": twins,
    }


def _norm(channels: int, wanted: bool) -> torch.nn.Module:
    return make_batch_norm(channels) if wanted else torch.nn.Identity()


def _make_head(
    name: str, in_channels: int, hidden: int, out_channels: int, dropout: float
) -> torch.nn.Sequential:
    nn = torch.nn
    if name == "qm9":
        return regression_head(in_channels, hidden, hidden, out_channels)
    if name == "qm9-paper":
        layers = in_channels // hidden
        wide = ceil(layers / 2) * hidden
        return regression_head(in_channels, wide, hidden, out_channels)
    if name == "tu":
        return nn.Sequential(
            nn.Linear(in_channels, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, out_channels),
        )
    if name == "ogb":
        return nn.Sequential(nn.Linear(in_channels, out_channels))
    raise ConfigError(f"there is no head {name!r} (known: {', '.join(HEADS)})")
