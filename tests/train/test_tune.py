import signal
import time
from pathlib import Path

import optuna
import pytest
import yaml
from optuna.trial import TrialState

from browser import drawn, loaded_from_elsewhere, opened
from fullrank.errors import ConfigError
from fullrank.report.tune_page import write_tune_page
from fullrank.train import RunFolder, load_config
from fullrank.train.tune import SPACE, read_space, tune
from train.samples import small_config, start

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

    # A trial of another machine, which may still be at work, does not count.
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


def test_a_trial_that_falls_behind_is_stopped(tmp_path):
    config = small_config(tmp_path, training={"epochs": 8}, optimizer={"lr": 1e-2})
    space = {"optimizer.lr": {"low": 1e-9, "high": 1e-1, "log": True}}
    study = tune(config, trials=1, space=space).study
    for lr in (0.008, 0.009, 0.011, 0.012, 1e-9):
        study.enqueue_trial({"optimizer.lr": lr})
    *others, hopeless = tune(config, trials=6, space=space).study.get_trials()
    assert {trial.state for trial in others} == {TrialState.COMPLETE}
    assert hopeless.state == TrialState.PRUNED
    assert 5 < len(hopeless.intermediate_values) < 8
    run = RunFolder(
        config.runs / study.study_name / "trials" / hopeless.user_attrs["run"]
    )
    assert run.result is None


def started(config, tmp_path):
    """Another process in the middle of the first trial of a study."""
    (tmp_path / "config.yaml").write_text(config.text())
    (tmp_path / "space.yaml").write_text(yaml.safe_dump(QUICK))
    options = ("--space", tmp_path / "space.yaml", "--trials", 2, "-q")
    process = start("tune", tmp_path / "config.yaml", *options)
    while not list(config.runs.glob("tune-*/trials/*/checkpoints/last.ckpt")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    return process


@pytest.mark.slow
def test_processes_share_a_study(tmp_path):
    config = small_config(tmp_path, training={"epochs": 100})
    other = started(config, tmp_path)
    other.send_signal(signal.SIGSTOP)  # alive, but slower than this process
    mine = tune(config, trials=2, space=QUICK)
    theirs, *own = mine.study.get_trials()
    assert theirs.state == TrialState.RUNNING
    assert [trial.state for trial in own] == [TrialState.COMPLETE] * 2
    other.send_signal(signal.SIGCONT)
    output, errors = other.communicate()
    assert other.returncode == 0, errors
    trials = mine.study.get_trials()
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * 3
    assert len({trial.user_attrs["process"] for trial in trials}) == 2
    assert RunFolder(output.strip()).result.valid["mae"] == mine.study.best_value


@pytest.mark.slow
def test_a_search_that_is_killed_resumes(tmp_path):
    config = small_config(tmp_path, training={"epochs": 100})
    other = started(config, tmp_path)
    other.kill()
    other.communicate()
    tuned = tune(config, trials=2, space=QUICK)
    killed, again, second = tuned.study.get_trials()
    assert killed.state == TrialState.FAIL
    assert again.params == killed.params == {"optimizer.lr": 1e-3, "model.hidden": "8"}
    assert again.state == second.state == TrialState.COMPLETE
    # The epochs that were saved are not trained again.
    assert again.user_attrs["run"] == killed.user_attrs["run"]
    assert min(again.intermediate_values) > 0


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
        ({}, None),
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


def test_the_default_space_is_documented():
    text = (Path(__file__).parents[2] / "docs" / "train.md").read_text()
    documented = text.split("## Tune")[1].split("```yaml")[1].split("```")[0]
    assert yaml.safe_load(documented) == SPACE


def test_the_default_space_fits_every_table(tmp_path):
    file = tmp_path / "space.yaml"
    file.write_text(yaml.safe_dump(SPACE))
    assert read_space(file) == SPACE
    with pytest.raises(ConfigError, match="absent"):
        read_space(tmp_path / "absent.yaml")
