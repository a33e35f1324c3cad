"""What holds for the kernels of every backend."""

import io

import pytest
import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from fullrank.bench.measure import memory_mb, saved_mb
from fullrank.nn import backend
from fullrank.nn.kernels import cpu, native, portable, sums
from fullrank.testing import relative_difference
from nn.both_layers import LAYERS, assert_exact, both, graph
from nn.kernels.sums import NATIVE, SUMS, largest_tensor_of_a_layer
from nn.strategies import features

pytestmark = pytest.mark.usefixtures("with_loops")

KERNELS = {"cpu": cpu, "native": native, "portable": portable}
WITH_KERNEL = [name for name in SUMS if name != "weighted_edge_rows"]

every_kernel = pytest.mark.parametrize("kernels", ["cpu", NATIVE, "portable"])
every_sum = pytest.mark.parametrize("name", WITH_KERNEL)


def pick(kernels, name):
    function = getattr(sums, name.split()[0])
    operators = cpu.OPERATORS | KERNELS[kernels].OPERATORS
    return operators[function], function


def floats_of(args):
    return [x for x in args if isinstance(x, torch.Tensor) and x.is_floating_point()]


@every_kernel
@every_sum
def test_sum_with_all_gradients(kernels, name):
    args, truth = SUMS[name]()
    floats = [x.requires_grad_() for x in floats_of(args)]
    gradients = []
    for sum_of in pick(kernels, name):
        found = sum_of(*args)
        assert relative_difference(found, truth) <= 1e-12
        weights = torch.arange(found.numel()).double().cos().view_as(found)
        gradients.append(torch.autograd.grad((found * weights).sum(), floats))
    for ours, plain in zip(*gradients, strict=True):
        assert relative_difference(ours, plain) <= 1e-12


@every_kernel
@every_sum
def test_gradients_by_one_argument_at_a_time(kernels, name):
    args, _ = SUMS[name]()
    for x in floats_of(args):
        x.requires_grad_()
        found = [
            torch.autograd.grad(sum_of(*args).square().sum(), x)[0]
            for sum_of in pick(kernels, name)
        ]
        assert relative_difference(*found) <= 1e-12
        x.requires_grad_(False)


@every_kernel
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_without_any_pair(kernels, name):
    conv = LAYERS[name](edge_dim=3, add_self_loops=False).double()
    x, none = graph()[0].double().requires_grad_(), torch.zeros(2, 0, dtype=torch.long)
    with backend(kernels):
        conv(x, none, torch.zeros(0, 3).double()).sum().backward()
    assert not x.grad.any()


@every_kernel
@every_sum
def test_operators_pass_opcheck(kernels, name):
    args, truth = SUMS[name]()
    operator, _ = pick(kernels, name)
    _, *kept = operator.forward(*args)
    needed = [isinstance(x, torch.Tensor) and x.is_floating_point() for x in args]
    torch.library.opcheck(operator.backward.default, (needed, truth, kept, *args))
    for x in floats_of(args):
        x.requires_grad_()
    torch.library.opcheck(operator.forward.default, args)


@every_kernel
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("re_sum", [True, False])
@pytest.mark.parametrize("nodes", [30, 1000], ids=["dense", "sparse"])
def test_several_blocks_equal_one(kernels, name, re_sum, nodes, monkeypatch):
    conv = LAYERS[name](re_sum=re_sum).double()
    x, edge_index = features(nodes, 5, 0), torch.randint(nodes, (2, 2500))
    with backend(kernels):
        whole = conv(x, edge_index)
        for module in (cpu, portable):
            monkeypatch.setattr(module, "BLOCK_BYTES", 40 * 256)
        assert relative_difference(conv(x, edge_index), whole) <= 1e-12
        assert_exact(conv, x, edge_index)


@every_kernel
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("re_sum", [True, False])
def test_a_hub(kernels, name, re_sum):
    spokes = torch.arange(1, 10_001)
    hub = torch.zeros_like(spokes)
    edge_index = torch.cat([torch.stack([spokes, hub]), torch.stack([hub, spokes])], 1)
    conv = LAYERS[name](re_sum=re_sum, edge_dim=2).double()
    edge_attr = features(edge_index.size(1), 2, 1)
    with backend(kernels):
        assert_exact(conv, features(10_001, 5, 0), edge_index, edge_attr)


