"""Every backend computes the same; which one runs can be chosen, and is chosen well."""

import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import prune
from torch_geometric.nn.dense.linear import Linear as PyGLinear

from fullrank.nn import ExpandingConv, backend
from fullrank.nn.kernels import cpu, loops, native
from fullrank.nn.kernels.dispatch import (
    BACKENDS,
    current_backend,
    is_constant,
    is_linear,
    is_replaceable,
)
from fullrank.testing import relative_difference
from nn.both_layers import LAYERS, assert_exact, both, graph
from nn.kernels.sums import NATIVE
from nn.strategies import features, graphs

pytestmark = pytest.mark.usefixtures("with_loops")

# "auto" is one of the others.
every_backend = pytest.mark.parametrize("name", ["plain", NATIVE, "cpu", "portable"])
every_layer = pytest.mark.parametrize("layer", LAYERS)
with_and_without_re_sum = pytest.mark.parametrize("re_sum", [True, False])


class TestChoosing:
    def test_a_block(self):
        assert current_backend() == "auto"
        with backend("plain"):
            assert current_backend() == "plain"
            with backend("portable"):
                assert current_backend() == "portable"
            assert current_backend() == "plain"
        assert current_backend() == "auto"

    def test_a_block_that_fails(self):
        with pytest.raises(KeyError), backend("plain"):
            raise KeyError
        assert current_backend() == "auto"

    def test_the_process(self):
        try:
            backend("portable")
            assert current_backend() == in_another_thread() == "portable"
            with backend("plain"):
                assert current_backend() == "plain"
                assert in_another_thread() == "portable"
            assert current_backend() == "portable"
        finally:
            backend("auto")

    def test_threads_choose_for_themselves(self):
        names = [name for name in BACKENDS for _ in range(4)]
        everybody, found = threading.Barrier(len(names)), [None] * len(names)

        def choose(place):
            with backend(names[place]):
                everybody.wait()
                found[place] = current_backend()

        threads = [threading.Thread(target=choose, args=[i]) for i in range(len(names))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == names
        assert current_backend() == "auto"

    def test_an_unknown_one(self):
        with pytest.raises(ValueError, match="'cuda'.*portable"):
            backend("cuda")
        assert current_backend() == "auto"


def in_another_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(current_backend()))
    thread.start()
    thread.join()
    return found[0]


@pytest.fixture
def blocked(monkeypatch):
    """A list that grows with each sum that is computed in blocks."""
    calls = []

    def recorded(operator):
        def run(*args):
            calls.append(operator)
            return operator(*args)

        return run

    for kernels in (cpu, native):
        recording = {f: recorded(operator) for f, operator in kernels.OPERATORS.items()}
        monkeypatch.setattr(kernels, "OPERATORS", recording)
    return calls


@both
class TestTheCpuBackend:
    def test_runs_where_it_can(self, cls, blocked):
        conv, inputs = cls(5, 4), graph()
        for name in ("auto", "plain", "cpu", "portable"):
            before = len(blocked)
            with backend(name):
                conv(*inputs)
            assert (len(blocked) > before) == (name in ("auto", "cpu"))

    def test_refuses_other_devices(self, cls):
        conv = cls(5, 4, add_self_loops=False).to("meta")
        x, edge_index = (t.to("meta") for t in graph())
        assert conv(x, edge_index).shape == (9, 4)
        with backend("cpu"), pytest.raises(ValueError, match="meta"):
            conv(x, edge_index)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_refuses_half_precision(self, cls, dtype):
        conv, (x, edge_index) = cls(5, 4).to(dtype), graph()
        assert conv(x.to(dtype), edge_index).dtype == dtype
        with backend("cpu"), pytest.raises(ValueError, match=str(dtype)):
            conv(x.to(dtype), edge_index)


def test_the_native_backend_needs_its_loops(monkeypatch, tmp_path):
    conv, inputs = ExpandingConv(5, 4, re_sum=False), graph()
    with backend("auto"):
        expected = conv(*inputs)
    loops.forget()
    monkeypatch.setattr(loops, "library_file", lambda: tmp_path / "not built")
    try:
        assert torch.allclose(conv(*inputs), expected)
        with backend("native"), pytest.raises(ValueError, match="fullrank.nn.kernels"):
            conv(*inputs)
    finally:
        loops.forget()


