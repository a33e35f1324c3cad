import json

import pytest

from fullrank.bench import train
from fullrank.errors import FullrankError


@pytest.fixture
def small(monkeypatch, tmp_path):
    """The same workloads with less to do."""
    monkeypatch.setenv("FULLRANK_ROOT", str(tmp_path))
    for workload in train.WORKLOADS.values():
        monkeypatch.setattr(workload, "graphs_if_quick", workload.batch_size + 7)
        monkeypatch.setattr(workload, "hidden", 16)


@pytest.mark.parametrize("name", list(train.WORKLOADS))
def test_both_sides_compute_the_same(small, name):
    losses = [train.first_losses(side, name, True) for side in train.SIDES]
    assert losses[0] == pytest.approx(losses[1], rel=train.AGREEMENT)
    assert losses[0][0] != losses[0][-1]  # it trains


def test_dense_graphs_are_about_as_dense_as_collab():
    graphs = train.dense_graphs(100).graphs
    assert graphs.num_nodes.mean() == pytest.approx(74.5, rel=0.1)
    assert graphs.num_edges.mean() / 2 == pytest.approx(2458, rel=0.2)


@pytest.mark.slow
def test_command_measures_and_writes(tmp_path):
    rows = train.run(quick=True, json_file=tmp_path / "rows.json")
    assert [row.workload for row in rows] == ["molecules", "dense"]
    for row, saved in zip(
        rows, json.loads((tmp_path / "rows.json").read_text()), strict=True
    ):
        assert row.largest_difference < train.AGREEMENT
        assert saved["times_faster"] == row.plain_seconds / row.our_seconds


def test_what_goes_wrong_in_a_side_is_raised(monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("FULLRANK_ROOT", str(file))  # no folder to keep QM9 in
    with pytest.raises((FullrankError, OSError)):
        train.measure("molecules", quick=True)
