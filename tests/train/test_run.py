import csv
import os
import random
import resource
import signal
import time

import numpy as np
import pytest
import torch

from fullrank.data import Split
from fullrank.train import ConfigError, RunError, run_one
from fullrank.train.checkpoints import SafeFiles, load_checkpoint
from fullrank.train.files import read_json
from fullrank.train.journal import read_curve, read_rows
from fullrank.train.sources import load_dataset
from train.samples import small_config, start

DROPOUT = {"layers": 2, "hidden": 8, "dropout": 0.3, "batch_norm": True}


@pytest.fixture(autouse=True)
def one_thread():
    """As in the processes that are started: sums are the same to the last bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def weights(folder, name="last"):
    checkpoint = torch.load(folder / "checkpoints" / f"{name}.ckpt", weights_only=True)
    return checkpoint["state_dict"]


def assert_same_run(one, other):
    """Bit-identical metrics, weights of both checkpoints, and results."""
    assert (one / "metrics.csv").read_bytes() == (other / "metrics.csv").read_bytes()
    for name in ("last", "best"):
        first, second = weights(one, name), weights(other, name)
        assert first.keys() == second.keys()
        assert all(torch.equal(first[key], second[key]) for key in first)
    results = [read_json(folder / "result.json") for folder in (one, other)]
    for key in ("train", "valid", "test", "best_epoch", "epochs", "stopped_early"):
        assert results[0][key] == results[1][key]


def test_run_folder_tells_all(tmp_path):
    config = small_config(tmp_path, schedule={"name": "step", "every": 1})
    result = run_one(config)
    folder = config.folder
    assert sorted(f.name for f in folder.iterdir() if f.name[0] != ".") == [
        "checkpoints",
        "config.yaml",
        "environment.json",
        "metrics.csv",
        "model.json",
        "result.json",
        "split.json",
        "tensorboard",
        "times.csv",
    ]
    assert list((folder / "tensorboard").glob("events.*"))
    assert read_curve(folder / "metrics.csv", "lr") == pytest.approx(
        [1e-3, 8e-4, 6.4e-4]
    )
    split = Split.load(folder / "split.json")
    assert result["graphs"]["train"] == len(split.train) == 56
    assert read_json(folder / "environment.json")["torch"] == torch.__version__
    assert result["parameters"] == sum(
        values.numel() for values in weights(folder).values()
    )


def test_a_run_remembers_the_commits_it_was_done_with(tmp_path):
    config = small_config(tmp_path, schedule={"name": "constant"})
    file = config.folder / "environment.json"

    def train_with(commit, epochs):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fullrank.train.environment._COMMIT", commit)
            run_one(config.changed(training={"epochs": epochs}))
        found = read_json(file)
        return found["commit"], found.get("earlier_commits")

    assert train_with("first", 1) == ("first", None)
    assert train_with("second", 2) == ("second", ["first"])
    assert train_with("second", 3) == ("second", ["first"])
    assert train_with("third", 4) == ("third", ["first", "second"])


def test_a_run_that_is_refused_leaves_no_folder(tmp_path):
    config = small_config(tmp_path, targets=["nothing"])
    with pytest.raises(ValueError, match="'nothing'"):
        run_one(config)
    assert not config.folder.exists()


def test_best_epoch_is_that_of_the_validation_metric(tmp_path):
    config = small_config(tmp_path, training={"epochs": 6}, optimizer={"lr": 0.05})
    result = run_one(config)
    curve = read_curve(config.folder / "metrics.csv", "valid_mae")
    assert result["best_epoch"] == int(np.argmin(curve))
    assert result["valid"]["mae"] == min(curve)


def test_error_is_in_original_units(tmp_path):
    """The stored network, run by hand, misses the raw labels by the reported error."""
    config = small_config(tmp_path, targets=["weight"])
    result = run_one(config)
    dataset = load_dataset(config.data)
    split = Split.load(config.folder / "split.json")
    plan = read_json(config.folder / "model.json")
    from fullrank.nn import GraphNet

    network = GraphNet(**plan["network"]).eval()
    state = weights(config.folder, "best")
    network.load_state_dict({k.removeprefix("network."): v for k, v in state.items()})
    with torch.no_grad():
        output = network(dataset.graphs.batch(split.test)).numpy()
    train = dataset.labels[split.train]
    error = output * train.std() + train.mean() - dataset.labels[split.test]
    assert result["test"]["mae"] == pytest.approx(np.abs(error).mean(), rel=1e-5)


def test_finished_run_is_not_run_again(tmp_path):
    config = small_config(tmp_path)
    first = run_one(config)
    before = {f: f.stat().st_mtime_ns for f in config.folder.rglob("*") if f.is_file()}
    assert run_one(config) == first
    assert {f: f.stat().st_mtime_ns for f in before} == before


def test_training_longer_continues_the_same_run(tmp_path):
    short = small_config(tmp_path, model=DROPOUT, training={"epochs": 2})
    long = short.changed(training={"epochs": 4})
    run_one(short)
    run_one(long)
    direct = long.changed(runs=tmp_path / "direct")
    run_one(direct)
    assert short.folder == long.folder
    assert_same_run(long.folder, direct.folder)
    with pytest.raises(RunError, match="has 4 epochs already"):
        run_one(short)


def test_same_seed_same_run_other_seed_other_run(tmp_path):
    config = small_config(tmp_path, model=DROPOUT)
    again = config.changed(runs=tmp_path / "again")
    run_one(config)
    run_one(again)
    assert_same_run(config.folder, again.folder)
    other = config.changed(seeds=[1])
    run_one(other)
    assert read_rows(other.folder / "metrics.csv") != read_rows(
        config.folder / "metrics.csv"
    )


def test_patience_stops_early_and_stays_stopped(tmp_path):
    config = small_config(
        tmp_path, training={"epochs": 60, "patience": 2}, optimizer={"lr": 0.3}
    )
    result = run_one(config)
    assert result["stopped_early"]
    assert result["epochs"] == result["best_epoch"] + 3 < 60
    (config.folder / "result.json").unlink()  # killed just before the end
    again = run_one(config)
    assert (again["epochs"], again["test"]) == (result["epochs"], result["test"])


def test_diverging_run_says_where_and_keeps_the_last_good_epoch(tmp_path):
    config = small_config(tmp_path, optimizer={"lr": 1e-3})
    run_one(config)
    # The same run with weights that overflow in the next epoch.
    file = config.folder / "checkpoints" / "last.ckpt"
    checkpoint = load_checkpoint(file, config.id)
    for values in checkpoint["state_dict"].values():
        values *= 1e30
    SafeFiles().save_checkpoint(checkpoint, file)
    before = file.read_bytes()
    with pytest.raises(RunError) as error:
        run_one(config.changed(training={"epochs": 5}))
    for words in ("became", "at step 12", "learning rate 0.001", "try a smaller"):
        assert words in str(error.value)
    assert "3 of 5 epochs are safe" in str(error.value)
    assert file.read_bytes() == before


def test_checkpoint_of_another_configuration_is_refused(tmp_path):
    one, other = small_config(tmp_path), small_config(tmp_path, seeds=[1])
    run_one(one)
    (other.folder / "checkpoints").mkdir(parents=True)
    os.link(
        one.folder / "checkpoints" / "last.ckpt",
        other.folder / "checkpoints" / "last.ckpt",
    )
    with pytest.raises(ValueError, match=f"belongs to the run {one.id}"):
        run_one(other)


def test_changed_data_are_noticed(tmp_path):
    config = small_config(tmp_path)
    run_one(config)
    longer = config.changed(training={"epochs": 5})
    dataset = load_dataset(config.data)
    split = Split.load(config.folder / "split.json")
    Split(split.train[1:], split.valid, split.test).save(config.folder / "split.json")
    with pytest.raises(RunError, match="the data changed"):
        run_one(longer, dataset)


@pytest.mark.parametrize(
    ("task", "targets", "metrics"),
    [
        ("regression", ["weight", "logp"], {"std_mae", "mae/weight", "rmse", "r2"}),
        ("binary", ["ring", "hetero"], {"accuracy", "rocauc", "ap"}),
        ("multiclass", ["kind"], {"accuracy", "rocauc", "ap"}),
    ],
)
def test_every_task_learns(tmp_path, task, targets, metrics):
    training = {"epochs": 12, "batch_size": 16}
    if task != "regression":
        training["class_weights"] = "balanced"
    config = small_config(
        tmp_path, targets, task, training=training, optimizer={"lr": 0.01}
    )
    result = run_one(config)
    assert metrics <= result["test"].keys()
    losses = read_curve(config.folder / "metrics.csv", "train_loss")
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("schedule", ["constant", "step", "cosine", "onecycle"])
@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_schedules_end_where_they_should(tmp_path, schedule, optimizer):
    config = small_config(
        tmp_path,
        optimizer={"name": optimizer, "lr": 0.01, "clip": 1.0, "weight_decay": 1e-4},
        schedule={"name": schedule, "every": 1, "factor": 0.5},
    )
    run_one(config)
    checkpoint = load_checkpoint(config.folder / "checkpoints" / "last.ckpt", config.id)
    lr = checkpoint["optimizer_states"][0]["param_groups"][0]["lr"]
    ends = {"constant": 0.01, "step": 0.01 / 8, "cosine": 0.0}
    if schedule in ends:
        assert lr == pytest.approx(ends[schedule], abs=1e-9)
    else:
        assert lr < 0.01 / 25  # below where it began


@pytest.mark.parametrize("precision", ["64", "bf16-mixed"])
def test_precisions(tmp_path, precision):
    training = {"precision": precision, "epochs": 1}
    config = small_config(tmp_path, training=training, optimizer={"clip": 1.0})
    run_one(config)
    wanted = torch.float64 if precision == "64" else torch.float32
    assert {v.dtype for v in weights(config.folder).values()} == {wanted}


def test_data_option_that_does_not_fit_is_named(tmp_path):
    config = small_config(tmp_path).changed(data={"limit": 3})
    with pytest.raises(ConfigError, match=r"data\.limit is no option"):
        run_one(config)


def resumable(tmp_path, hidden=8, epochs=8):
    """A run in a file, and the same run done in one go."""
    model = {"layers": 2, "hidden": hidden, "dropout": 0.3, "batch_norm": True}
    config = small_config(
        tmp_path,
        model=model,
        training={"epochs": epochs, "batch_size": 8},
        schedule={"name": "cosine"},
    )
    file = tmp_path / "config.yaml"
    file.write_text(config.text())
    reference = config.changed(runs=tmp_path / "reference")
    run_one(reference)
    return config, file, reference.folder


def kill_while_writing(process, folder, after):
    """Send SIGKILL the moment a checkpoint is being written."""
    until = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < until:
        if folder.is_dir() and any(n.endswith(".part") for n in os.listdir(folder)):
            after -= 1
            if after < 0:
                process.send_signal(signal.SIGKILL)
                return


def kill_after(process, folder, seconds):
    """Send SIGKILL some time after the first epoch of this process began."""
    began = time.monotonic()
    while not folder.is_dir() and time.monotonic() < began + 120:
        time.sleep(0.005)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)


def finish_with_kills(config, file, kills):
    """Start the run again and again, each time with a kill, then to its end."""
    checkpoints = config.folder / "checkpoints"
    interrupted = 0
    left_behind = 0
    for kill, argument in kills:
        process = start("train", file)
        kill(process, checkpoints, argument)
        process.communicate(timeout=120)
        interrupted += process.returncode == -signal.SIGKILL
        if checkpoints.is_dir():
            left_behind += any(f.suffix == ".part" for f in checkpoints.iterdir())
    run_one(config)
    return interrupted, left_behind


def test_killed_run_ends_as_if_nothing_had_happened(tmp_path):
    config, file, reference = resumable(tmp_path, hidden=128)
    kills = [(kill_while_writing, 1), (kill_after, 0.4), (kill_while_writing, 2)]
    interrupted, left_behind = finish_with_kills(config, file, kills)
    assert interrupted >= 2
    assert left_behind >= 1, "no kill hit the writing of a checkpoint"
    assert_same_run(config.folder, reference)
    assert not list(config.folder.rglob("*.part"))


@pytest.mark.slow
def test_killed_at_twenty_random_moments(tmp_path):
    config, file, reference = resumable(tmp_path, hidden=128, epochs=40)
    rng = random.Random(0)
    kills = [
        (kill_while_writing, rng.randrange(1, 4))
        if rng.random() < 0.4
        else (kill_after, rng.uniform(0, 4))
        for _ in range(20)
    ]
    interrupted, left_behind = finish_with_kills(config, file, kills)
    assert interrupted == 20
    assert left_behind >= 3
    assert_same_run(config.folder, reference)


def wait_for_epochs(process, config, count):
    until = time.monotonic() + 120
    while len(read_rows(config.folder / "metrics.csv")) < count:
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)


def test_ctrl_c_keeps_the_checkpoint_and_says_how_to_resume(tmp_path):
    config, file, reference = resumable(tmp_path, epochs=30)
    process = start("train", file)
    wait_for_epochs(process, config, 2)
    with pytest.raises(RunError, match="another process is working on the run"):
        run_one(config)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "of 30 epochs are safe" in errors
    assert "the same command goes on from there" in errors
    assert "Traceback" not in errors
    run_one(config)
    assert_same_run(config.folder, reference)


def test_full_disk_is_a_sentence_and_the_run_can_go_on(tmp_path):
    config, file, reference = resumable(tmp_path, hidden=64, epochs=6)
    size = (reference / "checkpoints" / "last.ckpt").stat().st_size

    def no_room_for_a_checkpoint():  # the system refuses to write a file this large
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))

    process = start("train", file, preexec_fn=no_room_for_a_checkpoint)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert f"cannot write to {config.folder}" in errors
    assert "Traceback" not in errors
    assert not list(config.folder.rglob("*.part"))
    run_one(config)
    assert_same_run(config.folder, reference)


def test_metrics_are_a_table_of_numbers(tmp_path):
    config = small_config(tmp_path)
    run_one(config)
    with (config.folder / "metrics.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [int(row["epoch"]) for row in rows] == [0, 1, 2]
    assert all(float(value) == float(value) for row in rows for value in row.values())
