"""Both layers against the formulas written out, forward and backward, in float64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from fullrank.nn import CombConv, ExpandingConv
from fullrank.testing import relative_difference
from nn.plain_formula import plain_layer
from nn.strategies import features, graphs

LAYERS = {
    "ExpC": lambda **kwargs: ExpandingConv(5, 4, kwargs.pop("s", 3), **kwargs),
    "CombC": lambda s=None, **kwargs: CombConv(5, 4, **kwargs),
}


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


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("nodes", [30, 1000], ids=["dense", "sparse"])
def test_several_blocks_equal_one(name, nodes, monkeypatch):
    """Blocks of edges are an implementation's choice, not part of the result."""
    conv = LAYERS[name]().double()
    x, edge_index = features(nodes, 5, 0), torch.randint(nodes, (2, 2500))
    whole = conv(x, edge_index)
    monkeypatch.setattr("fullrank.nn.by_hand.BLOCK_BYTES", 1)
    assert relative_difference(conv(x, edge_index), whole) <= 1e-12
    assert_exact(conv, x, edge_index)


@pytest.mark.parametrize("re_sum", [True, False])
@pytest.mark.parametrize("kind", ["bipartite", "own terms"])
@pytest.mark.parametrize("name", LAYERS)
def test_bipartite_graphs(name, re_sum, kind):
    own = kind == "own terms"
    widths = (5, 5) if own else (5, 3)
    cls = {"ExpC": ExpandingConv, "CombC": CombConv}[name]
    conv = cls(widths, 4, re_sum=re_sum, bipartite_self_loops=own).double()
    x_src, x_dst = features(6, widths[0], 0), features(4, widths[1], 1)
    edge_index = torch.tensor([[0, 1, 2, 3, 0, 5], [0, 1, 2, 3, 1, 0]])
    output = conv((x_src, x_dst), edge_index)
    if own:
        # A destination that is its own neighbour is one more source.
        loops = torch.stack([torch.arange(4) + 6, torch.arange(4)])
        edge_index = torch.cat([edge_index, loops], dim=1)
        x_src = torch.cat([x_src, x_dst])
    truth = plain_layer(conv, (x_src, x_dst), edge_index, expanding=name == "ExpC")
    assert output.shape == (4, 4)
    assert relative_difference(output, truth) <= 1e-12


@pytest.mark.parametrize("name", LAYERS)
def test_categorical_edges_are_sums_of_embeddings(name):
    conv = LAYERS[name](edge_dim=(5, 6, 2)).double()
    x, edge_index = features(7, 5, 0), torch.randint(7, (2, 20))
    categories = torch.stack([torch.randint(n, (20,)) for n in (5, 6, 2)], dim=1)
    tables = conv.edge_lin.weight.t().split([5, 6, 2])
    embedded = sum(table[categories[:, i]] for i, table in enumerate(tables))
    # The plain formula with the embeddings themselves as features.
    same = LAYERS[name](edge_dim=5).double()
    same.load_state_dict(conv.state_dict() | {"edge_lin.weight": torch.eye(5)})
    truth = plain_layer(same, x, edge_index, embedded, expanding=name == "ExpC")
    assert relative_difference(conv(x, edge_index, categories), truth) <= 1e-12


class LargestTensor(TorchDispatchMode):
    """Remembers the largest result of any operation."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for result in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(result, torch.Tensor):
                self.numel = max(self.numel, result.numel())
        return out


@pytest.mark.parametrize("edge_dim", [None, 3, 16, (5, 6, 2)])
@pytest.mark.parametrize("re_sum", [True, False])
@pytest.mark.parametrize("double_backward", [False, True])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_no_tensor_of_edges_times_s_d(edge_dim, re_sum, double_backward, activation):
    num_nodes, num_edges, width, s = 12, 700, 16, 8
    conv = ExpandingConv(
        width, width, s, re_sum=re_sum, edge_dim=edge_dim, activation=activation
    )
    x = torch.randn(num_nodes, width, requires_grad=True)
    edge_index = torch.randint(num_nodes, (2, num_edges))
    edge_attr = None
    if isinstance(edge_dim, int):
        edge_attr = torch.randn(num_edges, edge_dim, requires_grad=True)
    elif edge_dim is not None:
        edge_attr = torch.ones(num_edges, 3, dtype=torch.long)
    with LargestTensor() as largest:
        out = conv(x, edge_index, edge_attr)
        (grad,) = torch.autograd.grad(
            out.square().sum(), x, create_graph=double_backward
        )
        if double_backward:
            grad.square().sum().backward()
    assert largest.numel < num_edges * s * width / 2


def test_the_watch_sees_the_plain_formula():
    conv = ExpandingConv(16, 16, 8)
    x, edge_index = torch.randn(12, 16), torch.randint(12, (2, 700))
    with LargestTensor() as largest:
        plain_layer(conv, x, edge_index, expanding=True)
    assert largest.numel >= 600 * 8 * 16


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("re_sum", [True, False])
@pytest.mark.parametrize("edge_dim", [None, 2])
class TestDerivatives:
    def setup(self, name, re_sum, edge_dim):
        torch.manual_seed(1)
        conv = LAYERS[name](re_sum=re_sum, edge_dim=edge_dim).double()
        edge_index = torch.randint(4, (2, 6))
        x = features(4, 5, 0).requires_grad_()
        edge_attr = None if edge_dim is None else features(6, edge_dim, 1)
        return conv, x, edge_index, edge_attr

    def test_second(self, name, re_sum, edge_dim):
        conv, x, edge_index, edge_attr = self.setup(name, re_sum, edge_dim)
        weight = conv.mlp[2].weight

        def layer(x, weight):
            return torch.func.functional_call(
                conv, {"mlp.2.weight": weight}, (x, edge_index, edge_attr)
            )

        assert torch.autograd.gradcheck(layer, (x, weight))
        assert torch.autograd.gradgradcheck(layer, (x, weight))

    def test_forward_mode_and_jacobians(self, name, re_sum, edge_dim):
        conv, x, edge_index, edge_attr = self.setup(name, re_sum, edge_dim)
        x = x.detach()

        def layer(x):
            return conv(x, edge_index, edge_attr)

        truth = torch.autograd.functional.jacobian(layer, x)
        assert relative_difference(torch.func.jacrev(layer)(x), truth) <= 1e-10
        assert relative_difference(torch.func.jacfwd(layer)(x), truth) <= 1e-10
        tangent = features(4, 5, 7)
        _, push = torch.func.jvp(layer, (x,), (tangent,))
        expected = torch.einsum("noij,ij->no", truth, tangent)
        assert relative_difference(push, expected) <= 1e-10
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, tangent)
            found = torch.autograd.forward_ad.unpack_dual(layer(dual)).tangent
        assert relative_difference(found, expected) <= 1e-10

    def test_batched_gradients(self, name, re_sum, edge_dim):
        conv, x, edge_index, edge_attr = self.setup(name, re_sum, edge_dim)
        out = conv(x, edge_index, edge_attr)
        rows = torch.eye(out.numel(), dtype=out.dtype).view(-1, *out.shape)
        (found,) = torch.autograd.grad(
            out, x, rows, is_grads_batched=True, retain_graph=True
        )
        for row, gradient in zip(rows, found, strict=True):
            (truth,) = torch.autograd.grad(out, x, row, retain_graph=True)
            assert relative_difference(gradient, truth) <= 1e-10
