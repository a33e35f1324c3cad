r"""A layer as an aggregator of the neighbourhood of one node.

Where a layer is a function of a known aggregator, the result says so by its structure,
which is what proofs are made of: GCN is a map after nMEAN, GIN-0 an MLP after SUM.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv, GINConv
from torch_geometric.nn.aggr import SumAggregation

from fullrank.lab.precision import frozen_copy
from fullrank.lab.probe.neighborhood import Neighborhood
from fullrank.lab.theory.aggregators import (
    MEAN,
    NMEAN,
    SUM,
    After,
    Aggregator,
    Multiset,
    Product,
)
from fullrank.nn import (
    Coefficients,
    ExpandingConv,
    MeanCoefficients,
    Neighborhoods,
    OneCoefficients,
    Stack,
    SymmetricNormCoefficients,
)

_KNOWN_COEFFICIENTS: dict[type[Coefficients], Aggregator] = {
    OneCoefficients: SUM,
    MeanCoefficients: MEAN,
    SymmetricNormCoefficients: NMEAN,
}


@dataclass(frozen=True, repr=False)
class NeighborhoodAggregator(Aggregator):
    """A function of a centre, its neighbours and their degrees.

    Args:
        function: From a neighbourhood in float64 to a tensor.
        name: Its name.
        uses_degrees: Whether it reads the degrees.
    """

    function: Callable[[Neighborhood], Tensor]
    name: str
    uses_degrees: bool
    reads_center = True

    def encode(self, x: Multiset) -> tuple:
        degrees = None if x.degrees is None else torch.tensor(x.degrees)
        rows = torch.from_numpy(x.numpy())
        return tuple(self.function(Neighborhood(rows, degrees)).flatten().tolist())


def as_aggregator(layer: torch.nn.Module, name: str | None = None) -> Aggregator:
    """The function of a layer from the neighbourhood of a node to its new features.

    Args:
        layer: Any layer called as ``layer(x, edge_index)``.
        name: Its name, by default that of the class.
    """
    name = name or type(layer).__name__
    layer = frozen_copy(layer)
    if isinstance(layer, GCNConv) and _is_plain_gcn(layer):
        return After(lambda r: _affine(layer, r), NMEAN, name=name)
    if isinstance(layer, GINConv) and float(layer.eps) == 0:
        return After(layer.nn, SUM, name=name)
    if isinstance(layer, ExpandingConv) and _sums_before_its_mlp(layer):
        return After(layer.mlp, coefficient_aggregator(layer.coefficients), name=name)
    return NeighborhoodAggregator(
        lambda local: _center_output(layer, local), name, True
    )


def coefficient_aggregator(coefficients: Coefficients) -> Aggregator:
    r"""The aggregator :math:`\sum_u m_{uv} h_u^{\top}` of a coefficient module."""
    if isinstance(coefficients, Stack):
        parts = (part for part in coefficients.parts if isinstance(part, Coefficients))
        return Product(tuple(map(coefficient_aggregator, parts)))
    if coefficients.num_aggregators == 1 and type(coefficients) in _KNOWN_COEFFICIENTS:
        return _KNOWN_COEFFICIENTS[type(coefficients)]
    frozen = frozen_copy(coefficients)

    def aggregate(local: Neighborhood) -> Tensor:
        n = len(local)
        pairs = Neighborhoods(
            local.x, local.x[:1], torch.arange(n), torch.zeros(n, dtype=torch.long)
        )
        return frozen(pairs).T @ local.x  # [s, d]

    name = f"Σ m h of {type(coefficients).__name__}"
    return NeighborhoodAggregator(aggregate, name, uses_degrees=False)


def _is_plain_gcn(layer: GCNConv) -> bool:
    return layer.normalize and layer.add_self_loops and not layer.improved


def _affine(layer: GCNConv, aggregated: Tensor) -> Tensor:
    out = layer.lin(aggregated)
    return out if layer.bias is None else out + layer.bias


def _sums_before_its_mlp(layer: ExpandingConv) -> bool:
    sums = isinstance(layer.aggr_module, SumAggregation)
    return sums and layer.self_loops and not layer.re_sum


def _center_output(layer: torch.nn.Module, local: Neighborhood) -> Tensor:
    graph = local.graph()
    return layer(graph.x, graph.edge_index)[0]
