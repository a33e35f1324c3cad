import csv

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from fullrank.data import from_graphs, read_smiles_csv
from fullrank.data.molecule_table import write_molecule_table
from fullrank.errors import DataError


def rows_of(file):
    with file.open(newline="") as stream:
        return list(csv.reader(stream))


def table(tmp_path, text, targets, **options):
    (tmp_path / "in.csv").write_text(text)
    root = tmp_path / "root"
    return read_smiles_csv(tmp_path / "in.csv", targets, root=root, **options)


def test_numbers_are_written_exactly_and_missing_ones_left_empty(tmp_path):
    text = "smiles,a,b\nCCO,0.1,3\nCC,,-411.123456789\n"
    dataset = table(tmp_path, text, ["a", "b"])
    write_molecule_table(dataset, tmp_path / "out.csv")
    assert rows_of(tmp_path / "out.csv") == [
        ["smiles", "a", "b"],
        ["CCO", "0.1", "3.0"],
        ["CC", "", "-411.123456789"],
    ]
    again = read_smiles_csv(
        tmp_path / "out.csv", ["a", "b"], root=tmp_path / "root", progress=False
    )
    np.testing.assert_array_equal(again.labels, dataset.labels)


def test_labels_classes_and_the_split(tmp_path):
    text = "smiles,ring,part\nC1CC1,1,train\nCC,0,valid\nCO,0,test\n"
    dataset = table(tmp_path, text, ["ring"], task="binary", split_column="part")
    write_molecule_table(dataset, tmp_path / "out.tsv", ["is a ring"])
    lines = (tmp_path / "out.tsv").read_text().splitlines()
    assert lines[:2] == ["smiles\tis a ring\tsplit", "C1CC1\t1\ttrain"]
    assert lines[3] == "CO\t0\ttest"
    classes = table(tmp_path, "smiles,k\nC,b\nCC,a\n", ["k"], task="multiclass")
    write_molecule_table(classes, tmp_path / "out.csv")
    assert rows_of(tmp_path / "out.csv")[1:] == [["C", "b"], ["CC", "a"]]


def test_what_is_no_table_of_molecules(tmp_path):
    graph = Data(torch.ones(2, 1), torch.tensor([[0], [1]]), y=torch.tensor([[1.0]]))
    with pytest.raises(DataError):
        write_molecule_table(from_graphs([graph]), tmp_path / "out.csv")
    dataset = table(tmp_path, "smiles,a\nC,1\n", ["a"])
    for name, columns, named in (
        ("in.csv", ["b"], "in.csv"),
        ("out.parquet", None, "out.parquet"),
        ("o.csv", ["smiles"], "smiles"),
    ):
        with pytest.raises(DataError, match=named):
            write_molecule_table(dataset, tmp_path / name, columns)
    assert (tmp_path / "in.csv").read_text() == "smiles,a\nC,1\n"
    with pytest.raises(DataError, match="2 .*x, y.* 1 "):
        write_molecule_table(dataset, tmp_path / "out.csv", ["x", "y"])
