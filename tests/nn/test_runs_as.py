import pytest
from torch import nn
from torch.nn.utils import prune
from torch_geometric.nn.dense.linear import Linear as PyGLinear

from fullrank.nn.kernels.dispatch import is_linear
from fullrank.nn.kernels.dispatch import is_replaceable as runs_as


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


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(3, 2),
        PyGLinear(3, 2),
        Renamed(3, 2),
        nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2)),
    ],
)
def test_what_runs_as_a_linear_layer(module):
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
def test_what_may_do_more(module):
    assert not is_linear(module)


def test_a_removed_hook_does_no_more():
    module = nn.ReLU()
    with module.register_forward_hook(lambda *_: None):
        assert not runs_as(module, nn.ReLU)
    assert runs_as(module, nn.ReLU)
