import csv

import pytest

from fullrank.bench import predict
from fullrank.errors import ConfigError
from train.samples import write_molecules


@pytest.mark.slow
def test_every_row_is_predicted_and_measured(tmp_path, monkeypatch):
    table = write_molecules(tmp_path / "in.csv")
    monkeypatch.setattr(predict, "_TRAINING_ROWS", 60)
    found = predict.measure(tmp_path, table, 150, chemprop=None)
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


def test_a_program_that_fails_is_named(tmp_path):
    with pytest.raises(ConfigError, match="false"):
        predict._timed("none", ["false"], tmp_path / "out.csv", 1)
