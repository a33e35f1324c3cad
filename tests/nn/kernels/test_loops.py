"""The compiled loops are built once, and compute tanh to the last digits."""

import pytest
import torch

from fullrank.nn.kernels import cpu, loops, sums
from fullrank.nn.kernels.native import OPERATORS
from nn.kernels.sums import needs_compiler


def test_the_library_belongs_to_its_source_and_processor(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = loops.library_file()
    assert before.parent == tmp_path / "fullrank"
    assert loops.library_file() == before
    source = tmp_path / "native.cpp"
    source.write_text(loops.SOURCE.read_text() + "// changed")
    monkeypatch.setattr(loops, "SOURCE", source)
    assert loops.library_file() != before


@needs_compiler
@pytest.mark.usefixtures("with_loops")
@pytest.mark.parametrize(
    ("dtype", "error"), [(torch.float32, 5e-7), (torch.float64, 1e-15)]
)
def test_tanh(dtype, error):
    a = torch.cat([torch.linspace(-12, 12, 10_007), torch.tensor([1e-30, 0.0, 1e6])])
    a = a.to(dtype)[None]
    one, zero = torch.ones_like(a), torch.zeros(1, dtype=torch.long)
    ptr = torch.tensor([0, 1])
    found = OPERATORS[sums.combine_mlp_sum](
        torch.zeros_like(a), a, one, *(None,) * 7, zero, zero, 1, ptr
    )
    truth = a.double().tanh()
    assert ((found - truth).abs() <= error * truth.abs()).all()


@needs_compiler
@pytest.mark.usefixtures("with_loops")
def test_nan_stays_nan():
    a = torch.tensor([[float("nan"), 1.0]])
    zero, ptr = torch.zeros(1, dtype=torch.long), torch.tensor([0, 1])
    args = (torch.zeros_like(a), a, torch.ones_like(a), *(None,) * 7, zero, zero, 1)
    assert OPERATORS[sums.combine_mlp_sum](*args, ptr).isnan().tolist() == [
        [True, False]
    ]


@needs_compiler
@pytest.mark.usefixtures("with_loops")
@pytest.mark.parametrize("s", [1, 4, 7])  # the loop takes four coefficients at a time
@pytest.mark.parametrize("q", [None, 2])
def test_any_number_of_coefficients(s, q):
    args = _expansion(s, q)
    grads = []
    for operators in (OPERATORS, cpu.OPERATORS):
        given = [x.clone().requires_grad_() for x in args if x is not None]
        rest = iter(given)
        filled = [None if x is None else next(rest) for x in args]
        out = operators[sums.expand_mlp_sum](*filled, *_pairs())
        grads.append([out, *torch.autograd.grad(out.square().sum(), given)])
    for found, expected in zip(*grads, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@needs_compiler
@pytest.mark.usefixtures("with_loops")
def test_nan_passes_through_the_relus():
    values, *rest = _expansion(4, None)
    values[3, 2, 0] = float("nan")
    src, dst, *_ = _pairs()
    found = OPERATORS[sums.expand_mlp_sum](values, *rest, *_pairs())
    reached = torch.zeros(NODES, dtype=torch.bool)
    reached[dst[src == 3]] = True
    assert (found.isnan().all(1) == reached).all()


NODES, PAIRS = 40, 3000  # several blocks of pairs


def _pairs():
    generator = torch.Generator().manual_seed(0)
    src = torch.randint(NODES, (PAIRS,), generator=generator).sort().values
    dst = torch.randint(NODES // 2, (PAIRS,), generator=generator)
    return src, dst, NODES, torch.searchsorted(src, torch.arange(NODES + 1))


def _expansion(s, q, d=500):
    shapes = [(NODES, s, d), (PAIRS, s), q and (PAIRS, q), q and (s, q, d)]
    shapes += [(d,), (5, d), (5,)]
    generator = torch.Generator().manual_seed(1)
    return [
        None if shape is None else torch.randn(shape, generator=generator).double()
        for shape in shapes
    ]
