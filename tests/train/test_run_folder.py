import json

import pytest

from fullrank.errors import RunError
from fullrank.train import RunFolder, run_experiment, run_one
from fullrank.train.run_folder import CurveFile, ExperimentFolder, open_runs
from train.samples import small_config


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    config = small_config(tmp_path_factory.mktemp("run"), training={"epochs": 1})
    return run_one(config)


@pytest.fixture
def copy(run, tmp_path):
    """A copy of a finished run, to be spoilt."""
    import shutil

    return RunFolder(shutil.copytree(run.path, tmp_path / run.id))


class TestCurveFile:
    def test_numbers_are_kept_exactly(self, tmp_path):
        file = CurveFile(tmp_path / "metrics.csv")
        values = [0.1 + 0.2, 1e-300, float("nan")]
        for epoch, value in enumerate(values):
            file.add(epoch, {"lr": 0.1, "loss": value})
        found = file.read().column("loss")
        assert list(map(str, found)) == list(map(str, values))

    def test_resuming_cuts_back_to_the_saved_epochs(self, tmp_path):
        file = CurveFile(tmp_path / "metrics.csv")
        for epoch in range(5):
            file.add(epoch, {"loss": epoch / 3})
        complete = file.file.read_bytes()
        file.cut(2)
        assert file.read().column("epoch") == [0, 1]
        for epoch in range(2, 5):
            file.add(epoch, {"loss": epoch / 3})
        assert file.file.read_bytes() == complete

    def test_a_quantity_may_appear_later(self, tmp_path):
        file = CurveFile(tmp_path / "metrics.csv")
        file.add(0, {"loss": 1.0})
        file.add(1, {"loss": 2.0, "kept": 0.5})
        assert file.read().rows == (
            {"epoch": 0, "loss": 1.0},
            {"epoch": 1, "loss": 2.0, "kept": 0.5},
        )

    def test_what_is_not_a_number_is_named(self, tmp_path):
        (tmp_path / "metrics.csv").write_text("epoch,loss\n0,oops\n")
        with pytest.raises(RunError, match=r"metrics\.csv.*oops"):
            CurveFile(tmp_path / "metrics.csv").read()


def test_a_folder_gives_back_what_was_written(run):
    again = RunFolder.open(run.path)
    assert again.identity.id == run.id == run.path.name
    assert again.result.run == run.id
    assert again.config.seeds == [0]
    assert len(again.curve) == 1
    assert again.environment.fullrank
    assert RunFolder.all_in(run.path.parent) == [run]


def test_a_moved_folder_is_the_same_run(copy, run):
    assert copy.config.runs == copy.path.parent
    assert copy.config.data == run.config.data
    assert run_one(copy.config) == copy  # found, not trained again


def test_a_renamed_folder_is_refused(copy):
    renamed = RunFolder(copy.path.rename(copy.path.with_name("other-expc-0123")))
    with pytest.raises(RunError, match=copy.id):
        renamed.identity  # noqa: B018


@pytest.mark.parametrize("content", ["", "{}", "[]", "{", '{"run": 3}', "null"])
@pytest.mark.parametrize("name", ["result", "run", "environment", "split"])
def test_a_damaged_file_is_named(copy, name, content):
    (copy.path / f"{name}.json").write_text(content)
    attribute = "identity" if name == "run" else name
    with pytest.raises(ValueError, match=rf"{name}\.json"):
        getattr(copy, attribute)


def test_another_format_is_refused(copy):
    file = copy.path / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": 99}))
    with pytest.raises(RunError, match=r"run\.json"):
        copy.identity  # noqa: B018


def test_a_configuration_of_another_version_is_named(copy):
    (copy.path / "config.yaml").write_text("data: {name: qm9}\nmodl: {}\n")
    with pytest.raises(RunError, match="'modl'"):
        copy.config  # noqa: B018


def test_what_is_not_a_run_folder(tmp_path):
    with pytest.raises(RunError):
        RunFolder.open(tmp_path)


def test_an_experiment_names_only_folders_beside_it(tmp_path):
    config = small_config(tmp_path, seeds=[0, 1], training={"epochs": 1})
    folder = config.runs / run_experiment(config).experiment
    assert [run.result.seed for run in open_runs(folder)] == [0, 1]
    file = folder / "summary.json"
    summary = json.loads(file.read_text())
    for outside in ("../../elsewhere", "..", ".", "", "/etc", "a\\b"):
        file.write_text(json.dumps(summary | {"runs": [outside]}))
        with pytest.raises(RunError, match=r"summary\.json"):
            ExperimentFolder(folder).runs  # noqa: B018


def test_small_files_make_the_same_folder_elsewhere(run, tmp_path):
    there = RunFolder(tmp_path / run.id)
    there.write_small_files(run.small_files())
    assert there.result == run.result
    assert there.curve == run.curve
    assert there.identity == run.identity


def test_one_process_at_a_time(copy):
    with (
        copy.locked(),
        pytest.raises(RunError),
        RunFolder(copy.path).locked(),
    ):
        pass
