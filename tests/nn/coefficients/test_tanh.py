import pytest
import torch

from fullrank.nn import TanhCoefficients, backend


@pytest.mark.parametrize("name", ["auto", "plain"])
def test_tanh(local, name):
    f = TanhCoefficients(5, 3)
    pairs = torch.cat([local.x_dst[local.dst], local.x_src[local.src]], dim=1)
    truth = torch.tanh(pairs @ f.lin.weight.t() + f.lin.bias)
    with backend(name):
        assert torch.allclose(f(local), truth, atol=1e-6)


def test_widths(local):
    with pytest.raises(ValueError, match="num_aggregators.*0"):
        TanhCoefficients(5, 0)
    with pytest.raises(ValueError, match="in_channels.*-2"):
        TanhCoefficients(-2, 1)
    with pytest.raises(ValueError, match="6.*5.*5"):
        TanhCoefficients(3, 2)(local)
