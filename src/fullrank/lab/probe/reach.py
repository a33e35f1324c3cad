"""How far information travels through the convolutions of a model."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from fullrank.errors import DataError
from fullrank.lab.precision import double, frozen_copy
from fullrank.lab.probe.calls import record_calls
from fullrank.lab.running import Runner, runner_of

UNREACHED = -1


@dataclass(frozen=True)
class Reach:
    r"""The influence of nodes on a node, by their distance from it.

    The influence of u on v is the norm of the Jacobian
    :math:`\partial h_v / \partial x_u` from the input of the first convolution to the
    output of the last one. If it decays quickly although many nodes are far away, the
    information of distant nodes is squashed.

    Attributes:
        influence: Mean influence of a node at distance 0, 1, 2, ..., ``[D]``.
        share: Fraction of the total influence by distance, ``[D]``.
        nodes: Mean number of nodes at each distance, ``[D]``.
        layers: Number of convolutions in between.
    """

    influence: Tensor
    share: Tensor
    nodes: Tensor
    layers: int

    def __str__(self) -> str:
        shares = ", ".join(f"{float(s):.2g}" for s in self.share)
        return f"share of influence by distance: {shares}"


def reach(
    model: torch.nn.Module, batch: Data, seed: int = 0, call: Runner | None = None
) -> Reach:
    """Measure the influence of nodes on a node by their distance.

    One node is drawn in each graph. The model runs as a copy in float64 and evaluation
    mode.

    Args:
        model: A model called with the batch, or a layer.
        batch: A PyG graph or batch.
        seed: Seed of the choice of nodes.
        call: Runs the model, ``call(model, batch)``; ``model(batch)`` by default.
    """
    model, batch = frozen_copy(model), double(batch)
    calls = record_calls(model, batch, call)
    ends: dict[str, Tensor] = {}

    def enter(conv, args, kwargs):
        if "x" in ends:
            return None
        given = args[0] if args else kwargs["x"]
        ends["x"] = given.detach().requires_grad_()
        if args:
            return (ends["x"], *args[1:]), kwargs
        return args, {**kwargs, "x": ends["x"]}

    first, last = calls[0].conv, calls[-1].conv
    first.register_forward_pre_hook(enter, with_kwargs=True)
    last.register_forward_hook(lambda conv, args, out: ends.update(h=out))
    with torch.enable_grad():
        runner_of(model, call)(model, batch)
    chosen = _one_node_per_graph(batch, seed)
    square = torch.zeros(len(ends["x"]), dtype=torch.float64)
    for output in ends["h"][chosen].flatten(1).sum(dim=0):
        (slope,) = torch.autograd.grad(output, ends["x"], retain_graph=True)
        square += slope.flatten(1).square().sum(dim=1)
    distance = _distances(chosen, calls[0].edge_index, len(square))
    return _by_distance(square.sqrt(), distance, len(calls))


def _one_node_per_graph(batch: Data, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    graph = batch.batch if isinstance(batch, Batch) else None
    if graph is None:
        graph = torch.zeros(batch.num_nodes, dtype=torch.long)
    if not len(graph):
        raise DataError("the graphs have no nodes")
    order = torch.randperm(len(graph), generator=generator)
    order = order[graph[order].argsort(stable=True)]
    first = torch.ones(len(order), dtype=torch.bool)
    first[1:] = graph[order][1:] != graph[order][:-1]
    return order[first]


def _distances(chosen: Tensor, edge_index: Tensor, count: int) -> Tensor:
    """Distance from each node to the chosen node of its graph."""
    source, target = edge_index
    distance = torch.full((count,), UNREACHED)
    distance[chosen] = 0
    for step in range(count):
        reached = (distance[target] == step) & (distance[source] == UNREACHED)
        if not reached.any():
            break
        distance[source[reached]] = step + 1
    return distance


def _by_distance(influence: Tensor, distance: Tensor, layers: int) -> Reach:
    inside = distance != UNREACHED
    influence, distance = influence[inside], distance[inside]
    nodes = torch.bincount(distance).double()
    total = torch.zeros_like(nodes).index_add(0, distance, influence)
    share = total / total.sum() if total.any() else total
    return Reach(total / nodes.clamp(min=1), share, nodes / nodes[0], layers)
