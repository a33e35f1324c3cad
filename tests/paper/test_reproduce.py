import pytest

from fullrank.paper.cells import cells
from fullrank.paper.grid import run_here
from fullrank.paper.reproduce import estimate, single_runs
from fullrank.train import finished, runs_of
from shared_data import shared_data

GIN = ["GIN", "MUTAG", "fair"]


@pytest.fixture
def tu(tmp_path, monkeypatch):
    monkeypatch.setenv("FULLRANK_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("FULLRANK_MIRROR", str(shared_data() / "tu"))


def test_runs_come_seed_by_seed_and_data_set_by_data_set():
    found = cells("ablation-qm9", "small", ["mu", "gap", "ExpC-1", "CombC"], seeds=2)
    runs = single_runs([*found, *found])
    assert [(r.seeds[0], r.data.targets[0], r.model.conv) for r in runs] == [
        (seed, target, conv)
        for seed in (0, 1)
        for target in ("mu", "gap")
        for conv in ("expc", "combc")
    ]


def test_the_estimate_counts_parameters_and_what_is_left(tu, tmp_path):
    found = cells("baselines-ogb-tu", "small", GIN, runs=tmp_path / "runs")
    (before,) = estimate(found)
    runs = runs_of(found[0].candidates[None])
    run_here(runs[:1], lambda board: None)
    (after,) = estimate(found)
    assert (before.runs, before.done, after.done) == (3, 0, 1)
    assert before.parameters == [finished(runs[0])["parameters"]]
    assert before.seconds > 0


def test_a_set_that_cannot_be_had_leaves_the_others_alone(tu, tmp_path):
    only = ["GIN", "MUTAG", "ogbg-code", "fair", "split"]
    found = list(estimate(cells("baselines-ogb-tu", "small", only)))
    code, mutag = sorted(found, key=lambda cost: cost.cell.column)[::-1]
    assert (code.cell.column, code.seconds) == ("ogbg-code", None)
    assert "withdrawn" in code.problem
    assert mutag.seconds > 0
