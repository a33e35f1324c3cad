from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation, MeanAggregation

from fullrank.nn import functional
from fullrank.nn.coefficients.base import Coefficients
from fullrank.nn.coefficients.tanh import TanhCoefficients
from fullrank.nn.conv.base import Channels, EdgeDim, RankConv, refuse_init
from fullrank.nn.kernels import dispatch
from fullrank.nn.kernels.dispatch import is_linear, is_plain, is_replaceable
from fullrank.nn.kernels.sums import (
    expand_mlp_sum,
    outer_product_sum,
    weighted_edge_rows,
    weighted_rows,
)
from fullrank.nn.neighborhoods import Destinations, Neighborhoods


class ExpandingConv(RankConv):
    r"""The expanding convolution (ExpC-s) from `"Breaking the Expressive Bottlenecks of
    Graph Neural Networks" <https://arxiv.org/abs/2012.07219>`_.

    .. math::
        \mathbf{m}_{uv} &= \tanh(\mathbf{W}[\mathbf{h}_v \Vert \mathbf{h}_u] +
        \mathbf{b}) \in \mathbb{R}^s

        \mathbf{h}'_v &= \sum_{u \in \mathcal{N}(v)}
        \mathrm{MLP}(\mathrm{vec}(\mathbf{m}_{uv} \mathbf{h}_u^{\top}))

    :math:`\mathcal{N}(v)` contains :math:`v`. The entries of :math:`\mathrm{vec}` are
    laid out aggregator by aggregator: :math:`m_k h_i` is entry :math:`k d + i`. Without
    Re-SUM (ExpC*) the MLP is applied to the sum instead of to the summands. With edge
    features, :math:`\mathbf{h}_u + \mathbf{W}_e \mathbf{e}_{uv}` replaces
    :math:`\mathbf{h}_u` in both lines; the self-loops that the layer adds have none.

    Cost: the first linear map of the MLP is applied once per node, never per edge, and
    no tensor of edges times :math:`s d` is built. Modules that have hooks or override
    ``forward`` are called, at the cost of the plain formula; see
    :class:`fullrank.nn.backend`.

    Args:
        in_channels: Size of each input sample; a pair ``(source, destination)`` for
            bipartite graphs; ``-1`` to derive it from the first input.
        out_channels: Size of each output sample.
        num_aggregators: :math:`s`, the number of aggregators. Ignored if
            ``coefficients`` is given.
        re_sum: Whether to apply the MLP, which ends in a ReLU, before the sum.
        edge_dim: Number of edge features, or ``-1`` to derive it from the first input;
            a sequence of category counts (such as ``(5, 6, 2)`` for OGB's bonds) if
            ``edge_attr`` holds categories.
        coefficients: Any :class:`~fullrank.nn.Coefficients`, by default the paper's
            :class:`~fullrank.nn.TanhCoefficients`.
        init: Initialisation of the default coefficients: ``"paper"``, or
            ``"balanced"``, with which the variance of the messages is comparable to
            GIN's at any scale of the input (derived in
            :class:`~fullrank.nn.TanhCoefficients`).
        mlp: Any module from :math:`s d` to :math:`d'` features, by default two linear
            layers with a ReLU between them and ``activation`` at the end.
        aggr: Any of PyG's aggregations that keeps the width of the messages.
        activation: The last activation of the default MLP.
        add_self_loops: Whether :math:`\mathcal{N}(v)` contains :math:`v`; self-loops of
            the graph are removed first, together with their features. Bipartite graphs
            have no self-loops to remove or add.
        bipartite_self_loops: Whether each destination of a bipartite graph is its own
            neighbour; both sides must have features of the same width.
        **kwargs: Additional arguments of
            :class:`~torch_geometric.nn.conv.MessagePassing`.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, d)` or
          :math:`((|\mathcal{V}_s|, d_s), (|\mathcal{V}_t|, d_t))`, edge indices
          :math:`(2, |\mathcal{E}|)`, edge features :math:`(|\mathcal{E}|, D)`
          *(optional)*
        - **output:** :math:`(|\mathcal{V}|, d')` or :math:`(|\mathcal{V}_t|, d')`
    """

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int,
        num_aggregators: int = 4,
        *,
        re_sum: bool = True,
        edge_dim: EdgeDim = None,
        coefficients: Coefficients | None = None,
        init: str = "paper",
        mlp: torch.nn.Module | None = None,
        aggr: str | Aggregation = "sum",
        activation: str | None = "relu",
        add_self_loops: bool = True,
        bipartite_self_loops: bool = False,
        **kwargs,
    ) -> None:
        if coefficients is None:
            coefficients = TanhCoefficients(in_channels, num_aggregators, init)
        else:
            refuse_init(init, coefficients)
        super().__init__(
            in_channels,
            out_channels,
            coefficients,
            mlp,
            re_sum=re_sum,
            edge_dim=edge_dim,
            aggr=aggr,
            activation=activation,
            add_self_loops=add_self_loops,
            bipartite_self_loops=bipartite_self_loops,
            **kwargs,
        )

    @property
    def num_aggregators(self) -> int:
        return self.coefficients.num_aggregators

    @property
    def expansion(self) -> int:
        return self.num_aggregators

    def expand(self, local: Neighborhoods, m: Tensor) -> Tensor:
        return functional.expand(m, local.neighbors())

    def message_pairs(self, local: Neighborhoods, m: Tensor) -> Tensor:
        first, rest = self.split_mlp()
        if is_plain() or not (self.re_sum and is_linear(first)):
            return super().message_pairs(local, m)
        # W1 vec(m h^T) = sum_k m_k (W1_k h): multiply per node, weight per pair.
        values = self._project(local, first.weight)
        hidden = dispatch.run(weighted_rows, values, m, local.src)
        if local.edge_attr is not None:
            weight = self._project_edges(local, first.weight)
            hidden = hidden + weighted_edge_rows(m, local.edge_attr, weight)
        if first.bias is not None:
            hidden = hidden + first.bias
        for module in rest:
            hidden = module(hidden)
        return hidden

    def pair_order(self) -> str | None:
        if self.re_sum:
            return "src" if self.sums() and self.paper_mlp() is not None else None
        return "dst" if self.sums() or self._means() else None

    def sum_by_kernel(self, local: Neighborhoods) -> Tensor:
        m = self.read_coefficients(local)
        if not self.re_sum:
            return self.mlp(self._aggregate_expanded(local, m))
        weights = self.paper_mlp() if self.sums() else None
        if weights is None:
            return self.aggregate_pairs(self.message_pairs(local, m), local)
        weight1, bias1, weight2, bias2 = weights
        edge_weight = None
        if local.edge_attr is not None:
            edge_weight = self._project_edges(local, weight1)
        destinations = Destinations(local)
        out = dispatch.run(
            expand_mlp_sum,
            self._project(local, weight1),
            m,
            local.edge_attr,
            edge_weight,
            bias1,
            weight2,
            bias2,
            local.src,
            destinations.of_pair,
            destinations.size,
            local.ptr,
        )
        return destinations.add_up(out)

    def _project(self, local: Neighborhoods, weight: Tensor) -> Tensor:
        """Apply the first linear map to each node: ``[N, s, h]``."""
        h, s = weight.size(0), self.num_aggregators
        stacked = weight.view(h, s, -1).transpose(0, 1).reshape(s * h, -1)
        return (local.x_src @ stacked.t()).view(-1, s, h)

    def _project_edges(self, local: Neighborhoods, weight: Tensor) -> Tensor:
        """Fold the edge encoder into the first linear map: ``[s, q, h]``."""
        assert local.edge_weight is not None
        split = weight.view(weight.size(0), self.num_aggregators, -1)  # [h, s, d]
        return (split @ local.edge_weight).permute(1, 2, 0).contiguous()

    def _means(self) -> bool:
        return is_replaceable(self.aggr_module, MeanAggregation)

    def _aggregate_expanded(self, local: Neighborhoods, m: Tensor) -> Tensor:
        if not (self.sums() or self._means()):
            return self.aggregate_pairs(self.expand(local, m), local)
        if local.count is not None:
            m = m * local.count.to(m.dtype)[:, None]

        def add_up(rows: Tensor, index: Tensor) -> Tensor:
            size = local.x_dst.size(0)
            return dispatch.run(
                outer_product_sum, rows, m, index, local.dst, size, local.ptr
            )

        out = add_up(local.x_src, local.src)  # [N, s, d]
        if local.edge_attr is not None and local.edge_weight is not None:
            pairs = torch.arange(local.src.size(0), device=local.src.device)
            edges = add_up(local.edge_attr, pairs)  # [N, s, q]
            out = out + edges @ local.edge_weight.t()
        out = out.flatten(1)
        return out / local.sizes().clamp(min=1)[:, None] if self._means() else out

    def _shown_options(self) -> dict[str, Any]:
        return {"num_aggregators": self.num_aggregators, **super()._shown_options()}
