import csv
import os
import random
import resource
import signal
import time

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback

from fullrank.errors import ConfigError, DataError, FullrankError, RunError
from fullrank.interrupt import Interrupted
from fullrank.train import RunFolder, run_one
from fullrank.train.callbacks import AtomicCheckpointIO, load_checkpoint
from fullrank.train.files import write_json
from fullrank.train.run import run_folder
from goldens.configs import write_graphs
from train.samples import folder_of, small_config, start, write_molecules

pytestmark = pytest.mark.usefixtures("one_thread")
DROPOUT = {"layers": 2, "hidden": 8, "dropout": 0.3, "batch_norm": True}


def weights(run, name="last"):
    return torch.load(run.checkpoint(name), weights_only=True)["state_dict"]


def assert_same_run(one, other):
    """Bit-identical metrics, weights of both checkpoints, models and results."""
    assert one.metrics_file.file.read_bytes() == other.metrics_file.file.read_bytes()
    for name in ("last", "best"):
        first, second = weights(one, name), weights(other, name)
        assert first.keys() == second.keys()
        assert all(torch.equal(first[key], second[key]) for key in first)
    assert one.model_file.read_bytes() == other.model_file.read_bytes()
    for key in ("train", "valid", "test", "best_epoch", "epochs", "stopped_early"):
        assert getattr(one.result, key) == getattr(other.result, key)


def test_run_folder_tells_all(tmp_path):
    config = small_config(tmp_path, schedule={"name": "step", "every": 1})
    run = run_one(config)
    assert sorted(f.name for f in run.path.iterdir() if f.name[0] != ".") == [
        "checkpoints",
        "config.yaml",
        "environment.json",
        "metrics.csv",
        "model.safetensors",
        "result.json",
        "run.json",
        "split.json",
        "times.csv",
    ]
    assert run.curve.column("lr") == pytest.approx([1e-3, 8e-4, 6.4e-4])
    assert run.result.graphs["train"] == len(run.split.train) == 56
    assert run.environment.torch == torch.__version__
    assert run.result.parameters == sum(v.numel() for v in weights(run).values())


def test_a_run_remembers_the_commits_it_was_done_with(tmp_path):
    config = small_config(tmp_path, schedule={"name": "constant"})

    def train_with(commit, epochs):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fullrank.train.environment._COMMIT", commit)
            found = run_one(config.changed(training={"epochs": epochs})).environment
        return found.commit, found.earlier_commits

    assert train_with("first", 1) == ("first", ())
    assert train_with("second", 2) == ("second", ("first",))
    assert train_with("second", 3) == ("second", ("first",))
    assert train_with("third", 4) == ("third", ("first", "second"))


def test_a_run_that_is_refused_leaves_no_folder(tmp_path):
    config = small_config(tmp_path, targets=["nothing"])
    with pytest.raises(FullrankError, match="'nothing'"):
        run_one(config)
    impossible = small_config(tmp_path, training={"loss": "cross_entropy"})
    with pytest.raises(ConfigError, match="cross_entropy"):
        run_one(impossible)
    assert not list(config.runs.glob("*"))


def test_best_epoch_is_that_of_the_validation_metric(tmp_path):
    config = small_config(tmp_path, training={"epochs": 6}, optimizer={"lr": 0.05})
    run = run_one(config)
    curve = run.curve.column("valid_mae")
    assert run.result.best_epoch == int(np.argmin(curve))
    assert run.result.valid["mae"] == min(curve)


def test_error_is_in_original_units(tmp_path):
    """The stored network, run by hand, misses the raw labels by the reported error."""
    config = small_config(tmp_path, targets=["weight"])
    run = run_one(config)
    dataset = config.data.load()
    from fullrank.nn import GraphNet
    from fullrank.train import Model

    network = GraphNet(**Model.load(run.model_file).spec.network).eval()
    state = weights(run, "best")
    start = "model.network."
    network.load_state_dict({k.removeprefix(start): v for k, v in state.items()})
    with torch.no_grad():
        output = network(dataset.graphs.batch(run.split.test)).numpy()
    train = dataset.labels[run.split.train]
    error = output * train.std() + train.mean() - dataset.labels[run.split.test]
    assert run.result.test["mae"] == pytest.approx(np.abs(error).mean(), rel=1e-5)


def test_finished_run_is_not_run_again(tmp_path):
    config = small_config(tmp_path)
    run = run_one(config)
    before = {f: f.stat().st_mtime_ns for f in run.path.rglob("*") if f.is_file()}
    assert run_one(config) == run
    assert {f: f.stat().st_mtime_ns for f in before} == before


