"""Both layers, a graph for them, and the comparison with the formula."""

import pytest
import torch

from fullrank.nn import CombConv, ExpandingConv
from fullrank.testing import random_graph, relative_difference
from nn.plain_formula import plain_layer

both = pytest.mark.parametrize("cls", [ExpandingConv, CombConv])

LAYERS = {
    "ExpC": lambda **kwargs: ExpandingConv(5, 4, kwargs.pop("s", 3), **kwargs),
    "CombC": lambda s=None, **kwargs: CombConv(5, 4, **kwargs),
}


def graph(edge_dim=None, num_edges=30):
    return random_graph(5, num_nodes=9, num_edges=num_edges, edge_dim=edge_dim)


def agrees_with_the_formula(conv, *inputs):
    # The layer comes first: the formula calls its modules, which may change them.
    output = conv(*inputs)
    truth = plain_layer(conv, *inputs, expanding=isinstance(conv, ExpandingConv))
    return relative_difference(output, truth) <= 1e-5


def assert_exact(conv, x, edge_index, edge_attr=None):
    expanding = isinstance(conv, ExpandingConv)
    wanted = [t.requires_grad_() for t in (x, edge_attr) if t is not None]
    wanted += list(conv.parameters())
    results = []
    for output in (
        conv(x, edge_index, edge_attr),
        plain_layer(conv, x, edge_index, edge_attr, expanding=expanding),
    ):
        weights = torch.arange(output.numel(), dtype=output.dtype).cos()
        loss = (output * weights.view_as(output)).sum()
        results.append((output, *torch.autograd.grad(loss, wanted)))
    for ours, truth in zip(*results, strict=True):
        assert relative_difference(ours, truth) <= 1e-10
