"""The form by hand is not to be told from the plain one: blocks, modes, derivatives."""

import pytest
import torch

from fullrank.testing import relative_difference
from nn.both_layers import LAYERS, assert_exact, both, graph
from nn.strategies import features


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("nodes", [30, 1000], ids=["dense", "sparse"])
def test_several_blocks_equal_one(name, nodes, monkeypatch):
    """Blocks of edges are an implementation's choice, not part of the result."""
    conv = LAYERS[name]().double()
    x, edge_index = features(nodes, 5, 0), torch.randint(nodes, (2, 2500))
    whole = conv(x, edge_index)
    monkeypatch.setattr("fullrank.nn.kernels.cpu.BLOCK_BYTES", 1)
    assert relative_difference(conv(x, edge_index), whole) <= 1e-12
    assert_exact(conv, x, edge_index)


@both
@pytest.mark.parametrize("re_sum", [True, False])
def test_autocast(cls, re_sum):
    conv = cls(5, 4, re_sum=re_sum, edge_dim=3)
    inputs = graph(edge_dim=3)
    expected = conv(*inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = conv(*inputs)
    out.float().sum().backward()
    assert relative_difference(out.float(), expected) <= 0.05
    assert all(
        p.grad is not None and p.grad.isfinite().all() for p in conv.parameters()
    )


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
