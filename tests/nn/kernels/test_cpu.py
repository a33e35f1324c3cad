"""The blocked sums are their formulas, whatever the blocks."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fullrank.nn import backend
from fullrank.nn.kernels import cpu, portable
from fullrank.testing import relative_difference
from nn.both_layers import LAYERS, assert_exact, both, graph
from nn.kernels.sums import SUMS, largest_tensor_of_a_layer
from nn.strategies import features

BLOCKED = [name for name in SUMS if name != "weighted_edge_rows"]


@pytest.fixture(autouse=True)
def blocks():
    with backend("cpu"):
        yield


@pytest.mark.parametrize("name", BLOCKED)
def test_sum_with_all_gradients(name):
    args, truth = SUMS[name]()
    function = getattr(portable, name.split()[0])
    floats = [x for x in args if isinstance(x, torch.Tensor) and x.is_floating_point()]
    for x in floats:
        x.requires_grad_()
    gradients = []
    for found in (cpu.run(function, *args), function(*args)):
        assert relative_difference(found, truth) <= 1e-12
        weights = torch.arange(found.numel()).double().cos().view_as(found)
        gradients.append(torch.autograd.grad((found * weights).sum(), floats))
    for ours, plain in zip(*gradients, strict=True):
        assert relative_difference(ours, plain) <= 1e-12


@pytest.mark.parametrize("name", BLOCKED)
def test_gradients_by_one_argument_at_a_time(name):
    args, _ = SUMS[name]()
    function = getattr(portable, name.split()[0])
    for x in args:
        if not (isinstance(x, torch.Tensor) and x.is_floating_point()):
            continue
        x.requires_grad_()
        found = [
            torch.autograd.grad(out.square().sum(), x)[0]
            for out in (cpu.run(function, *args), function(*args))
        ]
        assert relative_difference(*found) <= 1e-12
        x.requires_grad_(False)


@given(
    st.lists(st.integers(0, 9), max_size=60),
    st.integers(1, 4),
    st.integers(1, 4),
)
@settings(max_examples=50)
def test_edge_order(nodes, width, s):
    index, rows = torch.tensor(nodes, dtype=torch.long), torch.arange(len(nodes))
    order = cpu.EdgeOrder(index, 10)
    assert torch.equal(order.index, index[order.permutation])
    assert torch.equal(order.unsort(order.sort(rows)), rows)
    again = cpu.EdgeOrder(index, 10, order.permutation)
    assert torch.equal(again.ptr, order.ptr)
    blocks = list(order.blocks(width, 8))
    assert [v for nodes, _ in blocks for v in range(10)[nodes]] == list(range(10))
    assert [e for _, edges in blocks for e in range(len(index))[edges]] == rows.tolist()
    m = features(len(index), s, 0)
    bags, offsets, weights = order.bags(order.sort(m))
    found = cpu.weighted_bags(torch.eye(len(index)).double(), bags, offsets, weights)
    truth = torch.zeros(10, s, len(index)).double()
    for place, edge in enumerate(order.permutation.tolist()):
        truth[index[edge], :, place] = m[edge]
    assert torch.equal(found.view(10, s, len(index)), truth)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("nodes", [30, 1000], ids=["dense", "sparse"])
def test_several_blocks_equal_one(name, nodes, monkeypatch):
    conv = LAYERS[name]().double()
    x, edge_index = features(nodes, 5, 0), torch.randint(nodes, (2, 2500))
    whole = conv(x, edge_index)
    monkeypatch.setattr(cpu, "BLOCK_BYTES", 1)
    order = cpu.EdgeOrder(edge_index[0], nodes)
    assert len(list(order.blocks(5, 8))) > 5
    assert relative_difference(conv(x, edge_index), whole) <= 1e-12
    assert_exact(conv, x, edge_index)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("re_sum", [True, False])
def test_a_hub(name, re_sum):
    spokes = torch.arange(1, 10_001)
    hub = torch.zeros_like(spokes)
    edge_index = torch.cat([torch.stack([spokes, hub]), torch.stack([hub, spokes])], 1)
    conv = LAYERS[name](re_sum=re_sum, edge_dim=2).double()
    edge_attr = features(edge_index.size(1), 2, 1)
    assert_exact(conv, features(10_001, 5, 0), edge_index, edge_attr)


@pytest.mark.parametrize("edge_dim", [None, 3, 16, (5, 6, 2)])
@pytest.mark.parametrize("re_sum", [True, False])
@pytest.mark.parametrize("double_backward", [False, True])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_no_tensor_of_edges_times_s_d(edge_dim, re_sum, double_backward, activation):
    largest, edges_s_d = largest_tensor_of_a_layer(
        "cpu", edge_dim, re_sum, activation, double_backward
    )
    assert largest < edges_s_d / 2


@both
@pytest.mark.parametrize("re_sum", [True, False])
def test_deterministic_algorithms(cls, re_sum):
    conv = cls(5, 4, re_sum=re_sum, edge_dim=3)
    inputs = graph(edge_dim=3, num_edges=500)
    torch.use_deterministic_algorithms(True)
    try:
        results = []
        for _ in range(2):
            conv.zero_grad()
            out = conv(*inputs)
            out.sum().backward()
            results.append([out, *(p.grad for p in conv.parameters())])
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
