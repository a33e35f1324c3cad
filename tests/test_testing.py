"""The public assertions pass where they should, and fail where they should."""

import pytest
import torch
from torch_geometric.nn import GCNConv, GINConv, global_add_pool

from fullrank.testing import (
    assert_layers_agree,
    assert_permutation_equivariant,
    assert_same_on_isomorphic_graphs,
    random_graph,
    relative_difference,
)


def test_equivariance():
    conv = GCNConv(3, 4)
    assert_permutation_equivariant(conv, *random_graph(3))

    def numbered(x, edge_index):
        return conv(x, edge_index) + torch.arange(len(x))[:, None]

    with pytest.raises(AssertionError):
        assert_permutation_equivariant(numbered, *random_graph(3))


def test_edge_arguments_follow_their_edges():
    def weighted(x, edge_index, edge_attr):
        messages = x[edge_index[0]] * edge_attr[:, :1]
        return torch.zeros_like(x).index_add(0, edge_index[1], messages)

    assert_permutation_equivariant(weighted, *random_graph(3, edge_dim=1))

    def by_position(x, edge_index, edge_attr):
        return weighted(x, edge_index, torch.arange(20.0)[:, None])

    with pytest.raises(AssertionError):
        assert_permutation_equivariant(by_position, *random_graph(3, edge_dim=1))


def test_isomorphic_graphs():
    conv = GCNConv(3, 4)

    def pooled(x, edge_index):
        return global_add_pool(conv(x, edge_index), None)

    assert_same_on_isomorphic_graphs(pooled, *random_graph(3))
    with pytest.raises(AssertionError):
        assert_same_on_isomorphic_graphs(lambda *g: conv(*g)[0], *random_graph(3))


def test_agreement():
    torch.manual_seed(0)
    lin = torch.nn.Linear(3, 4)
    first, second = GINConv(lin), GINConv(torch.nn.Sequential(lin))
    assert_layers_agree(first, second, *random_graph(3))
    with pytest.raises(AssertionError, match="outputs"):
        assert_layers_agree(first, lambda *g: 1.001 * second(*g), *random_graph(3))


def test_agreement_of_gradients():
    def stopped(x):
        return x.detach() + 0 * x

    with pytest.raises(AssertionError, match="gradients.* 0 "):
        assert_layers_agree(lambda x: x + 0, stopped, torch.randn(3))
    assert_layers_agree(lambda x: x + 0, stopped, torch.randn(3), gradients=False)
    with pytest.raises(AssertionError, match="gradients.* 1 "):
        assert_layers_agree(
            lambda i, x: x[i],
            lambda i, x: stopped(x)[i],
            torch.arange(3),
            torch.ones(3),
        )
    with pytest.raises(AssertionError, match="only one"):
        assert_layers_agree(
            lambda x, y: x + y, lambda x, y: x + y.detach(), *torch.randn(2, 3)
        )


def test_relative_difference():
    a, b = torch.tensor([1.0, 4.0]), torch.tensor([2.0, 4.0])
    assert relative_difference(a, b) == 0.25
    with pytest.raises(AssertionError, match=r"\[2\].*\[1\]"):
        relative_difference(a, b[:1])
    with pytest.raises(AssertionError):
        assert_layers_agree(lambda x: x * float("nan"), lambda x: x, torch.ones(2))
