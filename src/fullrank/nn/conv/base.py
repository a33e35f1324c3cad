"""Base class of ExpandingConv and CombConv: reading the graph, and the three stages."""

from collections.abc import Sequence
from typing import Any, Optional

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation, MultiAggregation, SumAggregation
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver
from torch_geometric.typing import Adj, OptTensor, Size

from fullrank.nn import functional
from fullrank.nn.coefficients.base import Coefficients, as_pair
from fullrank.nn.coefficients.tanh import TanhCoefficients
from fullrank.nn.kernels.dispatch import (
    is_exporting,
    is_linear,
    is_plain,
    is_replaceable,
    needs_propagate,
    overrides_propagate,
    reads_aggregates,
)
from fullrank.nn.lazy_linear import LazyLinear, materialize
from fullrank.nn.neighborhoods import (
    Layout,
    Neighborhoods,
    Pairs,
    edge_columns,
    is_abstract,
    read_neighborhoods,
)

Channels = int | tuple[int, int]
EdgeDim = int | Sequence[int] | None
Features = Tensor | tuple[Tensor, Tensor]
MLPWeights = tuple[Tensor, Tensor, Tensor, Tensor]


class RankConv(MessagePassing):
    r"""Base class of the layers that aggregate with coefficients
    :math:`\mathbf{m}_{uv}`.

    It reads the graph (formats, self-loops, edge features), checks the input and runs
    the three stages: the coefficients, the sum, the MLP. A subclass defines how
    coefficients are applied to features, in :meth:`expand` (the definition, for each
    pair) and in :meth:`sum_by_kernel` (the whole sum, fast);
    :class:`fullrank.nn.backend` selects between them. PyG's :meth:`propagate` runs for
    explainers, for hooks on propagate, message or aggregate, and for subclasses that
    override :meth:`message` (of ``messages``, a row for each pair), :meth:`aggregate`
    or :meth:`update`. Explainers and hooks on messages see the messages of the edges,
    and the message of a node to itself is added to their sum. Other aggregations, hooks
    on aggregate and subclasses get all messages.
    """

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int,
        coefficients: Coefficients,
        mlp: torch.nn.Module | None,
        *,
        re_sum: bool,
        edge_dim: EdgeDim,
        aggr: str | Aggregation,
        activation: str | None,
        add_self_loops: bool,
        bipartite_self_loops: bool,
        **kwargs: Any,
    ) -> None:
        super().__init__(aggr=aggr, **kwargs)
        own = type(self).aggregate is not RankConv.aggregate
        for name, given, kind in (
            ("coefficients", coefficients, Coefficients),
            ("mlp", mlp, torch.nn.Module | None),
            ("aggr", self.aggr_module, Aggregation | None if own else Aggregation),
        ):
            if not isinstance(given, kind):
                raise ValueError(f"{name} cannot be {given!r}")
        combined = self.aggr_module
        if isinstance(combined, MultiAggregation) and combined.mode == "cat":
            raise ValueError(
                f"aggr={aggr} concatenates its results, which is wider than a message; "
                f"combine them by MultiAggregation(..., mode='sum')"
            )
        d_src, _ = as_pair(in_channels)
        if out_channels < 1:
            raise ValueError(f"out_channels must be at least 1, got {out_channels}")
        lazy = d_src == -1
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.re_sum = re_sum
        self.edge_dim = edge_dim
        # Not `add_self_loops`: HeteroConv refuses layers with that attribute on
        # bipartite edges, although these layers add none there.
        self.self_loops = add_self_loops
        self.bipartite_self_loops = bipartite_self_loops
        self.coefficients = coefficients
        self.edge_lin: Linear | None = None
        if edge_dim is not None:
            if edge_dim != -1 and num_columns(edge_dim) < 1:
                raise ValueError(f"edge_dim must be at least 1 or -1, got {edge_dim}")
            # Without a bias, so that added self-loops have no edge feature.
            if lazy or edge_dim == -1:
                self.edge_lin = LazyLinear(bias=False)
            else:
                self.edge_lin = Linear(num_columns(edge_dim), d_src, bias=False)
        if mlp is None:
            mlp = torch.nn.Sequential(
                Linear(-1 if lazy else self.expansion * d_src, out_channels),
                torch.nn.ReLU(),
                Linear(out_channels, out_channels),
                activation_resolver(activation) if activation else torch.nn.Identity(),
            )
        self.mlp = mlp

    @property
    def expansion(self) -> int:
        """Width of the MLP's input divided by the width of the features."""
        return 1

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        super().reset_parameters()
        for module in (self.coefficients, self.edge_lin, self.mlp):
            reset(module)

    def expand(self, local: Neighborhoods, m: Tensor) -> Tensor:
        """Apply the coefficients to the features of each pair."""
        raise NotImplementedError

    def sum_by_definition(self, local: Neighborhoods) -> Tensor:
        """Compute the layer's output by the paper's formula."""
        return functional.extract(
            self.expand(local, self.read_coefficients(local)),
            self.mlp,
            lambda messages: self.aggregate_pairs(messages, local),
            self.re_sum,
        )

    def sum_by_kernel(self, local: Neighborhoods) -> Tensor:
        """Compute the layer's output without a tensor of pairs x expansion."""
        raise NotImplementedError

    def pair_order(self) -> str | None:
        """The end by which :meth:`sum_by_kernel` needs the pairs to be sorted."""
        return None

    def forward(
        self,
        x: Features,
        edge_index: Adj | Pairs,
        edge_attr: Tensor | None = None,
        *,
        size: Size = None,
        edge_color: Tensor | None = None,
        node_color: Tensor | None = None,
    ) -> Tensor:
        r"""Run the layer.

        Args:
            x: Node features, or a pair ``(source, destination)`` for a bipartite
                graph.
            edge_index: The edges, in any of PyG's formats; or the result of
                :meth:`pairs`, to share it between layers.
            edge_attr: Edge features; requires ``edge_dim``.
            size: Number of sources and destinations; must match ``x``.
            edge_color: A structural colour for each edge, for coefficients that read
                it.
            node_color: A structural colour for each self-loop that the layer adds.

        Returns:
            The new features of the destinations.
        """
        pairs = self.pairs(x, edge_index)
        found = pairs.layout.num_src, pairs.layout.num_dst
        if size is not None and tuple(size) != found:
            raise ValueError(f"size is {tuple(size)}, but x has {found} rows")
        local = self.neighborhoods(
            x, pairs, edge_attr, edge_color=edge_color, node_color=node_color
        )
        if needs_propagate(self, RankConv):
            out = self._propagate(local, pairs)
        elif is_plain():
            out = self.sum_by_definition(local)
        else:
            out = self.sum_by_kernel(local)
        return out[: pairs.layout.num_dst]

    def pairs(self, x: Features, edge_index: Adj | Pairs) -> Pairs:
        """Return the pairs of a graph, which can be passed as ``edge_index`` to this
        layer and to all layers with the same options."""
        unsorted = needs_propagate(self, RankConv) or is_plain() or is_exporting()
        return self._read_pairs(x, edge_index, sort=not unsorted)

    def _read_pairs(self, x: Features, edge_index: Adj | Pairs, sort: bool) -> Pairs:
        x_src, x_dst = (x, x) if isinstance(x, Tensor) else x
        self._check_features(x_src, x_dst)
        first, _ = self.split_mlp()
        if isinstance(first, Linear):
            materialize(first, self.expansion * x_src.size(1))
        order = self.pair_order() if sort else None
        bipartite = not isinstance(x, Tensor)
        loops = self.bipartite_self_loops if bipartite else self.self_loops
        redirect = is_abstract(x_dst) or self._adds_own_terms()
        layout = Layout(
            x_src.size(0), x_dst.size(0), bipartite, loops, redirect, self.flow, order
        )
        return Pairs.read(edge_index, layout)

    def neighborhoods(
        self,
        x: Features,
        edge_index: Adj | Pairs,
        edge_attr: Tensor | None = None,
        **colors,
    ) -> Neighborhoods:
        """Return the pairs ``(v, u)`` that the layer aggregates over."""
        pairs = edge_index
        if not isinstance(pairs, Pairs):
            pairs = self._read_pairs(x, edge_index, sort=False)
        x_src = x if isinstance(x, Tensor) else x[0]
        if edge_attr is None and self.edge_lin is not None:
            edge_attr = pairs.value
        columns = self._encode_edges(edge_attr, pairs.num_edges, x_src)
        return read_neighborhoods(x, pairs, *columns, **colors)

    def messages(
        self, x: Features, edge_index: Adj, edge_attr: Tensor | None = None, **colors
    ) -> tuple[Tensor, Neighborhoods]:
        """Return the messages that are aggregated, and their pairs.

        With Re-SUM messages are the MLP's outputs, without it its inputs.
        """
        local = self.neighborhoods(x, edge_index, edge_attr, **colors)
        return self.message_pairs(local, self.read_coefficients(local)), local

    def message_pairs(self, local: Neighborhoods, m: Tensor) -> Tensor:
        expanded = self.expand(local, m)
        return self.mlp(expanded) if self.re_sum else expanded

    def read_coefficients(self, local: Neighborhoods) -> Tensor:
        """Return the coefficients of all pairs, ``[E, s]``, after checking them."""
        m = self.coefficients(local)
        pairs, s = local.src.size(0), self.coefficients.num_aggregators
        if m.dim() != 2 or m.size(0) != pairs or m.size(1) != s:
            raise ValueError(
                f"{self.coefficients!r} must return a tensor of shape [{pairs}, {s}], "
                f"got {list(m.shape)}"
            )
        return m

    def split_mlp(self) -> tuple[Any, list[Any]]:
        """Return the first module of the MLP and the others."""
        if is_replaceable(self.mlp, torch.nn.Sequential) and len(self.mlp):
            first, *rest = self.mlp
            return first, rest
        return self.mlp, []

    def paper_mlp(self) -> MLPWeights | None:
        """Return the weights and biases if the MLP is linear, ReLU, linear, ReLU."""
        first, rest = self.split_mlp()
        if len(rest) != 3:
            return None
        relu, second, last = rest
        if not (is_linear(first) and is_linear(second)):
            return None
        if not all(is_replaceable(x, torch.nn.ReLU) for x in (relu, last)):
            return None
        weights = (first.weight, first.bias, second.weight, second.bias)
        return None if any(weight is None for weight in weights) else weights

    def sums(self) -> bool:
        """Whether the aggregation may be replaced by a sum."""
        return is_replaceable(self.aggr_module, SumAggregation)

    def aggregate_pairs(self, messages: Tensor, local: Neighborhoods) -> Tensor:
        if local.count is not None:
            messages = messages * local.count.to(messages.dtype)[:, None]
        return self.aggregate(messages, local.dst, dim_size=local.x_dst.size(0))

    def aggregate(
        self,
        inputs: Tensor,
        index: Tensor,
        ptr: OptTensor = None,
        dim_size: Optional[int] = None,  # noqa: UP045, PyG cannot read `int | None`
    ) -> Tensor:
        out = super().aggregate(inputs, index, ptr, dim_size)
        if out.size(-1) != inputs.size(-1):
            raise ValueError(
                f"aggr={self.aggr} returns {out.size(-1)} columns for messages of "
                f"{inputs.size(-1)}; use one that keeps the width"
            )
        return out

    def message(self, messages: Tensor) -> Tensor:
        return messages

    def _adds_own_terms(self) -> bool:
        """Whether PyG's propagate gets only the messages of edges, one per edge, as
        explainers and hooks expect; the others are added to its sum."""
        return (
            needs_propagate(self, RankConv)
            and not (overrides_propagate(self, RankConv) or reads_aggregates(self))
            and self.sums()
        )

    def _propagate(self, local: Neighborhoods, pairs: Pairs) -> Tensor:
        ends = torch.stack([local.src, local.dst])
        size = (local.x_src.size(0), local.x_dst.size(0))
        messages = self.message_pairs(local, self.read_coefficients(local))
        own = None
        if pairs.layout.self_loops and self._adds_own_terms():
            ends, edges = ends[:, : pairs.num_edges], pairs.num_edges
            messages, own = messages[:edges], messages[edges:]
        if self.flow == "target_to_source":
            ends, size = ends.flip(0), size[::-1]
        out = self.propagate(
            ends, messages=messages, x=(local.x_src, local.x_dst), size=size
        )
        if own is not None:
            out = out[: own.size(0)] + own
        return out if self.re_sum else self.mlp(out)

    def _check_features(self, x_src: Tensor, x_dst: Tensor | None) -> None:
        if x_dst is None:
            raise ValueError(
                f"{self} needs the features of the destinations, got (x, None)"
            )
        for x, width in zip((x_src, x_dst), as_pair(self.in_channels), strict=True):
            if x.dim() != 2 or (width != -1 and x.size(1) != width):
                raise ValueError(
                    f"x must have shape [num_nodes, {width}], got {list(x.shape)}"
                )
        if self.bipartite_self_loops and x_src.size(1) != x_dst.size(1):
            raise ValueError(
                f"bipartite_self_loops needs features of one width on both sides, "
                f"got {x_src.size(1)} and {x_dst.size(1)}"
            )

    def _encode_edges(
        self, edge_attr: Tensor | None, edges: int, x_src: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return edge features as columns, and the weight that encodes them."""
        if self.edge_lin is None or self.edge_dim is None:
            if edge_attr is not None:
                raise ValueError(
                    f"got edge_attr of shape {list(edge_attr.shape)}, but the layer "
                    f"has no edge_dim"
                )
            return None, None
        if edge_attr is None:
            raise ValueError(
                f"edge_attr is missing: the layer has edge_dim={self.edge_dim}"
            )
        if edge_attr.size(0) != edges:
            raise ValueError(
                f"edge_attr has {edge_attr.size(0)} rows for {edges} edges"
            )
        edge_dim = self.edge_dim
        if edge_dim == -1:  # or what the first input had
            edge_dim = self.edge_lin.in_channels
        columns = edge_columns(edge_attr, edge_dim).to(x_src.dtype)
        materialize(self.edge_lin, columns.size(1), x_src.size(1))
        if is_linear(self.edge_lin):
            return columns, self.edge_lin.weight
        encoded = self.edge_lin(columns)
        return encoded, encoded.new_ones(x_src.size(1)).diag()

    def _shown_options(self) -> dict[str, Any]:
        """Return the options that differ from their defaults."""
        shown: dict[str, Any] = {}
        if not self.re_sum:
            shown["re_sum"] = False
        if self.edge_dim is not None:
            shown["edge_dim"] = self.edge_dim
        if type(self.coefficients) is not TanhCoefficients:
            shown["coefficients"] = self.coefficients
        if type(self.aggr_module) is not SumAggregation:
            shown["aggr"] = self.aggr
        return shown

    def __repr__(self) -> str:
        options = [f", {name}={value}" for name, value in self._shown_options().items()]
        sizes = f"{self.in_channels}, {self.out_channels}"
        return f"{type(self).__name__}({sizes}{''.join(options)})"


def refuse_init(init: str, coefficients: Coefficients) -> None:
    """Refuse ``init`` if the coefficients are given."""
    if init != "paper":
        raise ValueError(
            f"init={init!r} applies to the default coefficients only, got "
            f"{coefficients!r}; initialise these instead, for example "
            f"TanhCoefficients(..., init={init!r})"
        )


def num_columns(edge_dim: int | Sequence[int]) -> int:
    """Number of columns of the encoded edge features."""
    return edge_dim if isinstance(edge_dim, int) else sum(edge_dim)
