import numpy as np
import pytest

from fullrank.data import stratified_folds
from fullrank.errors import ConfigError
from fullrank.train import run_experiment, run_one, single_runs
from fullrank.train.run_folder import ExperimentFolder
from goldens.configs import write_graphs
from train.samples import folder_of, small_config


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
                folder_of(single).curve.column("test_accuracy")
                for single in single_runs(config.changed(seeds=[seed]))
            ]
        )
        assert curves.shape == (3, 4)
        epochs.append(int(curves.mean(axis=0).argmax()))
        values += curves[:, epochs[-1]].tolist()
    found = summary.test["accuracy"]
    assert summary.epochs == epochs
    assert found.values == values
    assert found.mean == pytest.approx(np.mean(values))
    assert found.std == pytest.approx(np.std(values, ddof=1))
    stored = ExperimentFolder(config.runs / summary.experiment)
    assert stored.summary == summary
    assert [run.id for run in stored.runs] == summary.runs


def test_fair_chooses_on_a_part_of_each_training_fold(tmp_path):
    config = folds(tmp_path, "fair")
    summary = run_experiment(config)
    dataset = config.data.load()
    official = stratified_folds(dataset.labels, 3)
    tested = []
    for single, fold in zip(single_runs(config), official, strict=True):
        run = folder_of(single)
        split = run.split
        assert split.test.tolist() == fold.test.tolist()
        assert sorted([*split.train, *split.valid]) == fold.train.tolist()
        assert len(split.valid) == round(0.1 * len(fold.train))
        curve = run.curve.column("valid_accuracy")
        assert run.result.best_epoch == int(np.argmax(curve))
        tested.append(run.result.test["accuracy"])
    assert summary.test["accuracy"].values == tested


def test_seeds_share_the_split_and_are_summarised(tmp_path):
    config = small_config(tmp_path, seeds=[3, 5], training={"epochs": 1})
    summary = run_experiment(config)
    runs = [folder_of(single) for single in single_runs(config)]
    maes = [run.result.test["mae"] for run in runs]
    assert maes[0] != maes[1]
    assert summary.test["mae"].mean == pytest.approx(np.mean(maes))
    assert summary.runs == [run.result.run for run in runs]
    assert len({tuple(run.split.train) for run in runs}) == 1


def write_folds(folder, count, shift=0):
    """Files with the ten folds of Zhang et al. for ``count`` graphs."""
    folder.mkdir(parents=True)
    graphs = np.roll(np.arange(count), shift)
    for fold in range(10):
        test = np.zeros(count, dtype=bool)
        test[fold::10] = True
        np.savetxt(folder / f"test_idx-{fold + 1}.txt", graphs[test], "%d")
        np.savetxt(folder / f"train_idx-{fold + 1}.txt", graphs[~test], "%d")
    return folder


def graphs_in_folds(tmp_path, folds, **split):
    folder = tmp_path / "chords"
    if not folder.exists():
        write_graphs(folder, 40)
    return small_config(
        tmp_path,
        data={"name": str(folder)},
        split={"kind": "gin", "folder": folds, "fold": 4, **split},
        training={"epochs": 1},
    )


def test_folds_of_zhang_are_read_from_their_files(tmp_path):
    folds = write_folds(tmp_path / "one" / "folds", 40)
    run = run_one(graphs_in_folds(tmp_path, folds))
    official = np.loadtxt(folds / "test_idx-5.txt", dtype=int)
    assert run.split.test.tolist() == official.tolist()


def test_other_folds_in_a_folder_of_the_same_name_are_another_run(tmp_path):
    one = write_folds(tmp_path / "one" / "folds", 40)
    first = run_one(graphs_in_folds(tmp_path, one))
    same = write_folds(tmp_path / "same" / "folds", 40)
    assert run_one(graphs_in_folds(tmp_path, same)).id == first.id
    other = write_folds(tmp_path / "two" / "folds", 40, shift=1)
    second = run_one(graphs_in_folds(tmp_path, other))
    assert second.id != first.id
    assert second.split.test.tolist() != first.split.test.tolist()
    np.savetxt(one / "test_idx-5.txt", [0], "%d")  # edited in place
    np.savetxt(one / "train_idx-5.txt", np.arange(1, 40), "%d")
    assert run_one(graphs_in_folds(tmp_path, one)).split.test.tolist() == [0]


def test_one_run_is_one_seed_and_one_fold(tmp_path):
    with pytest.raises(ConfigError, match=r"\[0, 1\]"):
        run_one(small_config(tmp_path, seeds=[0, 1]))
    with pytest.raises(ConfigError, match=r"split\.fold"):
        run_one(folds(tmp_path, "gin"))


def test_set_of_folds_needs_a_protocol(tmp_path):
    config = graphs_in_folds(tmp_path, None, kind=None, fold=None)
    with pytest.raises(ConfigError, match=r"split\.kind"):
        run_experiment(config)
