import json

import pytest

from fullrank.bench import loading
from fullrank.data import QM9


def test_rows_compare_the_same_batches(tmp_path):
    dataset = QM9(tmp_path, limit=300)
    rows = loading.measure(dataset, seconds=0.05)
    assert [row.loader.split()[0] for row in rows] == ["fullrank", "PyG", "PyG"]
    assert rows[0].times_faster == 1
    for row in rows:
        expected = row.ms_per_batch / rows[0].ms_per_batch
        assert row.times_faster == pytest.approx(expected)


def test_rows_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FULLRANK_ROOT", str(tmp_path))
    rows = loading.run(quick=True, json_file=tmp_path / "rows.json")
    written = json.loads((tmp_path / "rows.json").read_text())
    assert [row["ms_per_batch"] for row in written] == [r.ms_per_batch for r in rows]
    assert "our speedup" in capsys.readouterr().out
