import shutil
from pathlib import Path

import pytest

from fullrank.errors import DataError
from fullrank.paper.cells import cells
from fullrank.paper.record import read_record
from fullrank.paper.reproduce import Plan, estimate, reproduce
from fullrank.paper.results import make_record
from fullrank.train.sweep import RunOutcome, run_here
from paper.samples import runs_for, write_mutag, write_run

GIN = ["GIN", "MUTAG", "fair"]
EXPC = ["ExpC-s", "MUTAG"]
COMMITTED = Path(__file__).parents[2] / "docs" / "results" / "results.json"


@pytest.fixture
def content(tmp_path, monkeypatch):
    return write_mutag(tmp_path, monkeypatch)


def done(plan):
    return len(plan.runs) - len(plan.unfinished(plan.runs))


def write_fair(runs, scores, content):
    """Runs by the protocol fair with these accuracies on validation by s."""
    for s, valid in scores.items():
        place = ("baselines-ogb-tu", "small", runs, [*EXPC, "fair"], 1, s)
        for run in runs_for(*place):
            write_run(run, "accuracy", valid, 0.5, [0.5] * 15, data=content)


def write_folds(folder, graphs=60):
    """Files in the layout of the folds of Zhang et al."""
    folder.mkdir(parents=True)
    for fold in range(10):
        test = set(range(fold, graphs, 10))
        for part, indices in (("train", set(range(graphs)) - test), ("test", test)):
            text = "".join(f"{index}\n" for index in sorted(indices))
            (folder / f"{part}_idx-{fold + 1}.txt").write_text(text)


def test_runs_come_seed_by_seed_and_data_set_by_data_set(tmp_path):
    only = ["mu", "gap", "ExpC-1", "CombC"]
    found = cells("ablation-qm9", "small", only, seeds=2, runs=tmp_path)
    runs = Plan([*found, *found]).runs
    assert [(r.seeds[0], r.data.targets[0], r.model.conv) for r in runs] == [
        (seed, target, conv)
        for seed in (0, 1)
        for target in ("mu", "gap")
        for conv in ("expc", "combc")
    ]


def test_all_committed_runs_count_as_done(tmp_path):
    join = [read_record(COMMITTED)]
    only = ["mu", "gap", "U0"]
    plan = Plan(cells("ablation-qm9", "small", only, seeds=2, runs=tmp_path), join)
    assert (len(plan.runs), done(plan)) == (48, 48)
    # The protocol gin is planned with the s that fair chose there.
    only = ["GIN", "ExpC-s", "CombC", "MUTAG", "IMDB-BINARY"]
    plan = Plan(cells("baselines-ogb-tu", "paper", only, runs=tmp_path), join)
    assert (len(plan.runs), done(plan)) == (160, 160)
    assert {r.model.s for r in plan.runs if r.split.kind == "gin"} == {None, 3}


def test_gin_is_run_with_the_chosen_s_only_once_fair_is_complete(tmp_path, content):
    plan = Plan(cells("baselines-ogb-tu", "small", EXPC, runs=tmp_path / "runs"))

    def candidates():
        plan.refresh()
        return {cell.protocol: [*cell.candidates] for cell in plan.cells}

    for s, valid in ((3, 0.6), (4, 0.9), (5, 0.7)):
        assert candidates() == {"gin": [3, 4, 5], "fair": [3, 4, 5]}
        write_fair(tmp_path / "runs", {s: valid}, content)
    assert candidates() == {"gin": [4], "fair": [3, 4, 5]}


def test_s_is_chosen_from_the_runs_of_two_machines(tmp_path, content):
    here, there = tmp_path / "here", tmp_path / "there"
    write_fair(there, {3: 0.6, 4: 0.9}, content)
    for s, valid, chosen in ((5, 0.7, 4), (5, 0.95, 5)):
        write_fair(here, {s: valid}, content)
        planned = cells("baselines-ogb-tu", "small", [*EXPC, "gin"], runs=here)
        (cell,) = Plan(planned, [make_record(there)]).cells
        assert [*cell.candidates] == [chosen]
        shutil.rmtree(here)


def test_fair_is_run_first_and_chooses_the_s_of_gin(tmp_path, content):
    runs = tmp_path / "runs"
    stages = []

    def run(configs):
        stages.append([(c.split.kind, c.model.s) for c in configs])
        for config in configs:
            score = 0.9 if config.model.s == 5 else 0.6
            write_run(config, "accuracy", score, 0.5, [0.5] * 15, data=content)
        return [RunOutcome(config, "done") for config in configs]

    plan = Plan(cells("baselines-ogb-tu", "small", EXPC, runs=runs))
    outcomes = reproduce(plan, run)
    assert stages == [
        [("fair", s) for s in (3, 4, 5) for _ in range(3)],
        [("gin", 5)] * 3,
    ]
    assert len(outcomes) == 12
    assert reproduce(plan, run) == []
    assert len(stages) == 2


def test_runs_on_other_folds_or_other_data_are_not_done(tmp_path, content):
    def plan(folds=None):
        return Plan(
            cells("baselines-ogb-tu", "paper", GIN, folds=folds, runs=tmp_path / "runs")
        )

    write_folds(tmp_path / "folds" / "MUTAG")
    for run in plan().runs:
        write_run(run, "accuracy", 0.5, 0.5, data=content)
    assert (len(plan().runs), done(plan())) == (10, 10)
    assert done(plan(tmp_path / "folds")) == 0
    with pytest.raises(DataError, match="nothing"):
        done(plan(tmp_path / "nothing"))
    shutil.rmtree(tmp_path / "runs")
    for run in plan().runs:
        write_run(run, "accuracy", 0.5, 0.5, data="edited since")
    assert done(plan()) == 0


def test_a_plan_done_for_real_and_its_costs(tmp_path, content):
    plan = Plan(cells("baselines-ogb-tu", "small", GIN, runs=tmp_path / "runs"))
    (before,) = estimate(plan)
    outcomes = run_here(plan.runs[:1], lambda state: None)
    assert [outcome.state for outcome in outcomes] == ["done"]
    plan.refresh()
    (after,) = estimate(plan)
    assert (before.runs, before.done, after.done) == (3, 0, 1)
    assert before.seconds > 0
    outcomes = reproduce(plan, lambda configs: run_here(configs, lambda state: None))
    assert [outcome.state for outcome in outcomes] == ["done"] * 2
    (table,) = make_record(tmp_path / "runs").tables
    cell = table.cell("GIN", "MUTAG", "fair")
    assert (cell.done, cell.parameters) == (3, before.parameters[0])


def test_a_set_that_cannot_be_had_leaves_the_others_alone(tmp_path, content):
    only = ["GIN", "MUTAG", "ogbg-code", "fair", "split"]
    planned = cells("baselines-ogb-tu", "small", only, runs=tmp_path / "runs")
    found = {cost.cell.column: cost for cost in estimate(Plan(planned))}
    assert found["ogbg-code"].seconds is None
    assert "ogbg-code" in found["ogbg-code"].problem
    assert found["MUTAG"].seconds > 0
