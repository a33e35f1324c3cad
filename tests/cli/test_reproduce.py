import os

import pytest

from fullrank.train import load_config
from paper.samples import runs_for, write_run
from shared_data import shared_data

GIN = ["--only", "GIN", "--only", "MUTAG"]


@pytest.fixture
def tu(tmp_path, monkeypatch):
    monkeypatch.setitem(os.environ, "FULLRANK_ROOT", str(tmp_path / "root"))
    monkeypatch.setitem(os.environ, "FULLRANK_MIRROR", str(shared_data() / "tu"))


def test_the_list(program):
    status, output, _ = program("reproduce", "--list")
    assert status == 0
    assert output.split()[:2] == ["ablation-ogb", "ablation-qm9"]
    assert "figure-re-sum-qm9" in output


def test_what_does_not_exist_is_one_sentence(program, tmp_path):
    status, _, errors = program("reproduce", "baselines-qm")
    assert status == 2
    assert errors.startswith("error: there is no table 'baselines-qm'")
    assert "did you mean 'baselines-qm9'" in errors


def test_a_dry_run_shows_costs_and_runs_nothing(program, tu, tmp_path):
    status, output, _ = program("reproduce", "baselines-ogb-tu", *GIN, "--dry-run")
    assert status == 0
    assert "38.3 k" in output
    assert "one after another" in output
    assert not (tmp_path / "runs").exists()


def test_a_table_ends_in_a_page_and_a_missing_set_does_not_stop_it(
    program, tu, tmp_path
):
    arguments = ["reproduce", "baselines-ogb-tu", *GIN, "--only", "ogbg-code"]
    arguments += ["--seeds", "1", "--workers", "2"]
    status, _, errors = program(*arguments)
    assert status == 1  # not all runs could be done
    assert "7 runs, 0 of them done already" in errors
    assert "1 of 7 runs failed" in errors
    assert "ogbg-code was withdrawn" in errors
    text = (tmp_path / "reproduction" / "results.md").read_text()
    assert "Made of 6 finished runs" in text
    assert (tmp_path / "reproduction" / "results.html").exists()
    _, _, errors = program(*arguments)
    assert "7 runs, 6 of them done already" in errors


def test_gin_is_done_with_the_s_that_fair_chose(program, tu, tmp_path):
    for s, valid in ((3, 0.6), (4, 0.9), (5, 0.7)):
        only = ["ExpC-s", "MUTAG", "fair"]
        for run in runs_for("baselines-ogb-tu", "small", tmp_path, only, 1, s):
            write_run(run, "accuracy", valid, 0.5, [0.5] * 15)
    models = ["--only", "ExpC-s", "--only", "MUTAG"]
    status, _, errors = program(
        "reproduce", "baselines-ogb-tu", *models, "--runs", tmp_path
    )
    assert status == 0
    assert "12 runs, 9 of them done already" in errors
    configs = [load_config(file) for file in tmp_path.glob("*/config.yaml")]
    assert {c.model.s for c in configs if c.split.kind == "gin"} == {4}


def test_runs_of_another_machine_are_not_done_again(program, tu, tmp_path):
    only = ["GIN", "MUTAG", "fair"]
    for run in runs_for("baselines-ogb-tu", "small", tmp_path / "there", only):
        write_run(run, "accuracy", 0.5, 0.6)
    program("report", "there", "--out", "of there")
    arguments = ["reproduce", "baselines-ogb-tu", *GIN, "--only", "fair"]
    arguments += ["--join", "of there/results.json"]
    status, output, _ = program(*arguments, "--dry-run")
    assert status == 0
    assert "about 0 s" in output
    status, _, errors = program(*arguments)
    assert status == 0
    assert "3 runs, 3 of them done already" in errors
    assert "Made of 3 finished" in (tmp_path / "reproduction/results.md").read_text()
