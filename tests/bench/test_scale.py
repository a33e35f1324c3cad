import json
from xml.etree import ElementTree

import pytest

from fullrank.bench import scale


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(scale, "QUICK_EDGES", (200, 2000))
    monkeypatch.setattr(scale, "SECONDS", 0.0)


def test_points_files_and_picture(small, tmp_path, capsys):
    file, picture = tmp_path / "scale.json", tmp_path / "scale.svg"
    found = scale.run(quick=True, json_file=file, picture=picture)
    saved = json.loads(file.read_text())
    assert [row["edges"] for row in saved["rows"]] == [r.edges for r in found.rows]
    names = {row.implementation for row in found.rows}
    assert {"ExpC-4", "ExpC-4, plain formula", "GATv2, 4 heads", "PNA"} <= names
    assert all(row.seconds > 0 for row in found.rows)
    small, large = (r for r in found.rows if r.implementation == scale.GATHER)
    assert small.growth is None
    assert large.growth == pytest.approx(large.seconds / small.seconds)
    ElementTree.fromstring(picture.read_text())
    assert "PNA" in capsys.readouterr().out
    kept = {row.implementation: row.saved_gib for row in found.rows}
    assert kept["ExpC-4"] < kept["ExpC-4, plain formula"] / 2
    assert kept["ExpC-4, portable"] < kept["ExpC-4, plain formula"] / 2


def test_what_would_not_fit_is_left_out(small, monkeypatch):
    monkeypatch.setattr(scale, "_available_gib", lambda: 1e-9)
    measured = {
        (row.edges, row.seconds is not None) for row in scale.measure((50, 500))
    }
    assert measured == {(50, True), (500, False)}
