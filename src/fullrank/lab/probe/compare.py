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

    A layer is judged by what it does when it runs: every witness comes from it, and a
    proof is given only for layers that agree with what the proof assumes.

    Args:
        f: One of them.
        g: The other.
        dim: Width of the rows among which witnesses are searched, by default the least
            that both take.
        call: How to run a layer on a graph, ``call(layer, data)``, if it is called in
            another way than ``layer(x, edge_index)``, or a model than ``model(data)``.
    """
    f, g = (
        x if isinstance(x, Aggregator) else as_aggregator(x, call=call) for x in (f, g)
    )
    return Comparison(f, g, as_strong(f, g, dim), as_strong(g, f, dim))