@pytest.mark.parametrize("transform", ["jvp", "grad", "vmap", "jacrev", "dual"])
def test_transforms_within_a_compiled_function(transform):
    """Ordinary operations take over: an operator's tangent would silently be zero."""
    torch._dynamo.reset()
    conv = ExpandingConv(5, 4).double()
    x, edge_index = graph()
    x, direction = x.double(), features(9, 5, 7)

    def run(x):
        return conv(x, edge_index)

    def dual(x):
        with torch.autograd.forward_ad.dual_level():
            twin = torch.autograd.forward_ad.make_dual(x, direction)
            return torch.autograd.forward_ad.unpack_dual(run(twin)).tangent

    function = {
        "jvp": lambda x: torch.func.jvp(run, (x,), (direction,))[1],
        "grad": torch.func.grad(lambda x: run(x).square().sum()),
        "vmap": lambda x: torch.vmap(run)(torch.stack([x, direction])),
        "jacrev": torch.func.jacrev(run),
        "dual": dual,
    }[transform]
    found = torch.compile(function, backend="eager")(x)
    assert relative_difference(found, function(x)) <= 1e-10
    assert found.abs().sum() > 0


@both
@with_and_without_re_sum
def test_autocast(cls, re_sum):
    conv = cls(5, 4, re_sum=re_sum, edge_dim=3)
    inputs = graph(edge_dim=3)
    expected = conv(*inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = conv(*inputs)
        with backend("cpu"), pytest.raises(ValueError, match="autocast"):
            conv(*inputs)
    out.float().sum().backward()
    assert relative_difference(out.float(), expected) <= 0.05
    assert all(
        p.grad is not None and p.grad.isfinite().all() for p in conv.parameters()
    )


@pytest.mark.parametrize("name", ["auto", "plain", "portable"])
def test_a_compiled_layer_runs_by_its_backend(name):
    torch._dynamo.reset()
    largest = []

    def measure(module, inputs):
        values = [node.meta.get("example_value") for node in module.graph.nodes]
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        largest.append(max(tensor.numel() for tensor in tensors))
        return module

    s, d, edges = 8, 5, 30
    conv = ExpandingConv(d, 4, s)
    compiled = torch.compile(conv, fullgraph=True, dynamic=False, backend=measure)
    inputs = graph(num_edges=edges)
    with backend(name):
        assert relative_difference(compiled(*inputs), conv(*inputs)) <= 1e-5
    assert (largest[0] >= edges * s * d) == (name == "plain")


@every_backend
@every_layer
@with_and_without_re_sum
@given(graph=graphs(), s=st.integers(1, 32), seed=st.integers(0, 99))
@settings(max_examples=20)
def test_equals_the_plain_formula(name, layer, re_sum, graph, s, seed):
    torch.manual_seed(seed)
    num_nodes, edge_index = graph
    conv = LAYERS[layer](s=s, re_sum=re_sum).double()
    with backend(name):
        assert_exact(conv, features(num_nodes, 5, seed), edge_index)


@every_backend
@every_layer
@with_and_without_re_sum
@given(graph=graphs(), edge_dim=st.integers(1, 12), seed=st.integers(0, 99))
@settings(max_examples=20)
def test_equals_the_plain_formula_with_edge_features(
    name, layer, re_sum, graph, edge_dim, seed
):
    torch.manual_seed(seed)
    num_nodes, edge_index = graph
    conv = LAYERS[layer](re_sum=re_sum, edge_dim=edge_dim).double()
    edge_attr = features(edge_index.size(1), edge_dim, seed + 1)
    with backend(name):
        assert_exact(conv, features(num_nodes, 5, seed), edge_index, edge_attr)


@every_backend
@every_layer
@with_and_without_re_sum
@pytest.mark.parametrize("edge_dim", [None, 2])
class TestDerivatives:
    @pytest.fixture(autouse=True)
    def choose(self, name):
        with backend(name):
            yield

    @pytest.fixture
    def conv(self, layer, re_sum, edge_dim):
        torch.manual_seed(1)
        return LAYERS[layer](re_sum=re_sum, edge_dim=edge_dim).double()

    @pytest.fixture
    def edges(self, edge_dim):
        edge_index = torch.tensor([[0, 1, 2, 3, 3, 1], [1, 2, 3, 3, 0, 2]])
        return edge_index, None if edge_dim is None else features(6, edge_dim, 1)

    @pytest.fixture
    def run(self, conv, edges):
        return lambda x: conv(x, *edges)

    def test_second(self, conv, edges):
        x, weight = features(4, 5, 0).requires_grad_(), conv.mlp[2].weight

        def both(x, weight):
            weights = {"mlp.2.weight": weight}
            return torch.func.functional_call(conv, weights, (x, *edges))

        assert torch.autograd.gradcheck(both, (x, weight))
        assert torch.autograd.gradgradcheck(both, (x, weight))

    def test_tangents_are_differences(self, run):
        x, direction, step = features(4, 5, 0), features(4, 5, 7), 1e-6
        ahead, behind = run(x + step * direction), run(x - step * direction)
        truth = (ahead - behind) / (2 * step)
        _, tangent = torch.func.jvp(run, (x,), (direction,))
        assert relative_difference(tangent, truth) <= 1e-7
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, direction)
            tangent = torch.autograd.forward_ad.unpack_dual(run(dual)).tangent
        assert relative_difference(tangent, truth) <= 1e-7

    def test_jacobians_and_hessians(self, run):
        x = features(4, 5, 0)
        with backend("plain"):
            truth = torch.autograd.functional.jacobian(run, x)
            curvature = torch.autograd.functional.hessian(
                lambda x: run(x).square().sum(), x
            )
        assert relative_difference(torch.func.jacrev(run)(x), truth) <= 1e-10
        assert relative_difference(torch.func.jacfwd(run)(x), truth) <= 1e-10
        found = torch.func.hessian(lambda x: run(x).square().sum())(x)
        assert relative_difference(found, curvature) <= 1e-10

    def test_vmap(self, run):
        many = features(12, 5, 0).view(3, 4, 5)
        truth = torch.stack([run(x) for x in many])
        assert relative_difference(torch.vmap(run)(many), truth) <= 1e-10

    def test_batched_gradients(self, run):
        x = features(4, 5, 0).requires_grad_()
        out = run(x)
        rows = torch.eye(out.numel(), dtype=out.dtype).view(-1, *out.shape)
        (found,) = torch.autograd.grad(
            out, x, rows, is_grads_batched=True, retain_graph=True
        )
        for row, gradient in zip(rows, found, strict=True):
            (truth,) = torch.autograd.grad(out, x, row, retain_graph=True)
            assert relative_difference(gradient, truth) <= 1e-10


