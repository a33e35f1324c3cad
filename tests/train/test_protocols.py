import numpy as np
import pytest

from fullrank.data import Split, stratified_folds
from fullrank.train import ConfigError, run_experiment, run_one, runs_of
from fullrank.train.files import read_json
from fullrank.train.journal import read_curve
from fullrank.train.sources import load_dataset
from shared_data import shared_data
from train.samples import small_config


def folds(tmp_path, kind, **sections):
    return small_config(
        tmp_path,
        ["kind"],
        "multiclass",
        split={"kind": kind, "folds": 3},
        optimizer={"lr": 0.02},
        training={"epochs": 4},
        **sections,
    )


def test_gin_takes_the_best_epoch_of_the_mean_test_curve(tmp_path):
    config = folds(tmp_path, "gin", seeds=[0, 1])
    summary = run_experiment(config)
    values, epochs = [], []
    for seed in (0, 1):
        curves = np.array(
            [
                read_curve(single.folder / "metrics.csv", "test_accuracy")
                for single in runs_of(config.changed(seeds=[seed]))
            ]
        )
        assert curves.shape == (3, 4)
        epochs.append(int(curves.mean(axis=0).argmax()))
        values += curves[:, epochs[-1]].tolist()
    found = summary["test"]["accuracy"]
    assert summary["epochs"] == epochs
    assert found["values"] == values
    assert found["mean"] == pytest.approx(np.mean(values))
    assert found["std"] == pytest.approx(np.std(values, ddof=1))
    assert read_json(config.folder / "summary.json") == summary


def test_fair_chooses_on_a_part_of_each_training_fold(tmp_path):
    config = folds(tmp_path, "fair")
    summary = run_experiment(config)
    dataset = load_dataset(config.data)
    official = stratified_folds(dataset.labels, 3)
    tested = []
    for single, fold in zip(runs_of(config), official, strict=True):
        split = Split.load(single.folder / "split.json")
        assert split.test.tolist() == fold.test.tolist()
        assert sorted([*split.train, *split.valid]) == fold.train.tolist()
        assert len(split.valid) == round(0.1 * len(fold.train))
        curve = read_curve(single.folder / "metrics.csv", "valid_accuracy")
        result = read_json(single.folder / "result.json")
        assert result["best_epoch"] == int(np.argmax(curve))
        tested.append(result["test"]["accuracy"])
    assert summary["test"]["accuracy"]["values"] == tested


def test_seeds_share_the_split_and_are_summarised(tmp_path):
    config = small_config(tmp_path, seeds=[3, 5], training={"epochs": 1})
    summary = run_experiment(config)
    results = [read_json(single.folder / "result.json") for single in runs_of(config)]
    maes = [result["test"]["mae"] for result in results]
    assert maes[0] != maes[1]
    assert summary["test"]["mae"]["mean"] == pytest.approx(np.mean(maes))
    assert summary["runs"] == [result["run"] for result in results]
    splits = {(single.folder / "split.json").read_text() for single in runs_of(config)}
    assert len(splits) == 1


def test_folds_of_zhang_are_read_from_their_files(tmp_path):
    tu = shared_data() / "tu"
    folder = shared_data() / "tu_folds" / "MUTAG"
    config = small_config(tmp_path).changed(
        data={"name": "MUTAG", "mirror": str(tu), "targets": None, "task": None},
        split={"kind": "gin", "folder": folder, "fold": 4},
        training={"epochs": 1},
    )
    run_one(config)
    split = Split.load(config.folder / "split.json")
    official = np.loadtxt(folder / "test_idx-5.txt", dtype=int)
    assert split.test.tolist() == official.tolist()


def test_one_run_is_one_seed_and_one_fold(tmp_path):
    with pytest.raises(ConfigError, match=r"one seed, got \[0, 1\]"):
        run_one(small_config(tmp_path, seeds=[0, 1]))
    with pytest.raises(ConfigError, match=r"set split\.fold"):
        run_one(folds(tmp_path, "gin"))


def test_set_of_folds_needs_a_protocol(tmp_path):
    config = small_config(tmp_path).changed(
        data={
            "name": "MUTAG",
            "mirror": str(shared_data() / "tu"),
            "targets": None,
            "task": None,
        }
    )
    with pytest.raises(ConfigError, match=r"set split\.kind to gin or fair"):
        run_experiment(config)
