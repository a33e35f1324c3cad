from pathlib import Path

import pytest

from fullrank.paper.cells import cells
from fullrank.paper.join import JoinedRuns
from fullrank.paper.record import read_record
from fullrank.paper.results import make_record
from fullrank.train import single_runs
from paper.samples import runs_for, write_run

COMMITTED = Path(__file__).parents[2] / "docs" / "results" / "results.json"


def runs_of(*arguments, **options):
    return [
        run
        for cell in cells(*arguments, **options)
        for config in cell.candidates.values()
        for run in single_runs(config)
    ]


@pytest.fixture(scope="module")
def committed():
    return JoinedRuns([read_record(COMMITTED)])


@pytest.mark.parametrize(
    "plan",
    [
        ("ablation-qm9", "small", ["mu", "gap", "U0"], 2),
        # The runs of every s are those of the ablation.
        ("baselines-qm9", "small", ["ExpC-s", "CombC", "mu", "gap", "U0"], 2),
        ("structural", "small", ["ExpC-4", "ExpC-8", "qm9/mu"], 2),
        ("structural", "paper", ["ExpC-4", "ogbg-molhiv"]),
        ("ablation-ogb", "paper", ["ExpC-3,4,5", "CombC", "ogbg-molhiv"]),
        ("baselines-ogb-tu", "paper", ["GIN", "ExpC-s", "CombC", "ogbg-molhiv"]),
        ("baselines-ogb-tu", "paper", ["ExpC-s", "MUTAG", "IMDB-BINARY", "fair"]),
        ("baselines-ogb-tu", "paper", ["GIN", "CombC", "MUTAG", "IMDB-BINARY"]),
    ],
)
def test_every_committed_run_is_found(committed, plan):
    runs = runs_of(*plan)
    assert runs
    assert [run for run in runs if committed.find(run) is None] == []


def test_other_runs_are_not_found(committed):
    for plan in (
        ("ablation-qm9", "small", ["ExpC-1", "alpha"], 2),  # another target
        ("ablation-qm9", "paper", ["ExpC-1", "mu"], 1),  # another scale
        ("baselines-ogb-tu", "small", ["GIN", "REDDIT-MULTI-12K"]),
        ("baselines-ogb-tu", "paper", ["GIN", "COLLAB"]),
    ):
        assert [run for run in runs_of(*plan) if committed.find(run)] == []
    # Two seeds of ExpC-1 are there, three of ExpC-4.
    found = [
        [committed.find(run) is not None for run in runs_of("ablation-qm9", *rest)]
        for rest in (("small", ["ExpC-1", "mu"], 4), ("small", ["ExpC-4", "mu"], 4))
    ]
    assert found == [[True, True, False, False], [True, True, True, False]]


def test_a_run_must_be_as_long(committed):
    (run,) = runs_of("ablation-ogb", "paper", ["CombC", "ogbg-molhiv"], 1)
    assert committed.find(run).epochs == 45
    assert committed.find(run.changed(training={"epochs": 30}))
    assert committed.find(run.changed(training={"epochs": 46})) is None
    # A cosine schedule over fewer epochs is another run.
    (run,) = runs_of("ablation-qm9", "small", ["CombC", "mu"], 1)
    assert committed.find(run).epochs == 30
    assert committed.find(run.changed(training={"epochs": 20})) is None


def test_the_s_that_fair_chose(committed):
    for cell in cells("baselines-ogb-tu", "paper", ["ExpC-s", "MUTAG", "gin"]):
        assert committed.chosen_s(cell) == 3
    for cell in cells("baselines-ogb-tu", "paper", ["ExpC-s", "COLLAB", "gin"]):
        assert committed.chosen_s(cell) is None


def test_the_folds_of_zhang_are_found_only_where_they_were_used(tmp_path):
    place = ("baselines-ogb-tu", "paper", tmp_path, ["GIN", "MUTAG", "fair"])
    for run in runs_for(*place):
        write_run(run, "accuracy", 0.5, 0.6)
    joined = JoinedRuns([make_record(tmp_path)])
    for run in runs_for(*place):
        assert joined.find(run).valid == pytest.approx(50.0)
        assert joined.find(run.changed(split={"folder": Path("MUTAG")})) is None


def test_committed_folds_are_those_of_zhang(committed):
    only = ["GIN", "MUTAG", "fair"]
    for run in runs_of("baselines-ogb-tu", "paper", only, folds=Path("folds")):
        assert committed.find(run).on_folds_of_zhang


def test_runs_with_an_s_that_was_not_chosen_are_found_too(tmp_path):
    for s, valid in ((3, 0.6), (4, 0.9)):
        only = ["ExpC-s", "MUTAG", "fair"]
        for run in runs_for("baselines-ogb-tu", "small", tmp_path, only, 1, s):
            write_run(run, "accuracy", valid, 0.5)
    make_record(tmp_path).write(tmp_path / "results.json")
    joined = JoinedRuns([read_record(tmp_path / "results.json")])
    runs = runs_of("baselines-ogb-tu", "small", ["ExpC-s", "MUTAG", "fair"])
    found = {run.model.s for run in runs if joined.find(run)}
    assert found == {3, 4}
    (cell,) = cells("baselines-ogb-tu", "small", ["ExpC-s", "MUTAG", "gin"])
    assert joined.chosen_s(cell) is None  # s = 5 may be better


def test_rows_with_the_same_configuration_share_their_numbers(tmp_path):
    for seed, run in enumerate(
        runs_for("ablation-qm9", "small", tmp_path / "there", ["ExpC-4", "gap"], 2)
    ):
        write_run(run, "mae", 0.5, 1.0 + seed)
    there = make_record(tmp_path / "there")
    (table,) = (table for table in there.tables if table.name == "ablation-qm9")
    (tmp_path / "here").mkdir()
    alone = there.model_copy(update={"tables": [table]})  # of an earlier version
    here = make_record(tmp_path / "here", [alone])
    same = table.cell("ExpC-4", "qm9/gap", "split")
    rows = {("density-qm9", "ExpC-4, bonds"), ("structural", "ExpC-4")}
    found = {
        (table.name, cell.row): cell
        for table in here.tables
        for cell in table.cells
        if (table.name, cell.row) in rows
    }
    assert found.keys() == rows
    for (_, row), cell in found.items():
        assert cell == same.model_copy(update={"row": row})
    # s is chosen among several experiments in baselines-qm9, one of which is known
    assert "ExpC-s" not in {c.row for t in here.tables for c in t.cells}


def test_a_column_is_on_the_folds_that_most_of_its_rows_have(tmp_path):
    def run_all(folder, row, test, zhang=False):
        only = [row, "MUTAG", "fair"]
        for run in runs_for("networks-tu", "small", folder, only):
            if zhang:
                run = run.changed(split={"folder": Path("MUTAG")})
            write_run(run, "accuracy", 0.5, test)

    run_all(tmp_path / "there", "GIN", 0.6, zhang=True)
    run_all(tmp_path / "here", "GIN", 0.7)
    there = make_record(tmp_path / "there")

    def gin():
        record = make_record(tmp_path / "here", [there])
        (table,) = (
            t for t in record.tables if (t.name, t.scale) == ("networks-tu", "small")
        )
        return table.cell("GIN", "MUTAG", "fair")

    assert gin().mean == pytest.approx(60.0)  # of equally many, as the paper
    run_all(tmp_path / "here", "GCN", 0.8)
    assert gin().mean == pytest.approx(70.0)
