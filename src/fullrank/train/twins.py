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
    """Add the twins of all graphs as ``twin_offset`` and ``twin_edge_count``."""
    offset, count = [], []
    block = graphs.edge_ptr[:-1] // _BLOCK
    for some in np.split(np.arange(len(graphs)), np.flatnonzero(np.diff(block)) + 1):
        batch = graphs.batch(some)
        twins = find_twins(
            batch.x, batch.edge_index, batch.get("edge_attr"), batch.batch
        )
        offset.append(twins.offset.to(torch.int32).numpy())
        count.append(twins.edge_count.to(torch.int32).numpy())
    return graphs.with_array("node", "twin_offset", np.concatenate(offset)).with_array(
        "edge", "twin_edge_count", np.concatenate(count)
    )
