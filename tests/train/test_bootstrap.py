import math

import numpy as np
import pytest
import torch

from fullrank.train.bootstrap import bootstrap


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution():
    values = torch.from_numpy(np.random.default_rng(0).normal(3, 2, 400))
    found = bootstrap(lambda rows: {"mean": float(values[rows].mean())}, 400)["mean"]
    half = 1.96 * float(values.std()) / math.sqrt(400)
    assert found.value == float(values.mean())
    assert found.low == pytest.approx(found.value - half, abs=0.03)
    assert found.high == pytest.approx(found.value + half, abs=0.03)


def test_samples_without_a_value_do_not_count():
    def measured(rows):
        return {"nothing": math.nan, "some": math.nan if 0 in rows else 1.0}

    found = bootstrap(measured, 3, resamples=50)
    assert math.isnan(found["nothing"].low)
    assert (found["some"].low, found["some"].high) == (1.0, 1.0)
