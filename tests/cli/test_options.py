"""Options that several verbs share."""

import logging

import pytest
import torch

from fullrank.cli.options import share_cores
from fullrank.data.workers import available_cpus
from train.samples import folder_of, small_config


@pytest.mark.parametrize("quiet", [True, False])
def test_quiet_says_nothing_of_bad_rows_either(program, tmp_path, caplog, quiet):
    config = small_config(tmp_path, training={"epochs": 1})
    with (tmp_path / "molecules.csv").open("a") as table:
        table.write("C1CC,1,2,0,0,ring\n")
    (tmp_path / "config.yaml").write_text(config.text())
    level = logging.getLogger("fullrank").level
    status, output, errors = program("train", "config.yaml", *["-q"] * quiet)
    assert status == 0
    assert ("1 of 72 rows" in caplog.text) is not quiet
    assert logging.getLogger("fullrank").level == level
    assert errors == ""
    assert (output == f"{folder_of(config).path}\n") is quiet
    assert (tmp_path / "molecules.rejected.csv").exists()


def test_a_file_is_refused_before_any_work_if_its_folder_is_not_there(program):
    status, _, errors = program("predict", "no-run", "in.csv", "-o", "gone/out.csv")
    assert status == 2
    assert errors.startswith("error: ")
    assert "gone/out.csv" in errors


def test_the_network_leaves_cores_to_the_workers(monkeypatch):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(7)
        monkeypatch.setenv("OMP_NUM_THREADS", "7")
        share_cores()
        assert torch.get_num_threads() == 7  # as the user says
        monkeypatch.delenv("OMP_NUM_THREADS")
        share_cores()
        assert torch.get_num_threads() == max(available_cpus() // 2, 1)
    finally:
        torch.set_num_threads(before)
