import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from fullrank.errors import ConfigError
from fullrank.train.losses import Loss
from train.specs import spec

TASKS = {
    "regression": spec("regression", 3),
    "binary": spec("binary", 3, class_weights=(0.5, 1.0, 4.0)),
    "multiclass": spec("multiclass", num_classes=4, class_weights=(1.0, 2.0, 0.5, 3.0)),
    "tokens": spec("tokens", num_classes=6, num_tokens=5),
}


def example(task, size, seed=0):
    """Outputs and labels, a third of which are missing where that can be."""
    torch.manual_seed(seed)
    if task == "multiclass":
        return torch.randn(size, 4).double(), torch.randint(4, (size,))
    if task == "tokens":
        return torch.randn(size, 5, 6).double(), torch.randint(6, (size, 5))
    target = torch.randn(size, 3).double()
    if task == "binary":
        target = (target > 0).double()
    target[torch.rand(size, 3) < 0.3] = torch.nan
    return torch.randn(size, 3).double(), target


@pytest.mark.parametrize("name", ["mse", "mae", "huber"])
def test_regression_counts_known_values_only(name):
    output, target = example("regression", 20)
    total, count = Loss(TASKS["regression"], name)(output, target)
    known = ~target.isnan()
    truth = {"mse": F.mse_loss, "mae": F.l1_loss, "huber": F.huber_loss}[name]
    torch.testing.assert_close(total / count, truth(output[known], target[known]))


def test_binary_weighs_the_positive_labels_of_each_target():
    output, target = example("binary", 20)
    total, count = Loss(TASKS["binary"])(output, target)
    p, weight = output.sigmoid(), torch.tensor([0.5, 1.0, 4.0]).double()
    each = -(weight * target * p.log() + (1 - target) * (1 - p).log())
    torch.testing.assert_close(total / count, each[~target.isnan()].mean())


def test_multiclass_is_the_weighted_mean():
    output, target = example("multiclass", 20)
    loss = Loss(TASKS["multiclass"]).double()
    total, count = loss(output, target)
    weight = torch.tensor([1.0, 2.0, 0.5, 3.0]).double()
    torch.testing.assert_close(total / count, F.cross_entropy(output, target, weight))


def test_tokens_average_over_positions():
    output, target = example("tokens", 20)
    total, count = Loss(TASKS["tokens"])(output, target)
    each = [F.cross_entropy(output[:, k], target[:, k]) for k in range(5)]
    torch.testing.assert_close(total / count, torch.stack(each).mean())


@given(
    task=st.sampled_from(list(TASKS)), cut=st.integers(1, 18), seed=st.integers(0, 99)
)
def test_parts_of_a_batch_add_up_to_the_whole(task, cut, seed):
    output, target = example(task, 19, seed)
    loss = Loss(TASKS[task]).double()
    whole = loss(output, target)
    parts = [loss(output[:cut], target[:cut]), loss(output[cut:], target[cut:])]
    for index in (0, 1):
        added = parts[0][index] + parts[1][index]
        torch.testing.assert_close(added, whole[index])


def test_missing_labels_have_no_gradient():
    output, target = example("binary", 20)
    output.requires_grad_()
    Loss(TASKS["binary"])(output, target)[0].backward()
    assert (output.grad[target.isnan()] == 0).all()
    assert (output.grad[~target.isnan()] != 0).all()


@pytest.mark.parametrize(
    ("task", "name"), [("regression", "cross_entropy"), ("multiclass", "mse")]
)
def test_loss_of_another_task_is_refused(task, name):
    with pytest.raises(ConfigError, match=f"{name!r}.*{task}"):
        Loss(TASKS[task], name)
