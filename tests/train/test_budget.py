import pytest

from fullrank.train.budget import LONGEST, Budget, within
from fullrank.train.files import write_json
from train.samples import small_config

pytestmark = pytest.mark.usefixtures("one_thread")


def test_more_time_is_more_epochs_and_the_same_time_the_same_epochs(tmp_path):
    config = small_config(tmp_path, training={"epochs": 50})
    dataset = config.load_data()
    little, much = (within(config, dataset, seconds) for seconds in (1e-3, 1e9))
    assert little.training.epochs == 1
    assert much.training.epochs == LONGEST * 50
    (file,) = [f for f in config.runs.iterdir() if Budget.read(f).seconds == 1e-3]
    stored = Budget.read(file).model_copy(update={"epochs": 7})
    write_json(file, stored.model_dump())
    assert within(config, dataset, 1e-3).training.epochs == 7
