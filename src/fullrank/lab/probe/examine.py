"""All measurements of the layers of a model on real graphs."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch_geometric.data import Data
from torch_geometric.utils import degree

from fullrank.lab.precision import double, frozen_copy
from fullrank.lab.probe.calls import Call, record_calls
from fullrank.lab.probe.collide import Collision, collide
from fullrank.lab.probe.neighborhood import Neighborhood
from fullrank.lab.probe.profile import LayerProfile, profile_call
from fullrank.lab.running import Runner
from fullrank.lab.theory.coefficient_rank import numerical_rank

PREFERRED_SIZE = 4
CANDIDATES = 50
STARTS = 6
RTOL = 1e-9


@dataclass(frozen=True)
class Finding:
    """Results for one layer: the rank it keeps, and collisions.

    Attributes:
        profile: Ranks and sampling.
        output: A collision of the layer's output.
        aggregate: A collision of the aggregate.
        why_not: Why no search for collisions was made; empty if one was.
    """

    profile: LayerProfile
    output: Collision | None
    aggregate: Collision | None
    why_not: str = ""


def examine(
    model: torch.nn.Module, batch: Data, seed: int = 0, call: Runner | None = None
) -> list[Finding]:
    """Profile every convolution of a model and search for collisions on real data.

    The model runs as a copy in float64, so that small singular values count.

    Args:
        model: A model called with the batch, or a layer.
        batch: A PyG graph or batch.
        seed: Seed of the search for collisions.
        call: Runs the model, ``call(model, batch)``; ``model(batch)`` by default.
    """
    return [finding for finding, _ in examining(model, batch, seed, call)]


def examining(
    model: torch.nn.Module, batch: Data, seed: int = 0, call: Runner | None = None
) -> Iterator[tuple[Finding, int]]:
    """:func:`examine` layer by layer, with the total number of layers."""
    calls = record_calls(frozen_copy(model), double(batch), call)
    for recorded in calls:
        yield _examine(recorded, seed), len(calls)


def _examine(call: Call, seed: int) -> Finding:
    profile = profile_call(call, rtol=RTOL)
    if call.unknown:
        return Finding(profile, None, None, profile.how)
    local = _pick_neighborhood(call)
    if local is None:
        return Finding(profile, None, None, "no node has two neighbours")
    distance = 0.25 * max(float(local.x[1:].norm()), 0.1)

    output, aggregate = (
        collide(call.conv, local, of, distance, STARTS, seed, call.run)
        for of in ("output", "aggregate")
    )
    return Finding(profile, output, aggregate)


def _pick_neighborhood(call: Call) -> Neighborhood | None:
    """A small neighbourhood with the highest rank found."""
    source, target = call.edge_index
    sizes = degree(target[source != target], len(call.x), dtype=torch.long) + 1
    if not (sizes >= 3).any():
        return None
    # The preferred size, or else the next larger, or else the next smaller.
    unlike = (sizes - PREFERRED_SIZE).abs() * 2 - (sizes > PREFERRED_SIZE).long()
    unlike[sizes < 3] = unlike.max() + 1
    nodes = (unlike == unlike.min()).nonzero().flatten()[:CANDIDATES].tolist()
    found = [call.neighborhood(node) for node in nodes]
    return max(found, key=lambda local: int(numerical_rank(local.x[1:], RTOL)))
