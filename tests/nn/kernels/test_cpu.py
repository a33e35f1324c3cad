"""Blocks of pairs, and the sums that they are made of."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fullrank.nn.kernels import cpu
from nn.strategies import features


@given(
    st.lists(st.integers(0, 9), max_size=900), st.integers(1, 400), st.integers(1, 4)
)
@settings(max_examples=50)
def test_blocks_are_all_nodes_and_all_pairs(nodes, width, s):
    index = torch.tensor(nodes, dtype=torch.long).sort().values
    ptr = torch.searchsorted(index, torch.arange(11))
    blocks = list(cpu.blocks(ptr, width * 1000, 8))
    assert [v for nodes, _ in blocks for v in range(10)[nodes]] == list(range(10))
    pairs = [e for _, block in blocks for e in range(len(index))[block]]
    assert pairs == list(range(len(index)))
    assert all(set(index[e].tolist()) <= set(range(10)[nodes]) for nodes, e in blocks)


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 4))
@settings(max_examples=50)
def test_sums_by_node(nodes, s):
    index = torch.tensor(nodes, dtype=torch.long).sort().values
    ptr = torch.searchsorted(index, torch.arange(11))
    m, rows = features(len(index), s, 0), torch.eye(len(index)).double()
    found = torch.empty(10, s, len(index)).double()
    cpu.sum_by_node(rows, torch.arange(len(index)), ptr, m, found)
    truth = torch.zeros_like(found)
    for pair, node in enumerate(index.tolist()):
        truth[node, :, pair] = m[pair]
    assert torch.equal(found, truth)
