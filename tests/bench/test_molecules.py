import csv

import pytest

from fullrank.bench.molecules import (
    Cell,
    Row,
    measure,
    methods,
    read_rows,
    run,
    to_markdown,
    write_cells,
)
from fullrank.errors import ConfigError, DataError, RunError
from train.samples import SMILES


@pytest.fixture
def folder(tmp_path):
    """A table like those of MoleculeNet: the number of atoms, split at random."""
    with (tmp_path / "freesolv.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["smiles", "freesolv", "random", "scaffold"])
        for i, smiles in enumerate(SMILES):
            part = ["train", "train", "train", "valid", "test"][i % 5]
            writer.writerow([smiles, len(smiles) + i / 100, part, "train"])
    return tmp_path


def test_jobs_are_done_once_and_scored_on_the_test_part(folder, tmp_path):
    (cell,) = write_cells(folder, tmp_path / "tables", ["freesolv/random"])
    forest = {"random forest": methods(None)["random forest"]}
    rows, seen = tmp_path / "rows.jsonl", []
    for _ in range(2):  # the second time there is nothing to do
        measure([cell], forest, [0], rows, tmp_path / "job", seen.append)
    assert seen == read_rows(rows)
    (row,) = seen
    truth = [len(s) + i / 100 for i, s in enumerate(SMILES) if i % 5 == 4]
    assert cell.score(truth) == pytest.approx(0, abs=1e-9)
    assert 0 < row.score < cell.score([0] * len(truth))
    assert row.cpu_seconds > 0
    with pytest.raises(RunError, match=str(len(truth))):
        cell.score(truth[1:])


def test_a_missing_table_and_an_unknown_method_are_named(folder, tmp_path):
    with pytest.raises(DataError, match="delaney"):
        write_cells(folder, tmp_path / "tables", ["delaney"])
    with pytest.raises(ConfigError, match="forst"):
        run(folder, None, tmp_path / "out", ["freesolv/random"], ["forst"])


def test_classes_are_scored_by_the_area_under_the_curve(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("smiles,y,split\nC,1,test\nCC,0,test\nCCC,1,test\nCO,0,train\n")
    cell = Cell("t", table, table, "y", "binary")
    assert cell.score([0.9, 0.5, 0.6]) == 0
    assert cell.score([0.9, 0.7, 0.6]) == 0.5


def test_ratios_are_over_complete_cells_only():
    def rows(cell, method, scores):
        return [
            Row(cell, method, seed, "RMSE", score, 10.0 * (len(method) > 8), 1.0, 1.0)
            for seed, score in enumerate(scores)
        ]

    text = to_markdown(
        [
            *rows("a", "fullrank", [1.0, 1.0]),
            *rows("a", "random forest", [2.0, 2.0]),
            *rows("b", "fullrank", [3.0, 3.0]),
            *rows("b", "random forest", [1.5, 1.5]),
            *rows("c", "fullrank", [9.0, 9.0]),
            *rows("c", "random forest", [1.0]),
        ],
        range(2),
    )
    assert "fullrank / random forest: geometric mean 1.000 over 2 of 3 cells" in text
    assert "worst 2.000 (b)" in text
    assert "1.000 (1 of 2 seeds)" in text
    assert "not run" in text
