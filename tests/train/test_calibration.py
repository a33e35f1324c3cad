import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.linear_model import LogisticRegression

from fullrank.errors import ConfigError
from fullrank.train.calibration import Calibration, conformal_quantile

ERRORS = arrays(
    float, st.integers(1, 60), elements=st.floats(0, 10, allow_subnormal=False)
)


@given(ERRORS, st.integers(1, 99))
def test_the_quantile_is_its_definition(errors, percent):
    """The smallest error with at least (n + 1) c of the n errors at or below it."""
    needed = (len(errors) + 1) * percent  # in hundredths, so that it is exact
    enough = [e for e in errors if 100 * (errors <= e).sum() >= needed]
    truth = min(enough, default=math.inf)
    assert conformal_quantile(errors, percent / 100) == truth


def test_coverage_is_what_was_asked_for_whatever_the_errors():
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(2000):
        errors = np.abs(rng.standard_cauchy(40))  # without a mean even
        covered.append(errors[0] <= conformal_quantile(errors[1:], 0.9))
    # (k / (n + 1) with k = 36 of 39: exactly 0.9.
    assert np.mean(covered) == pytest.approx(0.9, abs=0.02)


def regression(predictions, labels, names=("a", "b")):
    return Calibration("regression", names, np.array(predictions), np.array(labels))


def test_half_widths_of_each_target_ignore_what_is_missing():
    rng = np.random.default_rng(0)
    predictions, labels = rng.normal(size=(2, 50, 2))
    labels[::3, 1] = np.nan
    found = regression(predictions, labels).half_widths(80)
    first = np.sort(np.abs(predictions - labels)[:, 0])
    assert found[0] == first[math.ceil(51 * 0.8) - 1]
    known = np.abs(predictions - labels)[~np.isnan(labels[:, 1]), 1]
    assert found[1] == np.sort(known)[math.ceil((len(known) + 1) * 0.8) - 1]


def test_too_few_graphs_are_counted():
    few = regression(np.zeros((8, 1)), np.ones((8, 1)), ["logS"])
    with pytest.raises(ConfigError, match="8.*'logS'.*9"):
        few.half_widths(90)
    assert few.half_widths(80) == [1]


@pytest.mark.parametrize("coverage", [0, 0.5, 99.5, 100, -3, math.nan])
def test_a_coverage_that_is_none(coverage):
    with pytest.raises(ConfigError, match=f"{coverage:g}"):
        regression(np.zeros((200, 2)), np.zeros((200, 2))).half_widths(coverage)


def calibrated(calibration, probabilities):
    return calibration.calibrated(torch.from_numpy(probabilities)).numpy()


def overconfident(logits, factor):
    """Labels from these logits, and probabilities that claim to know more."""
    rng = np.random.default_rng(1)
    labels = (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(float)
    return 1 / (1 + np.exp(-factor * logits)), labels


def test_binary_probabilities_are_those_of_a_logistic_regression():
    logits = np.random.default_rng(0).normal(-1, 1.5, size=(4000, 2))
    probabilities, labels = overconfident(logits, 4.0)
    labels[::5, 1] = np.nan
    calibration = Calibration("binary", ["a", "b"], probabilities, labels)
    new = np.array([[0.9, 0.2], [0.5, 0.999], [0.01, 0.5]])
    found = calibrated(calibration, new)
    for t in range(2):
        known = ~np.isnan(labels[:, t])
        x = np.log(probabilities / (1 - probabilities))[known, t, None]
        truth = LogisticRegression(C=1e9).fit(x, labels[known, t])
        z = np.log(new[:, t] / (1 - new[:, t]))[:, None]
        np.testing.assert_allclose(found[:, t], truth.predict_proba(z)[:, 1], atol=3e-3)
        assert truth.coef_[0, 0] == pytest.approx(0.25, rel=0.1)


def test_labels_of_one_kind_change_nothing():
    calibration = Calibration("binary", ["a"], np.full((20, 1), 0.3), np.ones((20, 1)))
    np.testing.assert_allclose(calibrated(calibration, np.array([[0.7]])), 0.7)


def test_classes_are_scaled_by_the_temperature_they_were_sharpened_with():
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 1.5, size=(20_000, 3))
    true = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = np.array([rng.choice(3, p=p) for p in true])
    sharp = np.exp(3 * logits) / np.exp(3 * logits).sum(1, keepdims=True)
    calibration = Calibration("multiclass", ["kind"], sharp, labels)
    np.testing.assert_allclose(calibrated(calibration, sharp), true, atol=0.02)


def test_classes_have_no_intervals():
    calibration = Calibration("binary", ["a"], np.full((20, 1), 0.3), np.ones((20, 1)))
    with pytest.raises(ConfigError, match="binary"):
        calibration.half_widths(90)
