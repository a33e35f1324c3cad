import os

import pytest

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
    assert "did you mean 'baselines-qm9'" in errors
    assert "Traceback" not in errors


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
