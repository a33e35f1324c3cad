import csv

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ogb.utils import smiles2graph
from rdkit import Chem

from fullrank.data import DataError, PackedGraphs, graph_from_smiles, read_smiles_csv
from fullrank.data.sources.csv import MOLECULE_FIELDS, scaffold

SMILES = [
    "CCO",
    "c1ccccc1O",
    "C/C=C/C",
    "C[C@H](N)C(=O)O",
    "[Na+].[Cl-]",
    "[Cu]",
    "C#N",
]


@pytest.mark.parametrize("smiles", SMILES)
def test_features_are_ogbs(smiles):
    graph, truth = graph_from_smiles(smiles), smiles2graph(smiles)
    assert graph.arrays["node.x"].tolist() == truth["node_feat"].tolist()
    assert graph.edge_index.tolist() == truth["edge_index"].tolist()
    assert graph.arrays["edge.attr"].tolist() == truth["edge_feat"].tolist()


def test_stereo_stays_in_the_features():
    def features(smiles):
        packed = PackedGraphs.from_graphs(
            [graph_from_smiles(smiles)], fields=MOLECULE_FIELDS
        )
        return packed[0].x, packed[0].edge_attr

    left, right = features("C[C@H](N)O")[0], features("C[C@@H](N)O")[0]
    assert not torch.equal(left, right)
    cis, trans = features("C/C=C\\C")[1], features("C/C=C/C")[1]
    assert not torch.equal(cis, trans)


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("", "the SMILES is empty"),
        ("C1CC", "'C1CC' cannot be parsed"),
        ("hello", "'hello' cannot be parsed"),
        ("C(C)(C)(C)(C)C", "valence"),
    ],
)
def test_reasons(smiles, reason):
    with pytest.raises(DataError, match=reason):
        graph_from_smiles(smiles)


def test_fragments():
    salt = "CC(=O)[O-].[Na+]"
    assert graph_from_smiles(salt).num_nodes == 5
    assert graph_from_smiles(salt, fragments="largest").num_nodes == 4
    with pytest.raises(DataError, match="'keep' or 'largest', got 'strip'"):
        graph_from_smiles(salt, fragments="strip")


def test_scaffold():
    assert scaffold("Cc1ccccc1CCN") == "c1ccccc1"
    assert scaffold("CCO") == ""


def table(folder, text: str):
    file = folder / "molecules.csv"
    file.write_text(text)
    return file


def test_regression_with_missing_targets(tmp_path):
    file = table(tmp_path, "id,smiles,a,b\n1,CCO,0.5,\n2,CC,nan,2e3\n3,C,,NA\n")
    dataset = read_smiles_csv(file, ["a", "b"], root=tmp_path)
    assert np.array_equal(
        dataset.labels,
        [[0.5, np.nan], [np.nan, 2000], [np.nan, np.nan]],
        equal_nan=True,
    )
    assert dataset.graphs.batch([0]).y.dtype == torch.float32
    assert [target.name for target in dataset.targets] == ["a", "b"]
    assert list(dataset.texts("smiles")) == ["CCO", "CC", "C"]
    assert dataset.notes["rejected"] == []
    assert not list(tmp_path.glob("*rejected.csv"))


def test_bad_rows_are_reported_and_do_not_stop_the_rest(tmp_path, caplog):
    text = (
        "smiles,y\n"  # 1
        "CCO,1.0\n"
        "C1CC,2.0\n"  # 3: unclosed ring
        "CC,much\n"  # 4: no number
        ",3.0\n"  # 5: no SMILES
        "\n"  # 6: empty
        "CCC,1,2\n"  # 7: too many cells
        "CCCC,inf\n"  # 8
        '"CN",4.0\n'
    )
    dataset = read_smiles_csv(table(tmp_path, text), ["y"], root=tmp_path / "root")
    assert dataset.labels[:, 0].tolist() == [1, 4]
    with open(tmp_path / "rejected.csv") as file:
        rejected = list(csv.DictReader(file))
    assert [int(row["row"]) for row in rejected] == [3, 4, 5, 6, 7, 8]
    reasons = [row["reason"] for row in rejected]
    for reason, expected in zip(
        reasons,
        ["cannot be parsed", "'y' is 'much'", "empty", "empty", "3 cells", "finite"],
        strict=True,
    ):
        assert expected in reason
    assert rejected[0]["smiles"] == "C1CC"
    assert "6 rows" in caplog.text


def test_bad_rows_are_written_only_when_the_set_is_prepared(tmp_path, caplog):
    file = table(tmp_path, "smiles,y\nCCO,1\nC1CC,2\nCC,much\n")
    beside = tmp_path / "rejected.csv"
    beside.write_text("mine")
    read_smiles_csv(file, ["y"], root=tmp_path / "root")
    ours = tmp_path / "molecules.rejected.csv"
    assert len(ours.read_text().splitlines()) == 3
    ours.unlink()
    caplog.clear()
    for targets in (["y"], None):  # from the cache; to look at the molecules alone
        read_smiles_csv(file, targets, root=tmp_path / "root")
    assert (beside.read_text(), ours.exists(), caplog.text) == ("mine", False, "")
    asked = tmp_path / "asked.csv"
    read_smiles_csv(file, ["y"], root=tmp_path / "root", rejected=asked)
    assert len(asked.read_text().splitlines()) == 3


