"""Blocks of pairs, and the sums that they are made of."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fullrank.bench.measure import saved_mb
from fullrank.nn import CombConv, backend
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
    found = cpu.sum_by_node(rows, torch.arange(len(index)), ptr, m)
    truth = torch.zeros_like(found)
    for pair, node in enumerate(index.tolist()):
        truth[node, :, pair] = m[pair]
    assert torch.equal(found, truth)


@pytest.mark.parametrize("re_sum", [True, False])
def test_of_edges_times_d_one_tensor_is_kept(re_sum):
    nodes, edges, d = 50, 20_000, 64
    conv = CombConv(d, d, re_sum=re_sum)
    x, edge_index = torch.randn(nodes, d), torch.randint(nodes, (2, edges))
    x.requires_grad_()
    with backend("cpu"):
        kept = saved_mb(lambda: conv(x, edge_index))
    one, flags = 4e-6 * edges * d, 1e-6 * edges * d
    assert one < kept < 1.2 * one + flags * re_sum
