import numpy as np
import pytest
import torch
from sklearn import metrics as sklearn

from fullrank.train.metrics import EpochOutputs, measure, subtoken_scores
from train.specs import spec


class NoEvaluator:
    """A data set that leaves the measuring to us."""


def measured(the_spec, predictions, labels):
    graphs = torch.arange(len(labels))
    return measure(the_spec, predictions, labels, graphs, NoEvaluator())


def test_an_epoch_of_one_graph_keeps_its_shape():
    epoch, one = EpochOutputs(), torch.ones(1)
    epoch.update(torch.tensor(3.0), torch.tensor(2.0), one[:, None], one[:, None], one)
    found = epoch.compute()
    assert (found.loss, found.graphs.shape) == (1.5, (1,))
    assert found.predictions.shape == found.labels.shape == (1, 1)


def test_regression_against_the_formulas():
    rng = np.random.default_rng(0)
    y, p = rng.normal(5, 3, (50, 1)), rng.normal(5, 3, (50, 1))
    found = measured(spec("regression"), torch.tensor(p), torch.tensor(y))
    assert found["mae"] == pytest.approx(np.abs(y - p).mean())
    assert found["rmse"] == pytest.approx(np.sqrt(((y - p) ** 2).mean()))
    r2 = 1 - ((y - p) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    assert found["r2"] == pytest.approx(r2)


def test_several_targets_with_missing_values():
    rng = np.random.default_rng(1)
    y, p = rng.normal(size=(40, 2)) * [1, 100], rng.normal(size=(40, 2))
    y[::3, 0] = np.nan
    the_spec = spec("regression", 2, std=(1.0, 100.0))
    found = measured(the_spec, torch.tensor(p), torch.tensor(y))
    maes = np.nanmean(np.abs(y - p), axis=0)
    assert found["mae/t0"] == pytest.approx(maes[0])
    assert found["mae/t1"] == pytest.approx(maes[1])
    assert found["mae"] == pytest.approx(maes.mean())
    assert found["std_mae"] == pytest.approx((maes / [1, 100]).mean())
    assert the_spec.main_metric == "std_mae"


def test_multi_label_equals_ogbs_evaluator():
    from ogb.graphproppred import Evaluator

    rng = np.random.default_rng(2)
    y = (rng.random((60, 128)) < 0.2).astype(float)
    y[rng.random(y.shape) < 0.3] = np.nan
    y[:, 5] = 0  # a target without positives does not count
    p = rng.random(y.shape)
    found = measured(spec("binary", 128), torch.tensor(p), torch.tensor(y))
    truth = Evaluator("ogbg-molpcba").eval({"y_true": y, "y_pred": p})
    assert found["ap"] == pytest.approx(truth["ap"])
    tox = Evaluator("ogbg-moltox21").eval({"y_true": y[:, :12], "y_pred": p[:, :12]})
    found = measured(spec("binary", 12), *(torch.tensor(a[:, :12]) for a in (p, y)))
    assert found["rocauc"] == pytest.approx(tox["rocauc"])
    known = ~np.isnan(y[:, :12])
    right = (p[:, :12] > 0.5) == (y[:, :12] == 1)
    assert found["accuracy"] == pytest.approx(right[known].mean())


def test_multiclass_against_scikit_learn():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 90)
    p = rng.dirichlet([1, 1, 1], 90)
    found = measured(spec("multiclass", num_classes=3), *map(torch.tensor, (p, y)))
    assert found["accuracy"] == pytest.approx((p.argmax(1) == y).mean())
    assert found["rocauc"] == pytest.approx(
        sklearn.roc_auc_score(y, p, multi_class="ovr", average="macro")
    )
    each = [sklearn.average_precision_score(y == c, p[:, c]) for c in range(3)]
    assert found["ap"] == pytest.approx(np.mean(each))


def test_class_that_does_not_occur_is_left_out():
    rng = np.random.default_rng(4)
    y = rng.integers(0, 2, 50)  # class 2 never
    p = rng.dirichlet([1, 1, 1], 50)
    found = measured(spec("multiclass", num_classes=3), *map(torch.tensor, (p, y)))
    each = [sklearn.roc_auc_score(y == c, p[:, c]) for c in range(2)]
    assert found["rocauc"] == pytest.approx(np.mean(each))


@pytest.mark.filterwarnings("error")
def test_areas_of_one_class_are_undefined():
    y, p = torch.ones(9).long(), torch.full((9, 2), 0.5)
    found = measured(spec("multiclass", num_classes=2), p, y)
    assert np.isnan([found["rocauc"], found["ap"]]).all()
    # Nor is it a warning that a class does not occur.
    measured(spec("multiclass", num_classes=3), torch.rand(4, 3), torch.arange(4) % 2)


def test_subtokens_equal_ogbs_evaluator():
    from ogb.graphproppred import Evaluator

    rng = np.random.default_rng(5)
    words = np.array(list("abcdefgh"))
    true = [list(rng.choice(words, rng.integers(1, 8))) for _ in range(60)]
    guessed = [list(rng.choice(words, rng.integers(0, 6))) for _ in range(60)]
    truth = Evaluator("ogbg-code2").eval({"seq_ref": true, "seq_pred": guessed})
    found = subtoken_scores(true, guessed)
    assert found["f1"] == pytest.approx(truth["F1"])
    assert found["precision"] == pytest.approx(truth["precision"])
    assert found["recall"] == pytest.approx(truth["recall"])