def test_molecules_alone(tmp_path):
    file = table(tmp_path, "smiles,y\nCCO,\nCC,much\n")
    dataset = read_smiles_csv(file, None, root=tmp_path)
    assert (len(dataset), dataset.targets) == (2, ())
    with pytest.raises(DataError, match="multiclass needs one target, got 0"):
        read_smiles_csv(file, None, task="multiclass", root=tmp_path)


def test_a_file_without_a_usable_row_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"has no usable row: .*'C1' cannot be parsed"):
        read_smiles_csv(table(tmp_path, "smiles,y\nC1,1\n"), ["y"], root=tmp_path)
    with pytest.raises(DataError, match="has no usable row: it has no rows"):
        read_smiles_csv(table(tmp_path, "smiles,y\n"), ["y"], root=tmp_path)


def test_binary_and_multiclass(tmp_path):
    file = table(tmp_path, "smiles,a,kind\nC,0,acid\nCC,1,base\nCCC,2,acid\nCCCC,,\n")
    binary = read_smiles_csv(file, ["a"], task="binary", root=tmp_path)
    assert binary.labels[:2, 0].tolist() == [0, 1]
    assert [row["row"] for row in binary.notes["rejected"]] == [4]
    kinds = read_smiles_csv(file, ["kind"], task="multiclass", root=tmp_path)
    assert kinds.labels.tolist() == [0, 1, 0]
    assert kinds.num_classes == 2
    assert kinds.notes["classes"] == ["acid", "base"]
    assert "names no class" in kinds.notes["rejected"][0]["reason"]


def test_column_given_split_and_leakage(tmp_path, caplog):
    text = "smiles,y,set\nCCO,1,train\nOCC,2,test\nCC,3,valid\nC,4,Train\nN,5,other\n"
    file = table(tmp_path, text)
    dataset = read_smiles_csv(file, ["y"], split_column="set", root=tmp_path)
    split = dataset.split()
    assert [split.train.tolist(), split.valid.tolist(), split.test.tolist()] == [
        [0, 3],
        [2],
        [1],
    ]
    assert "'other' is not train" in dataset.notes["rejected"][0]["reason"]
    # OCC is CCO in another spelling.
    assert split.how["in train and test"] == ["CCO"]
    assert "1 molecules of molecules are in training and in testing" in caplog.text


def test_random_and_scaffold_splits(tmp_path):
    rows = [f"{'C' * n}c1ccccc1,{n}" for n in range(1, 9)]
    rows += [f"{'C' * n}C1CCCCC1,{n}" for n in range(1, 3)]
    text = "\n".join(["smiles,y", *rows])
    dataset = read_smiles_csv(table(tmp_path, text), ["y"], root=tmp_path)
    assert len(dataset.split("random", seed=1).train) == 8
    split = dataset.split("scaffold")
    assert split.train.tolist() == list(range(8))
    assert dataset.leaks(split) == []


def test_another_file_under_the_same_name_is_read_again(tmp_path):
    first = read_smiles_csv(table(tmp_path, "smiles,y\nC,1\n"), ["y"], root=tmp_path)
    again = read_smiles_csv(table(tmp_path, "smiles,y\nC,2\n"), ["y"], root=tmp_path)
    assert [first.labels.item(), again.labels.item()] == [1, 2]


def test_wrong_arguments(tmp_path):
    file = table(tmp_path, "SMILES,logP\nC,1\n")
    with pytest.raises(DataError, match=r"no column 'smiles' \(did you mean 'SMILES'"):
        read_smiles_csv(file, ["logP"], root=tmp_path)
    with pytest.raises(DataError, match=r"no column 'logS' \(did you mean 'logP'"):
        read_smiles_csv(file, ["logS"], smiles="SMILES", root=tmp_path)
    with pytest.raises(
        DataError, match="a target, got 0: choose from the columns SMILES, logP with"
    ):
        read_smiles_csv(file, [], smiles="SMILES", root=tmp_path)
    with pytest.raises(DataError, match=r"no file '.*absent\.csv'"):
        read_smiles_csv(tmp_path / "absent.csv", ["y"])


@settings(max_examples=60)
@given(st.text(alphabet="CNO()=#123[]+-@/\\.cnH", max_size=12))
def test_any_text_gives_a_graph_or_a_reason(text):
    truth = Chem.MolFromSmiles(text)
    if truth is None or truth.GetNumAtoms() == 0:
        with pytest.raises(DataError, match=r"\S"):
            graph_from_smiles(text)
    else:
        assert graph_from_smiles(text).num_nodes == truth.GetNumAtoms()


def test_a_table_that_is_none_is_an_error_with_a_line(tmp_path):
    file = table(tmp_path, 'smiles,y\nC,1\n"' + "C" * 200_000)
    with pytest.raises(DataError, match=r"molecules\.csv, line 3: field larger than"):
        read_smiles_csv(file, ["y"], root=tmp_path)
    file.write_bytes(b"smiles,y\nC,\xff\xfe\n")
    with pytest.raises(DataError, match="not UTF-8"):
        read_smiles_csv(file, ["y"], root=tmp_path)
