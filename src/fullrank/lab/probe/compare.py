"""Layers and aggregators in the partial order of distinguishing strength."""

import torch

from fullrank.lab.probe.layer_aggregator import as_aggregator
from fullrank.lab.running import Runner
from fullrank.lab.theory.aggregators import Aggregator
from fullrank.lab.theory.strength import Comparison, as_strong


def compare(
    f: Aggregator | torch.nn.Module,
    g: Aggregator | torch.nn.Module,
    dim: int | None = None,
    call: Runner | None = None,
) -> Comparison:
    """Place two aggregators, layers or models in the order of distinguishing strength.

    Statements about a layer are based on running it: every witness is checked on it,
    and a proof is given only for layers that agree with the proof's assumptions.

    Args:
        f: An aggregator, layer or model.
        g: The other one.
        dim: Width of the rows in the search for witnesses, by default the smallest that
            both accept.
        call: Runs a layer or model on a graph, ``call(layer, data)``; by default
            ``layer(x, edge_index)`` or ``model(data)``.
    """
    f, g = (
        x if isinstance(x, Aggregator) else as_aggregator(x, call=call) for x in (f, g)
    )
    return Comparison(f, g, as_strong(f, g, dim), as_strong(g, f, dim))
