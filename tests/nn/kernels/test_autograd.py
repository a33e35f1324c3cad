"""A kernel with a value and a gradient has all other derivatives as well."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from fullrank.nn.kernels.autograd import Kernel, is_in_memory, register
from nn.strategies import features


def ordinary(x: torch.Tensor, y: torch.Tensor, power: int) -> torch.Tensor:
    return x.exp() * y**power


class Product(Kernel):
    """Counts its own runs, and keeps what it computed on the way."""

    runs = {"forward": 0, "backward": 0}  # noqa: RUF012

    @staticmethod
    def keep(x, y, power):
        return [torch.empty_like(x)]

    @staticmethod
    def forward(kept, x, y, power):
        Product.runs["forward"] += 1
        exp = torch.exp(x, out=kept[0])
        return exp * y**power

    @staticmethod
    def backward(needed, grad, kept, x, y, power):
        Product.runs["backward"] += 1
        (exp,) = kept
        return grad * exp * y**power, grad * exp * power * y ** (power - 1), None


OPERATOR = register("test", ordinary, Product)


def product(x, y):
    return OPERATOR(x, y, 3)


@pytest.fixture
def xy():
    return features(3, 2, 0), features(3, 2, 1)


@pytest.fixture(autouse=True)
def runs():
    Product.runs.update(forward=0, backward=0)
    return Product.runs


def test_the_kernel_runs(xy, runs):
    x, y = (t.requires_grad_() for t in xy)
    out = product(x, y)
    torch.testing.assert_close(out, ordinary(x, y, 3))
    found = torch.autograd.grad(out.sum(), (x, y))
    truth = torch.autograd.grad(ordinary(x, y, 3).sum(), (x, y))
    torch.testing.assert_close(found, truth)
    assert runs == {"forward": 1, "backward": 1}


def test_one_argument_alone(xy):
    x, y = xy[0], xy[1].requires_grad_()
    (found,) = torch.autograd.grad(product(x, y).sum(), y)
    torch.testing.assert_close(found, 3 * x.exp() * y**2)


def test_derivatives_of_any_order_and_mode(xy):
    x, y = (t.requires_grad_() for t in xy)
    assert torch.autograd.gradcheck(product, (x, y), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(product, (x, y))

    def third(x):
        (first,) = torch.autograd.grad(product(x, y).sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x, create_graph=True)[0]

    assert torch.autograd.gradcheck(third, (x,))


@pytest.mark.parametrize(
    "transform", [torch.func.jacrev, torch.func.jacfwd, torch.func.hessian]
)
def test_torch_func(xy, transform):
    both = (0, 1)
    found = transform(product, both)(*xy)
    truth = transform(lambda x, y: ordinary(x, y, 3), both)(*xy)
    torch.testing.assert_close(found, truth)


def test_vmap_and_its_gradients(xy):
    x, y = xy
    torch.testing.assert_close(torch.vmap(product)(x, y), ordinary(x, y, 3))
    torch.testing.assert_close(
        torch.vmap(product, (0, None))(x, y[0]), ordinary(x, y[0], 3)
    )
    per_sample = torch.vmap(torch.func.grad(lambda x, y: product(x, y).sum()))(x, y)
    torch.testing.assert_close(per_sample, ordinary(x, y, 3))  # d exp / dx = exp
    x.requires_grad_()
    (found,) = torch.autograd.grad(torch.vmap(product)(x, y).sum(), x)
    torch.testing.assert_close(found, ordinary(x, y, 3))


def test_batched_gradients(xy):
    x, y = xy[0].requires_grad_(), xy[1]
    out = product(x, y)
    rows = torch.eye(6, dtype=out.dtype).view(6, 3, 2)
    (found,) = torch.autograd.grad(out, x, rows, is_grads_batched=True)
    torch.testing.assert_close(found, rows * ordinary(x, y, 3))


def test_the_tangent_of_a_gradient(xy):
    x, y = xy
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x)).requires_grad_()
        (gradient,) = torch.autograd.grad(product(dual, y).sum(), dual)
        tangent = forward_ad.unpack_dual(gradient).tangent
    torch.testing.assert_close(tangent, ordinary(x, y, 3))


def test_saved_tensors_and_checkpoints(xy, runs):
    x, y = (t.requires_grad_() for t in xy)
    packed = []

    def pack(tensor):
        packed.append(tensor.shape)
        return tensor.clone()

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        out = product(x, y)
    (found,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(found, ordinary(x, y, 3))
    assert packed == [(3, 2)] * 3
    out = checkpoint(product, x, y, use_reentrant=False)
    (found,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(found, ordinary(x, y, 3))
    assert runs == {"forward": 3, "backward": 2}


def test_what_lies_in_memory():
    seen = []

    def look(x):
        seen.append(is_in_memory(x))
        return x.sum()

    torch.vmap(look)(torch.ones(2, 2))
    torch.func.grad(look)(torch.ones(2))
    assert seen == [False, False]
    assert is_in_memory(torch.ones(3)[1:])
    assert not is_in_memory(torch.eye(2).to_sparse())
