"""Random graphs for Hypothesis, with every awkward shape a graph can have."""

import torch
from hypothesis import strategies as st


@st.composite
def graphs(draw, max_nodes=8, max_edges=24):
    """Draw ``(num_nodes, edge_index)``: isolated nodes, no edges, loops, parallels."""
    num_nodes = draw(st.integers(1, max_nodes))
    node = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=max_edges))
    return num_nodes, torch.tensor(edges, dtype=torch.long).view(-1, 2).t()


def features(num_rows, width, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num_rows, width, dtype=torch.double, generator=generator)
