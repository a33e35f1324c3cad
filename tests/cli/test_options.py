"""Options that several verbs share."""

import logging

import pytest

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
    assert errors == "error: cannot write gone/out.csv: there is no folder gone"
