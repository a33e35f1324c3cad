import csv
import json
import sys
from functools import partial

import pytest

from fullrank.bench import predict
from fullrank.errors import ConfigError
from train.samples import write_molecules


@pytest.mark.slow
def test_every_row_is_predicted_and_measured(tmp_path, monkeypatch):
    table = write_molecules(tmp_path / "in.csv")
    monkeypatch.setattr(predict, "_TRAINING_ROWS", 60)
    found = predict.measure(tmp_path, table, 150, predict.programs(None))
    assert [row.program for row in found] == [
        "fullrank, one network",
        "fullrank, recipe",
    ]
    for row in found:
        assert row.rows == 150
        assert row.rows_per_cpu_second > 0
        assert 100 < row.pss_mb < 4000  # torch alone takes more than the one
        with (tmp_path / f"{row.program.split(', ')[1]}.csv").open() as stream:
            rows = list(csv.DictReader(stream))
        assert len(rows) == 150
        assert all(row["predicted_label"] for row in rows)


def test_rows_of_several_calls_are_joined(tmp_path, monkeypatch):
    table = write_molecules(tmp_path / "in.csv")
    copy = "import shutil, sys; shutil.copy(*sys.argv[1:])"

    def copying(name, folder, table, rows):
        output = folder / f"{name}.csv"
        command = [sys.executable, "-c", copy, str(table), str(output)]
        return predict._timed(name, command, output, rows)

    known = {name: partial(copying, name) for name in ("a", "b")}
    monkeypatch.setattr(predict, "programs", lambda chemprop: known)
    file = tmp_path / "rows.json"
    for name in ("a", "b", "a"):
        predict.run(True, file, table, None, [name])
    rows = json.loads(file.read_text())
    assert [row["program"] for row in rows] == ["a", "b"]
    assert all(row["rows"] == 2_000 and row["provenance"]["torch"] for row in rows)
    with pytest.raises(ConfigError, match="'c'"):
        predict.run(True, file, table, None, ["c"])


def test_a_program_that_fails_is_named(tmp_path):
    with pytest.raises(ConfigError, match="false"):
        predict._timed("none", ["false"], tmp_path / "out.csv", 1)
