"""The compiled loops are built once, and compute tanh to the last digits."""

import pytest
import torch

from fullrank.nn.kernels import loops, sums
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
