import pytest
import torch

from fullrank.nn import OnePlusTanhCoefficients, TanhCoefficients, backend


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


def test_one_plus_tanh(local):
    f = OnePlusTanhCoefficients(5, 3)
    pairs = torch.cat([local.x_dst[local.dst], local.x_src[local.src]], dim=1)
    truth = 1 + torch.tanh(pairs @ f.lin.weight.t() + f.lin.bias)
    assert torch.allclose(f(local), truth, atol=1e-6)


@pytest.mark.parametrize("widths", [(5, 3), (-1, 3), (-1, -1)])
def test_balanced_starts_with_a_bias_of_one(local, widths):
    f = TanhCoefficients(*widths, init="balanced")
    f(local)
    assert f.lin.bias.eq(1).all()
    f.lin.bias.data.zero_()
    f.reset_parameters()
    assert f.lin.bias.eq(1).all()


def test_lazy_balanced_keeps_a_bias_that_is_loaded(local):
    trained = TanhCoefficients(5, 5)
    f = TanhCoefficients(-1, -1, init="balanced")
    f.load_state_dict(trained.state_dict())
    assert torch.equal(f(local), trained(local))


def test_unknown_init():
    with pytest.raises(ValueError, match="'orthogonal'"):
        TanhCoefficients(5, 3, init="orthogonal")
