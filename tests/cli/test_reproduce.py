import json
import os
import sys
from pathlib import Path

import pytest

from fullrank.train import RunFolder
from paper.samples import runs_for, write_mutag, write_run

GIN = ["--only", "GIN", "--only", "MUTAG"]
COMMITTED = Path(__file__).parents[2] / "docs" / "results" / "results.json"


@pytest.fixture
def content(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    return write_mutag(tmp_path, monkeypatch)


def test_the_list(program):
    status, output, _ = program("reproduce", "--list")
    assert status == 0
    assert output.split()[:2] == ["ablation-ogb", "ablation-qm9"]
    assert "figure-re-sum-qm9" in output


def test_what_does_not_exist_is_one_sentence(program):
    status, _, errors = program("reproduce", "baselines-qm")
    assert status == 2
    assert errors.startswith("error: ")
    assert "'baselines-qm9'" in errors


def test_a_dry_run_shows_costs_and_runs_nothing(program, content, tmp_path):
    status, output, _ = program("reproduce", "baselines-ogb-tu", *GIN, "--dry-run")
    assert status == 0
    assert [line.split()[:5] for line in output.splitlines()[1:3]] == [
        ["GIN", "MUTAG", "gin", "3", "0"],
        ["GIN", "MUTAG", "fair", "3", "0"],
    ]
    assert not (tmp_path / "runs").exists()


def test_a_table_ends_in_a_page_and_a_missing_set_does_not_stop_it(
    program, content, tmp_path
):
    arguments = ["reproduce", "baselines-ogb-tu", *GIN, "--only", "ogbg-code"]
    arguments += ["--seeds", "1"]
    status, _, errors = program(*arguments)
    assert status == 1  # not all runs could be done
    assert "7 runs, 0 already done" in errors
    assert "1 of 7 runs failed" in errors
    assert "ogbg-code" in errors
    text = (tmp_path / "reproduction" / "results.md").read_text()
    assert "6 finished runs" in text
    assert (tmp_path / "reproduction" / "results.html").exists()
    _, _, errors = program(*arguments)
    assert "7 runs, 6 already done" in errors


def test_workers_do_what_is_left(program, content, tmp_path):
    only = ["GIN", "MUTAG", "fair"]
    first, *others = runs_for("baselines-ogb-tu", "small", tmp_path / "runs", only)
    for run in others:
        write_run(run, "accuracy", 0.5, 0.6, data=content)
    status, _, errors = program(
        "reproduce", "baselines-ogb-tu", *GIN, "--only", "fair", "--workers", "2"
    )
    assert status == 0
    assert "3 runs, 2 already done" in errors
    assert "1/1 done" in errors
    done = [run.config for run in RunFolder.all_in(tmp_path / "runs")]
    assert first.digest in {config.digest for config in done}


def test_gin_is_done_with_the_s_that_fair_chose(program, content, tmp_path):
    for s, valid in ((3, 0.6), (4, 0.9), (5, 0.7)):
        only = ["ExpC-s", "MUTAG", "fair"]
        for run in runs_for("baselines-ogb-tu", "small", tmp_path / "runs", only, 1, s):
            write_run(run, "accuracy", valid, 0.5, [0.5] * 15, data=content)
    models = ["--only", "ExpC-s", "--only", "MUTAG"]
    status, _, errors = program("reproduce", "baselines-ogb-tu", *models)
    assert status == 0
    assert "12 runs, 9 already done" in errors
    configs = [run.config for run in RunFolder.all_in(tmp_path / "runs")]
    assert [c.model.s for c in configs if c.split.kind == "gin"] == [4, 4, 4]


def test_runs_of_another_machine_are_not_done_again(program, content, tmp_path):
    only = ["GIN", "MUTAG", "fair"]
    for run in runs_for("baselines-ogb-tu", "small", tmp_path / "there", only):
        write_run(run, "accuracy", 0.5, 0.6, data=content)
    program("report", "there", "--out", "of there")
    arguments = ["reproduce", "baselines-ogb-tu", *GIN, "--only", "fair"]
    arguments += ["--join", "of there/results.json"]
    status, output, _ = program(*arguments, "--dry-run")
    assert status == 0
    assert "about 0 s" in output
    status, _, errors = program(*arguments)
    assert status == 0
    assert "3 runs, 3 already done" in errors
    assert "3 finished" in (tmp_path / "reproduction/results.md").read_text()


def test_the_committed_results_need_no_run_again(program, tmp_path):
    sets = ["--only", "mu", "--only", "gap", "--only", "U0"]
    status, _, errors = program(
        "reproduce", "ablation-qm9", *sets, "--seeds", "2", "--join", COMMITTED
    )
    assert status == 0
    assert "48 runs, 48 already done" in errors
    made = json.loads((tmp_path / "reproduction/results.json").read_text())
    before = json.loads(COMMITTED.read_text())

    def numbers(record):  # a cell whose folds are not all done has none yet
        return {
            (table["name"], table["scale"]): sum(
                bool(c["by_seed"]) for c in table["cells"]
            )
            for table in record["tables"]
        }

    assert numbers(made) == numbers(before)
    known = {claim["says"] for claim in before["claims"]}
    assert [c for c in made["claims"] if c["says"] in known] == before["claims"]
