"""``fullrank evaluate`` as a person runs it."""

import json

import numpy as np
import pandas as pd
import pytest

from fullrank import load
from fullrank.cli.main import main
from fullrank.train import run_experiment, single_runs
from fullrank.train.run_folder import ExperimentFolder
from train.samples import folder_of, small_config, write_molecules


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    config = small_config(folder, training={"epochs": 1}, seeds=[0, 1])
    summary = run_experiment(config)
    runs = [folder_of(single) for single in single_runs(config)]
    return ExperimentFolder(config.runs / summary.experiment), runs


@pytest.fixture
def run(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["evaluate", *map(str, arguments)])
        output = capsys.readouterr()
        return ended.value.code or 0, output.out, output.err

    return command


def test_repeats_the_result_of_a_run(run, trained):
    _, (first, _) = trained
    status, output, _ = run(first.path, "--json")
    assert status == 0
    measured = json.loads(output)[str(first.path)]
    assert measured == pytest.approx(first.result.test)
    _, output, _ = run(first.path, "--part", "valid")
    assert f"{first.result.valid['mae']:.4g}" in output


def test_finds_a_table_from_any_folder(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = small_config(tmp_path, training={"epochs": 1})
    relative = config.changed(data={"name": "molecules.csv"})
    run_experiment(relative)
    folder = folder_of(config).path
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run(folder)[0] == 0
    (tmp_path / "molecules.csv").unlink()
    status, _, errors = run(folder)
    assert status == 2
    assert str(tmp_path / "molecules.csv") in errors


def test_summarises_several(run, trained):
    experiment, _ = trained
    _, output, _ = run(experiment.path)
    mae = experiment.summary.test["mae"]
    assert f"{mae.mean:.4g} ± {mae.std:.2g}" in output


def test_an_ensemble_is_measured_as_one(run, tmp_path):
    config = small_config(tmp_path, training={"epochs": 1}, ensemble=2)
    summary = run_experiment(config)
    status, output, _ = run(config.runs / summary.experiment)
    assert status == 0
    assert "ensemble of 2" in output
    assert f"{summary.test['mae'].mean:.4g}" in output


def test_measures_a_table_with_intervals(run, trained, tmp_path):
    """The mean of two models, against errors computed here from their predictions."""
    experiment, (first, _) = trained
    table = write_molecules(tmp_path / "other.csv")
    frame = pd.read_csv(table)[20:]
    frame.to_csv(table, index=False)
    arguments = ("--data", table, "--root", tmp_path, "--resamples", 50)
    for models in (experiment.path, first.model_file):
        status, output, _ = run(models, *arguments, "--json")
        assert status == 0
        measured = json.loads(output)
        predicted = load(models).predict(frame["smiles"])["predicted_logp"]
        errors = predicted.to_numpy() - frame["logp"].to_numpy()
        mae = measured["mae"]
        assert mae["value"] == pytest.approx(np.abs(errors).mean(), rel=1e-5)
        assert mae["low"] < mae["value"] < mae["high"]
        rmse = measured["rmse"]["value"]
        assert rmse == pytest.approx(np.sqrt((errors**2).mean()), rel=1e-5)
        _, output, _ = run(models, *arguments)
        for number in mae.values():
            assert f"{number:.4g}" in output
    status, _, errors = run(first.path, "--data", tmp_path / "gone.csv")
    assert status == 2
    assert "gone.csv" in errors
    frame.drop(columns="logp").to_csv(table, index=False)
    status, _, errors = run(first.path, *arguments)
    assert status == 2
    assert "logp" in errors
    assert "other.csv" in errors


def test_bad_input_is_one_sentence(run, trained, tmp_path):
    _, (first, _) = trained
    for arguments, words in [
        ([tmp_path], "not a run folder"),
        ([first.path, "--part", "tst"], "'tst'"),
    ]:
        status, _, errors = run(*arguments)
        assert status == 2
        assert words in errors


def test_measures_without_a_value_are_null(run, tmp_path):
    config = small_config(tmp_path, ["ring"], "binary", training={"epochs": 1})
    run_experiment(config)
    folder = folder_of(config)
    split = json.loads((folder.path / "split.json").read_text())
    rings = config.data.load().labels[:, 0]
    split["test"] = [graph for graph in split["test"] if rings[graph] == 1]
    (folder.path / "split.json").write_text(json.dumps(split))
    _, output, _ = run(folder.path, "--json")

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    measured = json.loads(output, parse_constant=refuse)[str(folder.path)]
    assert measured["rocauc"] is None
    assert "not defined" in run(folder.path)[1]


def test_runs_of_different_tasks_have_no_mean(run, trained, tmp_path):
    _, (first, _) = trained
    config = small_config(tmp_path, ["ring"], "binary", training={"epochs": 1})
    run_experiment(config)
    status, _, errors = run(first.path, folder_of(config).path)
    assert status == 2
    assert first.id in errors


def test_the_working_folder_may_be_the_run(run, trained, monkeypatch):
    _, (first, _) = trained
    monkeypatch.chdir(first.path)
    assert run(".")[0] == 0
