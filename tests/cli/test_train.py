"""``fullrank train`` as a person runs it."""

import pytest
import yaml

from fullrank import load
from fullrank.errors import ConfigError
from train.samples import folder_of, small_config


@pytest.fixture
def run(program):
    return lambda *arguments: program("train", *arguments)


@pytest.fixture
def config(tmp_path):
    config = small_config(tmp_path)
    (tmp_path / "config.yaml").write_text(config.text())
    return config


def test_trains_and_says_what_it_found_and_where(run, config):
    status, output, errors = run("config.yaml")
    assert (status, errors) == (0, "")  # quiet where nobody watches
    folder = folder_of(config)
    assert f"{folder.result.test['mae']:.4g}" in output
    assert str(folder.path) in output
    assert run("config.yaml")[1] == output  # found, not trained again


def test_changes_and_verbosity(run, config):
    status, output, errors = run("config.yaml", "--set", "training.epochs=2", "-v")
    assert status == 0
    assert errors.count("epoch") == 2
    assert "valid_mae" in errors
    status, output, errors = run("config.yaml", "--set", "seeds=[1]", "-q")
    assert (status, errors) == (0, "")
    assert output == f"{folder_of(config.changed(seeds=[1])).path}\n"


def test_several_runs_are_summarised(run, config):
    _, output, _ = run("config.yaml", "-s", "seeds=[0, 1]", "-s", "training.epochs=1")
    assert "mean ± std of 2 runs" in output
    assert "summary: " in output


def test_print_config_shows_everything_and_trains_nothing(run, config):
    status, output, _ = run("config.yaml", "--print-config", "-s", "model.s=7")
    values = yaml.safe_load(output)
    assert status == 0
    assert values["model"]["s"] == 7
    assert values["optimizer"]["weight_decay"] == 0.0
    assert values["optimizer"]["clip"] is None
    assert not config.runs.exists()


def test_ready_configurations(run):
    _, output, _ = run("--list")
    assert "expc/ogbg-molhiv" in output.split()
    _, output, _ = run("combc/qm9-U0", "--print-config")
    assert yaml.safe_load(output)["model"]["hidden"] == 512


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.yaml"], "'nothing.yaml'"),
        (["config.yaml", "-s", "model.hiden=3"], "'model.hiden'"),
        (["config.yaml", "-s", "model.hidden=x"], "model.hidden = 'x'"),
        (["config.yaml", "-s", "data.targets=[lgp]"], "lgp"),
        (["config.yaml", "-s", "data.name=gone.csv"], "gone.csv"),
        (["config.yaml", "-s", "data.limit=3"], "limit"),
        (["config.yaml", "-s", "data.targets=null"], "target"),
        (["config.yaml", "-s", "runs=/proc/gone"], "runs = '/proc/gone'"),
        (["config.yaml", "-s", "split.kind=given"], "'given'"),
        (["config.yaml", "-s", "data.name=gone"], "gone"),
    ],
)
def test_bad_input_is_one_sentence(run, config, arguments, words):
    status, output, errors = run(*arguments)
    assert (status, output) == (2, "")
    assert words in errors
    assert "Traceback" not in errors


def test_any_name_may_be_that_of_the_folder_of_runs(run, config, tmp_path):
    for name in ("2024", "a: b", "#1"):
        status, _, errors = run(
            "config.yaml", "-s", "training.epochs=1", "--runs", name
        )
        assert status == 0, errors
        assert list((tmp_path / name).iterdir())


def test_a_part_to_calibrate_on_and_no_fingerprints(run, config):
    table = ("molecules.csv", "--target", "logp", "-q")
    quick = ("-s", "training.epochs=1", "-s", "model.hidden=8", "--ensemble", "1")
    status, path, errors = run(*table, *quick, "--calibration", 20, "--no-similarity")
    assert (status, errors) == (0, "")
    found = load(path.strip()).predict(["CCO"], interval=90)
    assert found["predicted_logp_low"][0] < found["predicted_logp_high"][0]
    assert "similarity" not in found
    status, path, _ = run(*table, *quick)
    assert status == 0
    model = load(path.strip())
    assert "similarity" in model.predict(["CCO"])
    with pytest.raises(ConfigError):
        model.predict(["CCO"], interval=90)
    status, _, errors = run(*table, *quick, "--calibration", 500)
    assert status == 2
    assert "500" in errors


def test_a_table_is_enough(run, config, tmp_path):
    """``molecules.csv`` of the fixture, with a recipe that takes a second."""
    quick = ("-s", "training.epochs=1", "-s", "model.hidden=8", "--ensemble", "2")
    where = ("--runs", str(tmp_path / "mine"))
    status, output, errors = run("molecules.csv", "--target", "logp", *quick, *where)
    assert status == 0
    assert "ensemble of 2" in output
    assert "'smiles'" in errors
    assert "regression" in errors
    status, path, errors = run(
        "molecules.csv", "--target", "logp", *quick, *where, "-q"
    )
    assert (status, errors) == (0, "")
    assert path.strip() in output
    assert path.startswith(str(tmp_path / "mine"))


def test_print_config_of_a_table_is_a_configuration(run, config, tmp_path):
    flags = ("--target", "ring", "--target", "hetero", "--split", "scaffold")
    status, output, _ = run(
        "molecules.csv", *flags, "--seeds", "2", "--balance", "--print-config"
    )
    assert status == 0
    values = yaml.safe_load(output)
    assert values["data"]["task"] == "binary"
    assert values["split"]["kind"] == "scaffold"
    assert values["seeds"] == [0, 1]
    assert values["training"]["class_weights"] == "balanced"
    (tmp_path / "printed.yaml").write_text(output)
    assert run("printed.yaml", "--print-config")[1] == output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["molecules.csv"], "weight"),
        (["molecules.csv", "--target", "lgp"], "'lgp'"),
        (["molecules.csv", "--target", "logp", "--smiles", "s"], "'s'"),
        (["molecules.csv", "--target", "logp", "--task", "guess"], "guess"),
        (["molecules.csv", "--target", "logp", "--split", "odd"], "odd"),
        (["molecules.csv", "--target", "logp", "--split-column", "kind"], "kind"),
        (["molecules.csv", "--target", "logp", "--time", "soon"], "soon"),
        (["molecules.csv", "--target", "logp", "--from", "gone"], "gone"),
        (["absent.csv", "--target", "logp"], "absent.csv"),
        (["config.yaml", "--target", "logp"], "--target"),
        (["config.yaml", "--from", "gone"], "--from"),
    ],
)
def test_a_table_that_cannot_be_trained_on(run, config, arguments, words):
    status, output, errors = run(*arguments)
    assert (status, output) == (2, "")
    assert words in errors
    assert "bug" not in errors