class TestIdentity:
    """Which runs are the same: decided by the content of the data, wherever it is."""

    def test_a_table_elsewhere_is_the_same_and_a_changed_one_is_not(self, tmp_path):
        first = small_config(tmp_path)
        (tmp_path / "elsewhere").mkdir()
        copy = write_molecules(tmp_path / "elsewhere" / "molecules.csv")
        second = first.changed(data={"name": str(copy)})
        assert folder_of(first) == folder_of(second)
        text = copy.read_text()
        header, *rows = text.splitlines()
        copy.write_text("\n".join([header, *reversed(rows)]) + "\n")
        assert folder_of(first) != folder_of(second)
        copy.write_text(text.replace("CCO,", "CCN,"))
        assert folder_of(first) != folder_of(second)

    def test_two_folders_of_the_same_name_are_two_runs(self, tmp_path):
        (tmp_path / "one").mkdir()
        (tmp_path / "two").mkdir()
        graphs = write_graphs(tmp_path / "one" / "chords", 40)
        others = write_graphs(tmp_path / "two" / "chords", 50)
        base = {}
        split = {"kind": "fair", "folds": 3, "fold": 0}
        one = small_config(tmp_path, data={"name": str(graphs), **base}, split=split)
        two = one.changed(data={"name": str(others)})
        runs = run_one(one), run_one(two)
        assert runs[0].id != runs[1].id
        assert runs[0].result.graphs != runs[1].result.graphs
        labels = graphs / "chords_graph_labels.txt"
        labels.write_text(labels.read_text()[::-1].strip() + "\n")  # edited in place
        assert folder_of(one) != runs[0]

    def test_what_does_not_determine_the_result(self, tmp_path):
        config = small_config(tmp_path)
        dataset = config.data.load()
        same = [
            config.changed(compute={"devices": 2}),
            config.changed(data={"root": tmp_path / "other root"}),
            config.changed(training={"epochs": 7}),
        ]
        assert {run_folder(c, dataset).id for c in same} == {folder_of(config).id}
        others = [
            config.changed(model={"hidden": 9}),
            config.changed(seeds=[1]),
            config.changed(schedule={"name": "cosine"}),
        ]
        ids = {run_folder(c, dataset).id for c in (config, *others)}
        assert len(ids) == 4

    def test_the_id_is_stored_and_not_computed_on_reading(self, tmp_path):
        config = small_config(tmp_path, training={"epochs": 1})
        run = run_one(config)
        (tmp_path / "molecules.csv").unlink()
        again = RunFolder.open(run.path)
        assert again.identity.id == run.id
        assert again.result == run.result


def test_training_longer_continues_the_same_run(tmp_path):
    short = small_config(tmp_path, model=DROPOUT, training={"epochs": 2})
    long = short.changed(training={"epochs": 4})
    run = run_one(short)
    assert run_one(long) == run
    direct = run_one(long.changed(runs=tmp_path / "direct"))
    assert_same_run(run, direct)
    with pytest.raises(RunError, match=" 4 "):
        run_one(short)


def test_a_moved_folder_keeps_its_best_epoch(tmp_path):
    """The best epoch of the first part may stay the best."""
    config = small_config(tmp_path, optimizer={"lr": 0.05}, training={"epochs": 5})
    whole = run_one(config.changed(training={"epochs": 8}))
    moved = config.changed(runs=tmp_path / "before")
    run_one(moved)
    (tmp_path / "before").rename(tmp_path / "after")
    again = run_one(config.changed(training={"epochs": 8}, runs=tmp_path / "after"))
    assert_same_run(again, whole)


def test_same_seed_same_run_other_seed_other_run(tmp_path):
    config = small_config(tmp_path, model=DROPOUT)
    one = run_one(config)
    assert_same_run(one, run_one(config.changed(runs=tmp_path / "again")))
    other = run_one(config.changed(seeds=[1]))
    assert other.curve != one.curve


def test_patience_stops_early_and_stays_stopped(tmp_path):
    config = small_config(
        tmp_path, training={"epochs": 60, "patience": 2}, optimizer={"lr": 0.3}
    )
    run = run_one(config)
    result = run.result
    assert result.stopped_early
    assert result.epochs == result.best_epoch + 3 < 60
    (run.path / "result.json").unlink()  # killed just before the end
    again = run_one(config).result
    assert (again.epochs, again.test) == (result.epochs, result.test)


