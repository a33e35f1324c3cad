import json
import statistics
from pathlib import Path

import pytest

from fullrank.errors import RunError
from fullrank.paper.results import collect, read_runs
from paper.samples import COMMIT, runs_for, write_qm9, write_run


def result_of(runs, table, row, column, protocol="split", scale="small"):
    found = {(t.name, t.scale): t for t in collect(read_runs(runs))}
    return found[table, scale].cell(row, column, protocol)


@pytest.fixture(scope="module")
def qm9(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    write_qm9(runs)
    return runs


def test_mean_and_deviation_over_seeds_with_curves_and_origin(qm9):
    cell = result_of(qm9, "ablation-qm9", "ExpC-4", "qm9/mu")
    values = [1.1 * 0.8 * (1 + 0.01 * seed) for seed in range(3)]
    assert list(cell.by_seed.values()) == pytest.approx(values)
    assert cell.mean == pytest.approx(statistics.fmean(values))
    assert cell.std == pytest.approx(statistics.stdev(values))
    assert (cell.wanted, cell.done, cell.epochs) == (3, 3, 30)
    assert cell.curves["valid"] == [pytest.approx(0.808)] * 30
    assert cell.curves["train"] == [pytest.approx(0.404)] * 30
    assert [run.seed for run in cell.runs] == [0, 1, 2]
    assert all((run.commit, run.s) == (COMMIT, 4) for run in cell.runs)
    assert [run.valid for run in cell.runs] == pytest.approx([0.8, 0.808, 0.816])
    assert all((qm9 / run.run).is_dir() for run in cell.runs)
    assert {run.data for run in cell.runs} == {"content"}
    assert cell.other_runs == []


def test_s_is_chosen_on_validation_not_on_test(qm9, tmp_path):
    cell = result_of(qm9, "baselines-qm9", "ExpC-s", "qm9/mu")
    assert cell.s == 16
    assert {run.s for run in cell.runs} == {16}
    assert {run.s for run in cell.other_runs} == {4, 8, 32}
    for s, valid, test in ((4, 0.3, 0.9), (8, 0.5, 0.1)):
        args = ("baselines-qm9", "small", tmp_path, ["ExpC-s", "mu"], 1, s)
        write_run(*runs_for(*args), "mae", valid, test)
    cell = result_of(tmp_path, "baselines-qm9", "ExpC-s", "qm9/mu")
    assert (cell.s, cell.mean) == (4, 0.9)
    assert cell.note == "s = 16, 32 not run yet"


def test_s_is_chosen_on_the_seeds_that_every_s_has(tmp_path):
    # With its third seed s = 4 would look better than s = 8.
    for s, scores in ((4, [0.5, 0.6, 0.1]), (8, [0.4, 0.5])):
        args = ("baselines-qm9", "small", tmp_path, ["ExpC-s", "mu"], 3, s)
        for run, score in zip(runs_for(*args), scores, strict=False):
            write_run(run, "mae", score, score)
    cell = result_of(tmp_path, "baselines-qm9", "ExpC-s", "qm9/mu")
    assert (cell.s, cell.by_seed) == (8, {0: 0.4, 1: 0.5})


def test_no_choice_between_runs_of_different_seeds(tmp_path):
    for s, seed in ((4, 0), (8, 1)):
        args = ("baselines-qm9", "small", tmp_path, ["ExpC-s", "mu"], 2, s)
        write_run(runs_for(*args)[seed], "mae", 0.5, 0.5)
    cell = result_of(tmp_path, "baselines-qm9", "ExpC-s", "qm9/mu")
    assert (cell.mean, cell.done) == (None, 2)
    assert cell.note == "no seed is run with every s yet"


def test_a_cell_without_runs_is_missing_and_an_untouched_table_is_left_out(qm9):
    found = {(t.name, t.scale): t for t in collect(read_runs(qm9))}
    (cell,) = (
        cell
        for cell in found["ablation-qm9", "small"].missing
        if (cell.row, cell.column) == ("ExpC-4", "qm9/H")
    )
    assert cell.runs == 3
    tables = ("ablation-qm9", "baselines-qm9", "density-qm9", "structural")
    assert found.keys() == {(table, "small") for table in tables}


def test_gin_takes_the_epoch_of_the_best_mean_test_curve(tmp_path):
    runs = runs_for("baselines-ogb-tu", "small", tmp_path, ["GIN", "MUTAG", "gin"])
    assert len(runs) == 3
    for fold, run in enumerate(runs):
        curve = [0.5] * 15
        curve[fold] = 1.0  # the best epoch of this fold alone
        curve[7] = 0.7 + 0.1 * fold
        write_run(run, "accuracy", 0.5, 0.1, curve)
    cell = result_of(tmp_path, "baselines-ogb-tu", "GIN", "MUTAG", "gin")
    assert cell.mean == pytest.approx(80.0)
    assert cell.std == pytest.approx(10.0)
    assert cell.folds == "3 stratified folds"
    assert cell.curves["test"][7] == pytest.approx(80.0)


def test_a_seed_counts_only_with_all_its_folds(tmp_path):
    runs = runs_for("baselines-ogb-tu", "small", tmp_path, ["GIN", "MUTAG", "fair"], 2)
    for run in runs[:5]:
        write_run(run, "accuracy", 0.5, 0.6 + 0.1 * run.split.fold)
    cell = result_of(tmp_path, "baselines-ogb-tu", "GIN", "MUTAG", "fair")
    assert cell.by_seed == {0: pytest.approx(70.0)}
    assert cell.done == 5


def test_gin_takes_the_s_that_fair_chose(tmp_path):
    for protocol in ("gin", "fair"):
        for s, valid in ((3, 0.6), (4, 0.9)):
            only = ["ExpC-s", "MUTAG", protocol]
            args = ("baselines-ogb-tu", "small", tmp_path, only, 1, s)
            for run in runs_for(*args):
                # What gin watches is the test part, where s = 3 looks better.
                write_run(run, "accuracy", valid, 1.5 - valid, [1.5 - valid] * 15)
        cell = result_of(tmp_path, "baselines-ogb-tu", "ExpC-s", "MUTAG", "gin")
        if protocol == "gin":
            assert cell.mean is None
            assert "fair" in cell.note
    assert (cell.s, cell.mean) == (4, pytest.approx(60.0))
    assert (cell.wanted, cell.done, cell.tried) == (3, 3, [3, 4, 5])
    assert cell.note == "s = 5 not run yet"  # and it may be better


def test_the_folds_of_zhang_are_found_and_named(tmp_path):
    runs = runs_for("baselines-ogb-tu", "paper", tmp_path, ["GIN", "MUTAG", "fair"])
    for run in runs:
        zhang = run.changed(split={"folder": Path("anywhere/MUTAG")})
        write_run(zhang, "accuracy", 0.5, 0.6)
    cell = result_of(tmp_path, "baselines-ogb-tu", "GIN", "MUTAG", "fair", "paper")
    assert cell.mean == pytest.approx(60.0)
    assert cell.folds == "10 folds of Zhang et al."


def test_runs_trained_longer_are_still_the_tables(tmp_path):
    only = ["CombC", "ogbg-molhiv"]
    (run,) = runs_for("baselines-ogb-tu", "paper", tmp_path, only)
    longer = run.changed(training={"epochs": 400})
    assert longer.digest == run.digest
    write_run(longer, "rocauc", 0.8, 0.77)
    cell = result_of(
        tmp_path, "baselines-ogb-tu", "CombC", "ogbg-molhiv", "split", "paper"
    )
    assert (cell.mean, cell.epochs) == (pytest.approx(77.0), 400)
    assert cell.note == "400 epochs instead of 45"


def test_runs_trained_for_less_are_not_the_tables(tmp_path):
    only = ["CombC", "ogbg-molhiv"]
    (run,) = runs_for("baselines-ogb-tu", "paper", tmp_path, only)
    write_run(run.changed(training={"epochs": 5}), "rocauc", 0.8, 0.77)
    assert collect(read_runs(tmp_path)) == []


def test_complete_folds_of_our_own_count_before_a_few_of_zhangs(tmp_path):
    for row in ("GIN", "CombC"):
        only = [row, "MUTAG", "fair"]
        runs = runs_for("baselines-ogb-tu", "paper", tmp_path, only)
        zhang = [r.changed(split={"folder": Path("anywhere/MUTAG")}) for r in runs]
        for run in zhang if row == "GIN" else [*runs, zhang[0]]:
            write_run(run, "accuracy", 0.5, 0.6)
    args = ("MUTAG", "fair", "paper")
    gin = result_of(tmp_path, "baselines-ogb-tu", "GIN", *args)
    combc = result_of(tmp_path, "baselines-ogb-tu", "CombC", *args)
    assert (gin.done, gin.note) == (10, "10 folds of Zhang et al.")
    assert (combc.done, combc.note) == (10, "10 stratified folds")


def test_runs_that_cannot_be_read_are_named_and_the_rest_is_read(tmp_path):
    write_qm9(tmp_path, seeds=1)
    folders = sorted(tmp_path.iterdir())
    config = folders[0] / "config.yaml"
    config.write_text(config.read_text() + "new_option: 3\n")
    folders[1].rename(tmp_path / "qm9-expc-000000000000")
    (folders[2] / "result.json").unlink()
    counts = read_runs(tmp_path).counts
    assert list(counts.unread) == sorted([folders[0].name, "qm9-expc-000000000000"])
    assert "new_option" in counts.unread[folders[0].name]
    assert folders[1].name in counts.unread["qm9-expc-000000000000"]
    assert counts.unfinished == [folders[2].name]
    assert counts.finished == len(folders) - 3


@pytest.mark.parametrize(
    ("file", "broken", "why"),
    [
        ("environment.json", "commit", "commit"),
        ("environment.json", {"processor": None}, "processor"),
        ("result.json", "parameters", "parameters"),
        ("result.json", {"test": {"mae": None}}, "mae of its test part"),
        ("result.json", {"test": {"rmse": 1.0}}, "mae of its test part"),
        ("result.json", {"valid": {"mae": None}}, "mae of its validation part"),
        ("result.json", {"valid": {}}, "mae of its validation part"),
        ("result.json", {"test": None}, "test"),
    ],
)
def test_a_run_without_what_a_table_needs_is_named(tmp_path, file, broken, why):
    """``broken`` is what replaces a value, or the name of one that is missing."""
    (config,) = runs_for("ablation-qm9", "small", tmp_path, ["CombC", "mu"])
    run = write_run(config, "mae", 0.5, 0.5)
    values = json.loads((run.path / file).read_text())
    if isinstance(broken, str):
        del values[broken]
    else:
        values |= broken
    (run.path / file).write_text(json.dumps(values))
    found = read_runs(tmp_path)
    assert why in found.counts.unread[run.id]
    assert collect(found) == []


def test_runs_on_data_of_different_content_are_not_mixed(tmp_path):
    configs = [
        *runs_for("ablation-qm9", "small", tmp_path, ["CombC", "mu"], 3),
        *runs_for("ablation-qm9", "small", tmp_path, ["ExpC-4", "mu"], 3),
    ]
    for config in configs[:-1]:
        write_run(config, "mae", 0.5, 0.5)
    # Another seed of one model, and the same seed of another one, on edited data.
    edited = [
        write_run(config, "mae", 0.1, 0.1, data="edited")
        for config in (configs[-1], configs[0])
    ]
    found = read_runs(tmp_path)
    assert set(found.counts.unread) == {run.id for run in edited}
    assert found.counts.finished == 5
    table = next(t for t in collect(found) if t.name == "ablation-qm9")
    assert table.cell("CombC", "qm9/mu", "split").by_seed == {0: 0.5, 1: 0.5, 2: 0.5}
    assert table.cell("ExpC-4", "qm9/mu", "split").by_seed == {0: 0.5, 1: 0.5}


def test_other_runs_of_a_user_are_not_the_papers_affair(tmp_path):
    (config,) = runs_for("ablation-qm9", "small", tmp_path, ["CombC", "mu"])
    own = config.changed(model={"hidden": 7})
    for data in ("content", "edited"):
        write_run(own, "mae", 0.5, 0.5, data=data)
    found = read_runs(tmp_path)
    assert (found.counts.finished, found.counts.unread) == (2, {})
    assert collect(found) == []


def test_no_folder(tmp_path):
    with pytest.raises(RunError, match="nothing"):
        read_runs(tmp_path / "nothing")


def test_a_run_that_is_being_trained_for_longer_is_not_finished(tmp_path):
    args = ("ablation-qm9", "paper", tmp_path, ["ExpC-4", "mu"], 1)
    (config,) = runs_for(*args)
    run = write_run(config, "mae", 0.5, 0.6)
    longer = config.changed(training={"epochs": config.training.epochs + 5})
    run.begin(run.identity, longer, run.split, run.environment)
    found = read_runs(tmp_path)
    assert found.counts.unfinished == [run.id]
    assert not found.runs


@pytest.mark.parametrize("content", [b"", b"epoch,lr\n0,1.0\n", b"\xff\n"])
def test_a_run_without_its_curve_is_named(tmp_path, content):
    args = ("ablation-qm9", "small", tmp_path, ["ExpC-4", "mu"], 2)
    broken, _ = (write_run(run, "mae", 0.5, 0.6) for run in runs_for(*args))
    broken.metrics_file.file.write_bytes(content)
    found = read_runs(tmp_path)
    assert list(found.counts.unread) == [broken.id]
    assert found.counts.finished == 1
