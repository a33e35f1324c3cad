"""Finds equal nodes once per data set, before training."""

from functools import lru_cache

import numpy as np
import torch

from fullrank.data.packed.graphs import PackedGraphs
from fullrank.nn import GraphNet
from fullrank.nn.merge import find_twins

# Edges that are refined at once.
_BLOCK = 1_000_000


def graphs_for(network: torch.nn.Module, graphs: PackedGraphs) -> PackedGraphs:
    """The graphs as a network trains on them fastest."""
    fast = isinstance(network, GraphNet) and network.reads_twins
    return with_twins(graphs) if fast else graphs


@lru_cache(maxsize=1)
def with_twins(graphs: PackedGraphs) -> PackedGraphs:
    """Add the twins of all graphs, as ``twin_offset``, ``twin_edge_count`` and
    ``twin_key``."""
    found = []
    block = graphs.edge_ptr[:-1] // _BLOCK
    for some in np.split(np.arange(len(graphs)), np.flatnonzero(np.diff(block)) + 1):
        batch = graphs.batch(some)
        found.append(
            find_twins(batch.x, batch.edge_index, batch.get("edge_attr"), batch.batch)
        )
    for level, name in (("node", "offset"), ("edge", "edge_count"), ("node", "key")):
        values = torch.cat([getattr(twins, name) for twins in found])
        graphs = graphs.with_array(level, f"twin_{name}", values.numpy())
    return graphs