def test_stock_callbacks_and_the_rank_monitor_work(tmp_path):
    from lightning.pytorch.callbacks import LambdaCallback, LearningRateMonitor

    from fullrank.lab import RankMonitor

    seen = []
    watch = LambdaCallback(
        on_validation_end=lambda trainer, _: seen.append(
            float(trainer.callback_metrics["valid_mae"])
        )
    )
    config = small_config(tmp_path)
    run = run_one(config, callbacks=[watch, RankMonitor(), LearningRateMonitor()])
    assert run.curve.column("lr-Adam") == pytest.approx(run.curve.column("lr"))
    assert seen == run.curve.column("valid_mae")
    ranks = [name for name in run.curve.rows[0] if name.startswith("rank M/")]
    assert len(ranks) == 2
    plain = run_one(config.changed(runs=tmp_path / "plain"))
    assert run.result.test == plain.result.test


def test_diverging_run_says_where_and_keeps_the_last_good_epoch(tmp_path):
    config = small_config(tmp_path, optimizer={"lr": 1e-3})
    run = run_one(config)
    # The same run with weights that overflow in the next epoch.
    file = run.checkpoint("last")
    checkpoint = load_checkpoint(file, run.id)
    for values in checkpoint["state_dict"].values():
        values *= 1e30
    AtomicCheckpointIO().save_checkpoint(checkpoint, file)
    before = file.read_bytes()
    with pytest.raises(RunError) as error:
        run_one(config.changed(training={"epochs": 5}))
    for value in (" 12 ", "0.001", "3 of 5 "):  # the step, the rate, the epochs
        assert value in str(error.value)
    assert file.read_bytes() == before


def test_checkpoint_of_another_configuration_is_refused(tmp_path):
    one, other = small_config(tmp_path), small_config(tmp_path, seeds=[1])
    run = run_one(one)
    folder = folder_of(other)
    folder.checkpoints.mkdir(parents=True)
    os.link(run.checkpoint("last"), folder.checkpoint("last"))
    with pytest.raises(RunError, match=run.id):
        run_one(other)


def test_a_split_that_was_changed_by_hand_is_noticed(tmp_path):
    config = small_config(tmp_path)
    run = run_one(config)
    split = {part: getattr(run.split, part).tolist() for part in ("train", "test")}
    split["train"], split["valid"] = split["train"][1:], run.split.valid.tolist()
    write_json(run.path / "split.json", split)
    with pytest.raises(RunError):
        run_one(config.changed(training={"epochs": 5}))


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
    run = run_one(config)
    assert metrics <= run.result.test.keys()
    losses = run.curve.column("train_loss")
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("schedule", ["constant", "step", "cosine", "onecycle"])
@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_schedules_end_where_they_should(tmp_path, schedule, optimizer):
    config = small_config(
        tmp_path,
        optimizer={"name": optimizer, "lr": 0.01, "clip": 1.0, "weight_decay": 1e-4},
        schedule={"name": schedule, "every": 1, "factor": 0.5},
    )
    run = run_one(config)
    checkpoint = load_checkpoint(run.checkpoint("last"), run.id)
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
    run = run_one(config)
    wanted = torch.float64 if precision == "64" else torch.float32
    assert {v.dtype for v in weights(run).values()} == {wanted}


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
    reference = run_one(config.changed(runs=tmp_path / "reference"))
    return config, file, reference


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
    run = folder_of(config)
    checkpoints = run.checkpoints
    interrupted = 0
    left_behind = 0
    for kill, argument in kills:
        process = start("train", file)
        kill(process, checkpoints, argument)
        process.communicate(timeout=120)
        interrupted += process.returncode == -signal.SIGKILL
        if checkpoints.is_dir():
            left_behind += any(f.suffix == ".part" for f in checkpoints.iterdir())
    assert run_one(config) == run
    return interrupted, left_behind


def test_killed_run_ends_as_if_nothing_had_happened(tmp_path):
    config, file, reference = resumable(tmp_path, hidden=128)
    kills = [(kill_while_writing, 1), (kill_after, 0.4), (kill_while_writing, 2)]
    interrupted, left_behind = finish_with_kills(config, file, kills)
    assert interrupted >= 2
    assert left_behind >= 1, "no kill hit the writing of a checkpoint"
    assert_same_run(folder_of(config), reference)
    assert not list(config.runs.rglob("*.part"))


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
    assert_same_run(folder_of(config), reference)