@every_kernel
@pytest.mark.parametrize("edge_dim", [None, 3, 16, (5, 6, 2)])
@pytest.mark.parametrize("double_backward", [False, True])
@pytest.mark.parametrize(
    ("re_sum", "activation"), [(True, "relu"), (True, "tanh"), (False, "relu")]
)
def test_no_tensor_of_edges_times_s_d(
    kernels, edge_dim, double_backward, re_sum, activation
):
    largest, edges_s_d = largest_tensor_of_a_layer(
        kernels, edge_dim, re_sum, activation, double_backward
    )
    assert largest < edges_s_d / 2


@every_kernel
@both
@pytest.mark.parametrize("re_sum", [True, False])
def test_deterministic_algorithms(kernels, cls, re_sum):
    conv = cls(5, 4, re_sum=re_sum, edge_dim=3)
    inputs = graph(edge_dim=3, num_edges=500)
    torch.use_deterministic_algorithms(True)
    try:
        results = []
        for _ in range(2):
            conv.zero_grad()
            with backend(kernels):
                out = conv(*inputs)
            out.sum().backward()
            results.append([out, *(p.grad for p in conv.parameters())])
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("re_sum", [True, False])
@both
def test_the_portable_kernels_keep_no_edges_times_d(cls, re_sum):
    nodes, edges, d = 500, 20_000, 64
    conv = cls(d, d, re_sum=re_sum)
    x, edge_index = torch.randn(nodes, d), torch.randint(nodes, (2, edges))
    x.requires_grad_()

    def kept(name):
        with backend(name):
            return saved_mb(lambda: conv(x, edge_index))

    edges_times_d = 4e-6 * edges * d
    assert kept("portable") < edges_times_d / 2
    assert kept("plain") > 3 * edges_times_d


@every_kernel
@both
def test_checkpoints_free_what_is_kept(kernels, cls):
    convs = [cls(16, 16) for _ in range(6)]
    x, edge_index = torch.randn(50, 16), torch.randint(50, (2, 20_000))
    x.requires_grad_()

    def run(wrap):
        h = x
        for conv in convs:
            h = wrap(conv, h, edge_index)
        return h

    def call(conv, *inputs):
        return conv(*inputs)

    def checkpointed(conv, *inputs):
        return checkpoint(conv, *inputs, use_reentrant=False)

    with backend(kernels):
        truth, found = (
            torch.autograd.grad(run(wrap).sum(), x) for wrap in (call, checkpointed)
        )
        assert torch.equal(*truth, *found)
        _, held = memory_mb(lambda: run(call))
        _, held_by_checkpoints = memory_mb(lambda: run(checkpointed))
    assert held > 6 * 4e-6 * len(edge_index[0])
    assert held_by_checkpoints < held / 20


def to_bytes(x):
    file = io.BytesIO()
    torch.save(x.detach().clone(), file)
    return file


def from_bytes(file):
    file.seek(0)
    return torch.load(file)


@every_kernel
@both
@pytest.mark.parametrize("re_sum", [True, False])
def test_activations_can_be_offloaded(kernels, cls, re_sum):
    conv = cls(16, 16, re_sum=re_sum)
    x, edge_index = torch.randn(50, 16), torch.randint(50, (2, 20_000))
    x.requires_grad_()

    def run(*hooks):
        with backend(kernels):
            if not hooks:
                return conv(x, edge_index)
            with hooks[0]:
                return conv(x, edge_index)

    (truth,) = torch.autograd.grad(run().sum(), x)
    for hooks in (save_on_cpu(), saved_tensors_hooks(to_bytes, from_bytes)):
        (found,) = torch.autograd.grad(run(hooks).sum(), x)
        assert torch.equal(found, truth)
    _, held = memory_mb(run)
    _, left = memory_mb(lambda: run(saved_tensors_hooks(to_bytes, from_bytes)))
    assert held > 4e-6 * len(edge_index[0])
    assert left < held / 20
