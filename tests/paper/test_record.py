import statistics

import pytest

from fullrank.paper.record import make_record, read_record
from fullrank.report.reproduction import write_reproduction
from paper.samples import runs_for, write_run

CELL = ("ablation-qm9", "small", "ExpC-4", "qm9/mu")


def cell_of(record, name, scale, row, column):
    (table,) = (t for t in record["tables"] if (t["name"], t["scale"]) == (name, scale))
    (cell,) = (c for c in table["cells"] if (c["row"], c["column"]) == (row, column))
    return cell


def record_of(folder, values):
    """A document, written and read again, of runs with these errors by seed."""
    folder.mkdir()
    for run in runs_for("ablation-qm9", "small", folder, ["ExpC-4", "mu"], 4):
        if run.seeds[0] in values:
            write_run(run, "mae", 0.5 * values[run.seeds[0]], values[run.seeds[0]])
    write_reproduction(folder / "made", make_record(folder))
    return read_record(folder / "made" / "results.json")


def test_seeds_run_on_two_machines_are_one_cell_as_if_run_on_one(tmp_path):
    there = record_of(tmp_path / "there", {0: 1.0, 3: 4.0})
    record_of(tmp_path / "here", {1: 2.0})
    joined = cell_of(make_record(tmp_path / "here", [there]), *CELL)
    together = cell_of(record_of(tmp_path / "one", {0: 1.0, 1: 2.0, 3: 4.0}), *CELL)
    together["by_seed"] = {int(seed): v for seed, v in together["by_seed"].items()}
    assert joined == together
    assert joined["std"] == pytest.approx(statistics.stdev([1.0, 2.0, 4.0]))
    assert joined["curves"]["valid"][0] == pytest.approx(0.5 * 7 / 3, rel=1e-4)


@pytest.mark.parametrize(
    ("here", "there", "kept"),
    [
        ({0: 1.0}, {0: 9.0}, {0: 1.0}),
        ({0: 1.0}, {0: 9.0, 1: 2.0}, {0: 9.0, 1: 2.0}),
        ({}, {2: 3.0}, {2: 3.0}),
    ],
)
def test_where_seeds_are_shared_the_cell_with_more_runs_counts(
    tmp_path, here, there, kept
):
    other = record_of(tmp_path / "there", there)
    record_of(tmp_path / "here", here)
    assert cell_of(make_record(tmp_path / "here", [other]), *CELL)["by_seed"] == kept


def test_folds_are_not_mixed(tmp_path):
    for folder, seed in (("here", 0), ("there", 1)):
        only = ["GIN", "MUTAG", "fair"]
        for run in runs_for("baselines-ogb-tu", "small", tmp_path / folder, only, 2):
            if run.seeds[0] == seed:
                write_run(run, "accuracy", 0.5, 0.6 + 0.1 * seed)
    other = make_record(tmp_path / "there")
    cell = cell_of(
        make_record(tmp_path / "here", [other]),
        *("baselines-ogb-tu", "small", "GIN", "MUTAG"),
    )
    assert cell["by_seed"] == {0: pytest.approx(60.0)}


def test_a_choice_between_more_s_counts_before_more_seeds(tmp_path):
    for folder, seeds, scores in (
        ("here", 2, {16: 0.1, 32: 0.2, 8: 0.3}),
        ("there", 3, {4: 0.5}),
    ):
        for s, score in scores.items():
            only = ["ExpC-s", "mu"]
            args = ("baselines-qm9", "small", tmp_path / folder, only, seeds, s)
            for run in runs_for(*args):
                write_run(run, "mae", score, score)
    here, there = tmp_path / "here", tmp_path / "there"
    place = ("baselines-qm9", "small", "ExpC-s", "qm9/mu")
    for first, second in ((here, there), (there, here)):
        joined = make_record(first, [make_record(second)])
        assert cell_of(joined, *place)["s"] == 16