class PressCtrlC(Callback):
    """Ctrl-C after some epochs, and before it a second start of the same run."""

    def __init__(self, config, epochs):
        self.config, self.epochs = config, epochs

    def on_train_epoch_end(self, trainer, task):
        if trainer.current_epoch == self.epochs:
            with pytest.raises(RunError, match="molecules-expc-"):
                run_one(self.config)
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_keeps_the_checkpoint_and_says_how_to_resume(tmp_path):
    config, _, reference = resumable(tmp_path)
    with pytest.raises(Interrupted, match=" of 8 "):
        run_one(config, callbacks=[PressCtrlC(config, 2)])
    assert len(folder_of(config).curve) == 3
    run_one(config)
    assert_same_run(folder_of(config), reference)


def test_full_disk_is_a_sentence_and_the_run_can_go_on(tmp_path):
    config, file, reference = resumable(tmp_path, hidden=64, epochs=6)
    size = reference.checkpoint("last").stat().st_size

    def no_room_for_a_checkpoint():  # the system refuses to write a file this large
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))

    process = start("train", file, preexec_fn=no_room_for_a_checkpoint)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert str(folder_of(config).path) in errors
    assert "Traceback" not in errors
    assert not list(config.runs.rglob("*.part"))
    run_one(config)
    assert_same_run(folder_of(config), reference)


def test_metrics_are_a_table_of_numbers(tmp_path):
    run = run_one(small_config(tmp_path))
    with (run.path / "metrics.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [int(row["epoch"]) for row in rows] == [0, 1, 2]
    assert all(float(value) == float(value) for row in rows for value in row.values())


def test_what_is_not_logged_in_an_epoch_is_not_recorded_for_it(tmp_path):
    class EverySecond(Callback):
        def on_train_epoch_end(self, trainer, task):
            if trainer.current_epoch % 2 == 0:
                task.log("module", float(trainer.current_epoch))
                trainer.logger.log_metrics({"logger": float(trainer.current_epoch)})

    config = small_config(tmp_path, training={"epochs": 4})
    rows = run_one(config, callbacks=[EverySecond()]).curve.rows
    for name in ("module", "logger"):
        assert [row.get(name) for row in rows] == [0.0, None, 2.0, None]


@pytest.mark.parametrize(
    ("targets", "task", "error", "named"),
    [
        (["logp", "b"], "regression", RunError, r"valid_\w+"),
        (["b"], "binary", DataError, "valid.*'b'"),
    ],
)
def test_an_undefined_validation_metric_chooses_no_epoch(
    tmp_path, targets, task, error, named
):
    """Else the first epoch would be the best one without a word."""
    config = small_config(tmp_path, training={"epochs": 1})
    valid = set(config.data.load().split("random", 0).valid)
    header, *rows = (tmp_path / "molecules.csv").read_text().splitlines()
    rows = [f"{row},{'' if i in valid else i % 2}" for i, row in enumerate(rows)]
    (tmp_path / "molecules.csv").write_text("\n".join([f"{header},b", *rows]) + "\n")
    split = {"kind": "random"}
    config = config.changed(data={"targets": targets, "task": task}, split=split)
    with pytest.raises(error, match=named):
        run_one(config)


@pytest.mark.parametrize(
    "change",
    [
        {"compute": {"accelerator": "gpu"}},
        {"training": {"precision": "16-mixed"}},
        {"model": {"hidden": 10**8}},
        {"seeds": [-1]},
        {"seeds": [2**32]},
        {"split": {"seed": -1}},
    ],
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_what_cannot_run_here_is_a_config_error(tmp_path, change):
    config = small_config(tmp_path)
    with pytest.raises(ConfigError):
        run_one(config.changed(**change))


def test_a_curve_that_lost_rows_is_not_continued(tmp_path):
    config = small_config(tmp_path, training={"epochs": 2})
    run = run_one(config)
    run.metrics_file.file.unlink()
    with pytest.raises(RunError, match=r"metrics\.csv"):
        run_one(config.changed(training={"epochs": 3}))


def test_folds_in_files_are_all_used(tmp_path):
    graphs = write_graphs(tmp_path / "chords", 40)
    (tmp_path / "folds").mkdir()
    for fold in range(10):
        test = range(4 * fold, 4 * fold + 4)
        for part, chosen in (("train", set(range(40)) - {*test}), ("test", test)):
            file = tmp_path / "folds" / f"{part}_idx-{fold + 1}.txt"
            file.write_text("\n".join(map(str, sorted(chosen))) + "\n")
    split = {"kind": "gin", "folds": 5, "fold": 0, "folder": tmp_path / "folds"}
    data = {"name": str(graphs), "root": str(tmp_path / "root")}
    with pytest.raises(ConfigError, match="5"):
        run_one(small_config(tmp_path, data=data, split=split))
