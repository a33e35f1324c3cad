import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import Linear, ReLU, Sequential
from torch_geometric.nn.dense.linear import Linear as PyGLinear

from fullrank.lab import derive
from fullrank.nn import ExpandingConv
from fullrank.testing import relative_difference
from nn.strategies import features, graphs


def one_layer(s=3, **kwargs):
    mlp = Sequential(Linear(s * 5, 4), ReLU())
    return ExpandingConv(5, 4, s, mlp=mlp, **kwargs).double()


@given(graph=graphs(), s=st.integers(1, 6), seed=st.integers(0, 99))
@settings(max_examples=30)
def test_the_three_stages_rebuild_the_layer(graph, s, seed):
    torch.manual_seed(seed)
    num_nodes, edge_index = graph
    conv, x = one_layer(s), features(num_nodes, 5, seed)
    rebuilt = derive(conv, x, edge_index).rebuild()
    assert relative_difference(rebuilt, conv(x, edge_index)) <= 1e-10


def test_the_parts_are_what_their_names_say():
    torch.manual_seed(0)
    conv = one_layer(edge_dim=2)
    x, edge_index = features(6, 5, 0), torch.randint(6, (2, 20))
    edge_attr = features(20, 2, 1)
    parts = derive(conv, x, edge_index, edge_attr)
    weight, bias = conv.mlp[0].weight, conv.mlp[0].bias
    output = conv(x, edge_index, edge_attr)
    for v in range(6):
        for i in range(4):
            subset = parts.subset(v, i)
            matrix, h = parts.coefficient_matrix(v, i), parts.features(v, i)
            assert matrix.shape == (3, len(subset))
            # Exactly the sampled neighbours have a positive message.
            everyone = (parts.local.dst == v).nonzero().flatten()
            for pair in everyone.tolist():
                m = parts.coefficients[pair]
                h_u = parts.local.neighbors()[pair]
                message = weight[i] @ torch.outer(m, h_u).flatten() + bias[i]
                assert (pair in subset.tolist()) == bool(message > 0)
            r = parts.aggregated(i)[v]
            assert torch.allclose(r, matrix @ h, atol=1e-12)
            rank = torch.linalg.matrix_rank(r)
            assert rank <= min(3, 5, len(subset))
            rebuilt = weight[i] @ r.flatten() + len(subset) * bias[i]
            assert rebuilt.item() == pytest.approx(output[v, i].item(), abs=1e-10)


def test_a_layer_without_a_bias():
    conv = ExpandingConv(
        5, 4, 3, mlp=Sequential(Linear(15, 4, bias=False), ReLU())
    ).double()
    x, edge_index = features(6, 5, 0), torch.randint(6, (2, 20))
    rebuilt = derive(conv, x, edge_index).rebuild()
    assert relative_difference(rebuilt, conv(x, edge_index)) <= 1e-10


def test_a_lazy_layer():
    mlp = Sequential(PyGLinear(-1, 4), ReLU())
    conv = ExpandingConv(-1, 4, 3, mlp=mlp)
    x, edge_index = torch.randn(6, 5), torch.randint(6, (2, 20))
    rebuilt = derive(conv, x, edge_index).rebuild()
    assert relative_difference(rebuilt, conv(x, edge_index)) <= 1e-5


@pytest.mark.parametrize("conv", [ExpandingConv(5, 4), one_layer(re_sum=False)])
def test_other_layers_are_refused(conv):
    with pytest.raises(ValueError, match="re_sum"):
        derive(conv, features(2, 5, 0), torch.tensor([[0], [1]]))