class Own(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Renamed(nn.Linear):
    pass


def replaced():
    module = nn.Linear(3, 2)
    module.forward = lambda x: x
    return module


def hooked(kind):
    module = nn.Linear(3, 2)
    getattr(module, f"register_{kind}_hook")(lambda *_: None)
    return module


class TestModules:
    @pytest.mark.parametrize(
        "module",
        [
            nn.Linear(3, 2),
            PyGLinear(3, 2),
            Renamed(3, 2),
            nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2)),
        ],
    )
    def test_what_is_a_linear_layer(self, module):
        assert is_linear(module)

    @pytest.mark.parametrize(
        "module",
        [
            nn.ReLU(),
            Own(3, 2),
            replaced(),
            nn.utils.spectral_norm(nn.Linear(3, 2)),
            prune.random_unstructured(nn.Linear(3, 2), "weight", 1),
            *map(
                hooked,
                ["forward", "forward_pre", "full_backward", "full_backward_pre"],
            ),
        ],
    )
    def test_what_may_do_more(self, module):
        assert not is_linear(module)

    def test_a_removed_hook_does_no_more(self):
        module = nn.ReLU()
        with module.register_forward_hook(lambda *_: None):
            assert not is_replaceable(module, nn.ReLU)
        assert is_replaceable(module, nn.ReLU)


def test_constants():
    assert is_constant(torch.ones(2))
    assert not is_constant(torch.ones(2, requires_grad=True))
    assert not is_constant(torch.ones(2, device="meta"))
    assert not is_constant(torch.eye(2).to_sparse())
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones(2), torch.ones(2))
        assert not is_constant(dual)
