import optuna
import pytest
import yaml
from optuna.trial import TrialState

from browser import drawn, loaded_from_elsewhere, opened
from fullrank.errors import ConfigError
from fullrank.report.tune_page import write_tune_page
from fullrank.train import RunFolder, load_config
from fullrank.train.tune import SPACE, read_space, tune
from train.samples import small_config

pytestmark = pytest.mark.usefixtures("one_thread")
QUICK = {
    "optimizer.lr": {"low": 1e-4, "high": 1e-2, "log": True},
    "model.hidden": [4, 8],
}


def test_a_search_ends_in_the_best_configuration_and_goes_on(tmp_path):
    config = small_config(tmp_path, training={"epochs": 1})
    first = tune(config, trials=2, space=QUICK)
    own, *_ = first.study.get_trials()
    assert own.params == {"optimizer.lr": 1e-3, "model.hidden": "8"}  # as configured
    run = RunFolder(config.runs / first.summary.experiment)
    assert run.result.valid["mae"] == first.study.best_value
    best = load_config(first.folder / "best.yaml")
    assert best.optimizer.lr == float(first.study.best_params["optimizer.lr"])

    # A trial that was killed stays behind, and does not count.
    first.study.ask()
    again = tune(config, trials=4, space=QUICK)
    states = [trial.state for trial in again.study.get_trials()]
    assert states.count(TrialState.COMPLETE) == 4
    assert states.count(TrialState.RUNNING) == 1
    assert len(tune(config, trials=3, space=QUICK).study.get_trials()) == len(states)

    page = write_tune_page(again)
    with opened(page, tmp_path / "profile") as browser:
        drawn(browser, 3)  # history, importance, parallel coordinates
        assert loaded_from_elsewhere(browser) == []


def test_a_database_is_shared(tmp_path):
    url = f"sqlite:///{tmp_path / 'study.db'}"
    config = small_config(tmp_path, training={"epochs": 1})
    tuned = tune(config, trials=1, space=QUICK, storage=url)
    other = optuna.load_study(study_name=tuned.folder.name, storage=url)
    assert other.best_value == tuned.study.best_value
    with pytest.raises(ConfigError, match="nothing://"):
        tune(config, space=QUICK, storage="nothing://here")


@pytest.mark.parametrize(
    ("space", "word"),
    [
        ({}, "empty"),
        ({"model.hiden": [3]}, "hiden"),
        ({"model.hidden": [8, 0]}, "0"),
        ({"model.hidden": 8}, "8"),
        ({"model.hidden": {"low": 1}}, "low"),
    ],
)
def test_a_space_that_cannot_be_searched(tmp_path, space, word):
    with pytest.raises(ConfigError, match=word):
        tune(small_config(tmp_path), space=space)


def test_a_killed_process_leaves_half_a_line(tmp_path):
    config = small_config(tmp_path, training={"epochs": 1})
    study = tune(config, trials=1, space=QUICK).folder / "study.journal"
    whole = study.read_bytes()
    study.write_bytes(whole + b'{"op_code": 4, "wor')
    again = tune(config, trials=2, space=QUICK).study
    assert len(again.get_trials(states=[TrialState.COMPLETE])) == 2
    assert study.read_bytes().startswith(whole)

    study.write_bytes(whole + b"{]\n")  # damaged
    with pytest.raises(ConfigError, match=str(study)):
        tune(config, trials=2, space=QUICK)


def test_a_space_in_a_file_is_named(tmp_path):
    (tmp_path / "space.yaml").write_text("model.hidden: [0]")
    with pytest.raises(ConfigError, match=str(tmp_path / "space.yaml")):
        tune(small_config(tmp_path), space=tmp_path / "space.yaml")


def test_the_default_space_fits_every_table(tmp_path):
    file = tmp_path / "space.yaml"
    file.write_text(yaml.safe_dump(SPACE))
    assert read_space(file) == SPACE
    with pytest.raises(ConfigError, match="absent"):
        read_space(tmp_path / "absent.yaml")
