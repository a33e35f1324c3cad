"""Both layers against the formulas written out, forward and backward, in float64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nn.both_layers import LAYERS, assert_exact
from nn.strategies import features, graphs


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("re_sum", [True, False])
@given(graph=graphs(), s=st.integers(1, 32), seed=st.integers(0, 99))
@settings(max_examples=30)
def test_equals_the_plain_formula(name, re_sum, graph, s, seed):
    torch.manual_seed(seed)
    num_nodes, edge_index = graph
    conv = LAYERS[name](s=s, re_sum=re_sum).double()
    assert_exact(conv, features(num_nodes, 5, seed), edge_index)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("re_sum", [True, False])
@given(graph=graphs(), edge_dim=st.integers(1, 12), seed=st.integers(0, 99))
@settings(max_examples=30)
def test_equals_the_plain_formula_with_edge_features(
    name, re_sum, graph, edge_dim, seed
):
    torch.manual_seed(seed)
    num_nodes, edge_index = graph
    conv = LAYERS[name](re_sum=re_sum, edge_dim=edge_dim).double()
    edge_attr = features(edge_index.size(1), edge_dim, seed + 1)
    assert_exact(conv, features(num_nodes, 5, seed), edge_index, edge_attr)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("re_sum", [True, False])
def test_equals_the_plain_formula_on_a_hub(name, re_sum):
    spokes = torch.arange(1, 10_001)
    hub = torch.zeros_like(spokes)
    edge_index = torch.cat([torch.stack([spokes, hub]), torch.stack([hub, spokes])], 1)
    conv = LAYERS[name](re_sum=re_sum, edge_dim=2).double()
    edge_attr = features(edge_index.size(1), 2, 1)
    assert_exact(conv, features(10_001, 5, 0), edge_index, edge_attr)
