import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation

from fullrank.nn import functional
from fullrank.nn.coefficients.base import Coefficients, as_pair
from fullrank.nn.coefficients.tanh import TanhCoefficients
from fullrank.nn.conv.base import (
    Channels,
    EdgeDim,
    MLPWeights,
    RankConv,
    refuse_init,
)
from fullrank.nn.kernels import dispatch
from fullrank.nn.kernels.dispatch import is_linear, is_replaceable
from fullrank.nn.kernels.sums import combine_mlp_sum
from fullrank.nn.neighborhoods import Destinations, Neighborhoods


class CombConv(RankConv):
    r"""The combination convolution (CombC) from `"Breaking the Expressive Bottlenecks
    of Graph Neural Networks" <https://arxiv.org/abs/2012.07219>`_.

    .. math::
        \mathbf{m}_{uv} &= \tanh(\mathbf{W}[\mathbf{h}_v \Vert \mathbf{h}_u] +
        \mathbf{b}) \in \mathbb{R}^d

        \mathbf{h}'_v &= \sum_{u \in \mathcal{N}(v)}
        \mathrm{MLP}(\mathbf{m}_{uv} \odot \mathbf{h}_u)

    Each dimension of the features has an aggregator of its own.
    :math:`\mathcal{N}(v)` contains :math:`v`; Re-SUM, edge features and self-loops are
    as in :class:`~fullrank.nn.ExpandingConv`.

    Args:
        in_channels: Size of each input sample; a pair ``(source, destination)`` for
            bipartite graphs; ``-1`` to derive it from the first input.
        out_channels: Size of each output sample.
        re_sum: Whether to apply the MLP, which ends in a ReLU, before the sum.
        edge_dim: As in :class:`~fullrank.nn.ExpandingConv`.
        coefficients: Any :class:`~fullrank.nn.Coefficients` with one coefficient per
            source feature, by default the paper's
            :class:`~fullrank.nn.TanhCoefficients`. The kernels support only these; with
            any others, the layer uses the plain formula.
        init: As in :class:`~fullrank.nn.ExpandingConv`.
        mlp: Any module from :math:`d` to :math:`d'` features.
        aggr: As in :class:`~fullrank.nn.ExpandingConv`.
        activation: The last activation of the default MLP.
        add_self_loops: As in :class:`~fullrank.nn.ExpandingConv`.
        bipartite_self_loops: As in :class:`~fullrank.nn.ExpandingConv`.
        **kwargs: Additional arguments of
            :class:`~torch_geometric.nn.conv.MessagePassing`.

    Shapes:
        As in :class:`~fullrank.nn.ExpandingConv`.
    """

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int,
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
        width, _ = as_pair(in_channels)
        if coefficients is None:
            coefficients = TanhCoefficients(in_channels, width, init)
        else:
            refuse_init(init, coefficients)
        if width not in (-1, coefficients.num_aggregators):
            raise ValueError(
                f"CombConv needs one coefficient for each of the {width} source "
                f"features, got {coefficients!r} with {coefficients.num_aggregators}"
            )
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

    def expand(self, local: Neighborhoods, m: Tensor) -> Tensor:
        return functional.combine(m, local.neighbors())

    def pair_order(self) -> str | None:
        return "src" if self._has_kernel() else None

    def _has_kernel(self) -> bool:
        return (
            self.sums()
            and (not self.re_sum or self.paper_mlp() is not None)
            and is_replaceable(self.coefficients, TanhCoefficients)
            and is_linear(self.coefficients.lin)
        )

    def sum_by_kernel(self, local: Neighborhoods) -> Tensor:
        if not self._has_kernel():
            return self.sum_by_definition(local)
        out = self._combine(local, self.paper_mlp() if self.re_sum else None)
        return out if self.re_sum else self.mlp(out)

    def _combine(self, local: Neighborhoods, mlp: MLPWeights | None) -> Tensor:
        f_local = self.coefficients
        assert isinstance(f_local, TanhCoefficients)
        weight_dst, weight_src = f_local.split(local)
        a_edge = x_edge = None
        if local.edge_weight is not None:
            x_edge = local.edge_weight.t()
            a_edge = x_edge @ weight_src.t()
        a_dst = torch.addmm(f_local.lin.bias, local.x_dst, weight_dst.t())
        destinations = Destinations(local)
        out = dispatch.run(
            combine_mlp_sum,
            destinations.take(a_dst),
            local.x_src @ weight_src.t(),
            local.x_src,
            local.edge_attr,
            a_edge,
            x_edge,
            *(mlp or (None,) * 4),
            local.src,
            destinations.of_pair,
            destinations.size,
            local.ptr,
        )
        return destinations.add_up(out)
