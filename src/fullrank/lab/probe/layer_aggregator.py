r"""A layer as an aggregator of the neighbourhood of one node.

All statements about a layer are based on running it. If it is known to be a function of
a simple aggregator, such as GCN of nMEAN or GIN-0 of SUM, proofs use this structure,
but only if the layer agrees with it on random neighbourhoods.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.nn import GCNConv, GINConv, Linear
from torch_geometric.nn.aggr import SumAggregation

from fullrank.errors import ConfigError
from fullrank.lab.precision import frozen_copy
from fullrank.lab.probe.neighborhood import Neighborhood, batch_of
from fullrank.lab.running import Runner, centers, runner_of
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
    OneCoefficients,
    Stack,
    SymmetricNormCoefficients,
    ThreeStageGAT,
    ThreeStageGCN,
    ThreeStageGIN0,
)
from fullrank.nn.neighborhoods import Layout, Pairs, read_neighborhoods

AGREE = 1e-8
EXAMPLES = 12
LARGE = 40
WIDEST = 256

_KNOWN_COEFFICIENTS: dict[type[Coefficients], Aggregator] = {
    OneCoefficients: SUM,
    MeanCoefficients: MEAN,
    SymmetricNormCoefficients: NMEAN,
}
_EXPANDING = (ExpandingConv, ThreeStageGAT, ThreeStageGCN, ThreeStageGIN0)


@dataclass(frozen=True, repr=False)
class NeighborhoodAggregator(Aggregator):
    """A function of a centre, its neighbours and their degrees.

    Args:
        function: Maps a batch of stars in float64 to a row for each.
        name: Its name.
        dim: Width of its input rows.
        smallest: 2 if it does not run on a node without neighbours.
        structure: The same function in terms of simpler aggregators, if known and
            verified on examples.
    """

    function: Callable[[Batch], Tensor]
    name: str
    dim: int = 1
    smallest: int = 1
    structure: Aggregator | None = None
    uses_degrees = True
    reads_center = True

    def encode(self, x: Multiset) -> tuple:
        return self.encode_all([x])[0]

    @torch.no_grad()
    def encode_all(self, multisets: Sequence[Multiset]) -> list[tuple]:
        stars = batch_of([_neighborhood(x) for x in multisets])
        return [tuple(row) for row in self.function(stars).tolist()]


def _neighborhood(x: Multiset) -> Neighborhood:
    degrees = None if x.degrees is None else torch.tensor(x.degrees)
    return Neighborhood(torch.from_numpy(x.numpy()), degrees)


def as_aggregator(
    layer: torch.nn.Module, name: str | None = None, call: Runner | None = None
) -> Aggregator:
    """The function of a layer from the neighbourhood of a node to its new features.

    Args:
        layer: Any layer called as ``layer(x, edge_index)``, or a model called with a
            graph.
        name: Its name, by default that of the class.
        call: Runs the layer on a graph, ``call(layer, data)``. With it, nothing is
            proved about the layer.

    Raises:
        ConfigError: If the layer is not a function of the neighbourhood: if its output
            is random, or depends on the order of the neighbours.
    """
    name = name or type(layer).__name__
    run = runner_of(layer, call)
    layer = frozen_copy(layer)

    def function(stars: Batch) -> Tensor:
        return centers(run(layer, stars), stars)

    aggregator = _sized(NeighborhoodAggregator(function, name), layer)
    _check_is_function(aggregator)
    structure = None if call is not None else _structure(layer, name)
    return _with_structure(aggregator, structure)


def coefficient_aggregator(coefficients: Coefficients) -> Aggregator:
    r"""The aggregator :math:`\sum_u m_{uv} h_u^{\top}` of a coefficient module."""
    frozen = frozen_copy(coefficients)

    def aggregate(stars: Batch) -> Tensor:
        layout = Layout(stars.num_nodes, stars.num_nodes)
        local = read_neighborhoods(stars.x, Pairs.read(stars.edge_index, layout))
        expanded = frozen(local)[:, :, None] * local.neighbors()[:, None, :]
        sums = expanded.new_zeros(stars.num_nodes, *expanded.shape[1:])
        return centers(sums.index_add(0, local.dst, expanded), stars)  # [B, s * d]

    name = f"Σ m h of {type(coefficients).__name__}"
    aggregator = _sized(NeighborhoodAggregator(aggregate, name), coefficients)
    return _with_structure(aggregator, _known(coefficients))


def _known(coefficients: Coefficients) -> Aggregator | None:
    if not _is_unmodified(coefficients):
        return None
    if type(coefficients) is Stack:
        parts = (part for part in coefficients.parts if isinstance(part, Coefficients))
        return Product(tuple(map(coefficient_aggregator, parts)))
    if coefficients.num_aggregators == 1:
        return _KNOWN_COEFFICIENTS.get(type(coefficients))
    return None


def _structure(layer: torch.nn.Module, name: str) -> Aggregator | None:
    """The structure of an unmodified layer of exactly this class."""
    if not (type(layer) in (GCNConv, GINConv) or type(layer) in _EXPANDING):
        return None
    if not (_is_unmodified(layer) and _sums(layer)):
        return None
    if isinstance(layer, GCNConv):
        normalizes = layer.normalize and layer.add_self_loops and not layer.improved
        if normalizes and type(layer.lin) is Linear and _is_unmodified(layer.lin):
            return After(lambda r: _affine(layer, r), NMEAN, name=name)
    elif isinstance(layer, GINConv):
        if float(layer.eps) == 0:
            return After(layer.nn, SUM, name=name)
    elif isinstance(layer, ExpandingConv) and layer.self_loops and not layer.re_sum:
        inner = coefficient_aggregator(layer.coefficients)
        return After(layer.mlp, inner, name=name)
    return None


def _is_unmodified(module: torch.nn.Module) -> bool:
    """Whether a module runs only the methods of its class: no hooks, and no methods of
    its own. What they change may not show on the examples."""
    return not any(
        callable(getattr(type(module), name, None))
        or (value and "_forward_" in name and name.endswith("hooks"))
        for name, value in vars(module).items()
    )


def _sums(layer: torch.nn.Module) -> bool:
    aggregation = layer.get_submodule("aggr_module")
    return type(aggregation) is SumAggregation and _is_unmodified(aggregation)


def _affine(layer: GCNConv, aggregated: Tensor) -> Tensor:
    out = layer.lin(aggregated)
    return out if layer.bias is None else out + layer.bias


def _with_structure(
    aggregator: NeighborhoodAggregator, structure: Aggregator | None
) -> Aggregator:
    """Accept a structure if the aggregator agrees with it on random neighbourhoods."""
    if structure is None:
        return aggregator
    examples = _examples(aggregator.dim)
    try:
        claimed = [torch.from_numpy(structure(x)) for x in examples]
    except (RuntimeError, ValueError, TypeError, IndexError):
        return aggregator  # such as an MLP that cannot run on one row
    if all(map(_same, aggregator.encode_all(examples), claimed)):
        return replace(aggregator, structure=structure)
    return aggregator


def _check_is_function(aggregator: NeighborhoodAggregator) -> None:
    examples = _examples(aggregator.dim)
    first = aggregator.encode_all(examples)
    if not all(map(_same, aggregator.encode_all(examples), first)):
        raise ConfigError(
            f"{aggregator} gives a different output each time, so it is not a "
            f"function of a neighbourhood"
        )
    swapped = [_reversed(x) for x in examples]
    if not all(map(_same, aggregator.encode_all(swapped), first)):
        raise ConfigError(
            f"the output of {aggregator} depends on the order of the neighbours, so it "
            f"is not a function of their multiset"
        )
    if not all(_same(aggregator.encode(examples[i]), first[i]) for i in (0, -1)):
        raise ConfigError(
            f"the output of {aggregator} for a node depends on other graphs in the "
            f"batch, so it is not a function of the node's neighbourhood"
        )


def _same(one, other) -> bool:
    a, b = (torch.as_tensor(z, dtype=torch.float64).flatten() for z in (one, other))
    return a.shape == b.shape and torch.allclose(a, b, rtol=AGREE, atol=AGREE)


def _reversed(x: Multiset) -> Multiset:
    order = [0, *range(len(x) - 1, 0, -1)]
    degrees = None if x.degrees is None else [x.degrees[i] for i in order]
    return Multiset(x.rows[order], degrees)


@lru_cache(maxsize=32)
def _examples(width: int) -> tuple[Multiset, ...]:
    """Random neighbourhoods of 2 to 7 rows, and one of 40, of several scales, with
    degrees, some with equal rows."""
    generator = torch.Generator().manual_seed(0)
    examples = []
    for index in range(EXAMPLES):
        n = 2 + index % 6 if index < EXAMPLES - 1 else LARGE
        x = torch.randn(n, width, generator=generator) * (0.1, 1.0, 10.0)[index % 3]
        if index % 4 == 0:
            x[-1] = x[0]
        degrees = torch.randint(2, 8, (n,), generator=generator).tolist()
        examples.append(Multiset(x.tolist(), (n, *degrees[1:])))
    return tuple(examples)


def _sized(
    aggregator: NeighborhoodAggregator, module: torch.nn.Module
) -> NeighborhoodAggregator:
    """Determine the input width of an aggregator: that of the module, or else the
    smallest that it runs on."""
    declared = getattr(module, "in_channels", None)
    dims: Iterable[int] = range(1, WIDEST + 1)
    if isinstance(declared, int) and declared > 0:
        dims = [declared]
    reason: Exception | None = None
    for dim in dims:
        try:
            aggregator.encode(_examples(dim)[0])
        except Exception as error:  # a wrong width raises anything in other libraries
            reason = error
        else:
            return replace(aggregator, dim=dim, smallest=_smallest(aggregator, dim))
    arguments = ", ".join(inspect.signature(module.forward).parameters)
    raise ConfigError(
        f"{aggregator}({arguments}) does not run on the features and edges of a "
        f"neighbourhood ({type(reason).__name__}: {reason}); say how to run it: "
        f"call=lambda layer, data: layer(...)"
    ) from reason


def _smallest(aggregator: NeighborhoodAggregator, dim: int) -> int:
    try:
        aggregator.encode(Multiset([[1] * dim], (1,)))
    except Exception:  # as above
        return 2
    return 1
