import csv
import math
from functools import partial

import numpy as np
import pytest
import torch

from fullrank.data import (
    DataError,
    MoleculeFeaturizer,
    load_dataset,
    read_smiles_csv,
    source,
)


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
        "CCCC,1e300\n"  # 9: not in single precision
        'CCCC,"3,14"\n'  # 10: decimal comma
        "CCCC,3,14\n"  # 11
        "CCCC;3\n"  # 12
        "CCCC,1_000\n"  # 13: a number in Python only
        '"CN",4.0\n'
    )
    file = table(tmp_path, text)
    dataset = read_smiles_csv(file, ["y"], root=tmp_path / "root", allow_rejected=True)
    assert dataset.labels[:, 0].tolist() == [1, 4]
    with open(tmp_path / "molecules.rejected.csv", newline="") as stream:
        rejected = list(csv.DictReader(stream))
    assert [int(row["row"]) for row in rejected] == list(range(3, 14))
    words = ["C1CC", "'much'", "empty", "empty", "3 cells", "'inf'", "'1e300'"]
    words += ["3.14", "'3,14'", "semicolons", "'1_000'"]
    for row, word in zip(rejected, words, strict=True):
        assert word in row["reason"]
    assert rejected[0]["smiles"] == "C1CC"
    assert "11 of 13 rows (85%)" in caplog.text


def test_rejected_rows_are_reported_every_time(tmp_path, caplog):
    file = table(tmp_path, "smiles,y\nCCO,1\nC1CC,2\nCC,3\n")
    listed = tmp_path / "molecules.rejected.csv"
    for _ in range(2):
        caplog.clear()
        read_smiles_csv(file, ["y"], root=tmp_path / "root")
        assert "1 of 3 rows (33%)" in caplog.text
        assert str(listed) in caplog.text
        assert len(listed.read_text().splitlines()) == 2
        listed.unlink()
    asked = tmp_path / "asked.csv"
    read_smiles_csv(file, ["y"], root=tmp_path / "root", rejected=asked)
    assert len(asked.read_text().splitlines()) == 2
    assert not listed.exists()


def test_a_table_that_is_mostly_rejected_must_be_allowed(tmp_path):
    text = "smiles,y\nCCO,1\n" + 'CC,"2,5"\n' * 2 + "CC,x\n"
    file = table(tmp_path, text)
    for _ in range(2):  # also when it was prepared before
        with pytest.raises(DataError) as error:
            read_smiles_csv(file, ["y"], root=tmp_path)
        for word in ("3 of 4 rows (75%)", "2.5", "allow_rejected", "rejected.csv"):
            assert word in str(error.value)
    assert (
        len(load_dataset(file, targets=["y"], root=tmp_path, allow_rejected=True)) == 1
    )
    half = table(tmp_path, "smiles,y\nCCO,1\nCC,x\n")
    assert len(load_dataset(half, targets=["y"], root=tmp_path)) == 1


def test_a_molecule_that_rdkit_cannot_take_is_one_rejected_row(tmp_path):
    """The chain would overflow its stack, the element has no symbol."""
    rows = ["CCO,1", f"{'C' * 20_000},2", "[#200],3", "CC,4", "CCC,5"]
    file = table(tmp_path, "\n".join(["smiles,y", *rows]))
    dataset = read_smiles_csv(file, ["y"], root=tmp_path)
    assert dataset.labels[:, 0].tolist() == [1, 4, 5]
    assert [row["row"] for row in dataset.notes["rejected"]] == [3, 4]
    assert "10,000" in dataset.notes["rejected"][0]["reason"]
    assert "[#200]" in dataset.notes["rejected"][1]["reason"]


@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\v", "\f"])
def test_only_line_ends_end_rows(tmp_path, sign):
    """Such signs in a cell made two rows of one, with a target that was none."""
    text = f"note,smiles,y\na{sign}CC,CCO,1\nb,CC,2\n"
    dataset = read_smiles_csv(table(tmp_path, text), ["y"], root=tmp_path)
    assert dataset.labels[:, 0].tolist() == [1, 2]
    assert dataset.notes["rejected"] == []


def test_molecules_alone(tmp_path):
    file = table(tmp_path, "smiles,y\nCCO,\nCC,much\n")
    dataset = read_smiles_csv(file, None, root=tmp_path)
    assert (len(dataset), dataset.targets) == (2, ())
    assert load_dataset(file, labelled=False, root=tmp_path).targets == ()
    with pytest.raises(DataError, match="multiclass.*0"):
        read_smiles_csv(file, None, task="multiclass", root=tmp_path)


def test_a_file_without_a_usable_row_is_an_error(tmp_path):
    with pytest.raises(DataError, match="'C1'"):
        read_smiles_csv(table(tmp_path, "smiles,y\nC1,1\n"), ["y"], root=tmp_path)
    with pytest.raises(DataError):
        read_smiles_csv(table(tmp_path, "smiles,y\n"), ["y"], root=tmp_path)
    with pytest.raises(DataError):
        read_smiles_csv(table(tmp_path, ""), ["y"], root=tmp_path)


def test_binary_and_multiclass(tmp_path):
    file = table(tmp_path, "smiles,a,kind\nC,0,acid\nCC,1,base\nCCC,2,acid\nCCCC,,\n")
    binary = read_smiles_csv(file, ["a"], task="binary", root=tmp_path)
    assert binary.labels[:2, 0].tolist() == [0, 1]
    assert [row["row"] for row in binary.notes["rejected"]] == [4]
    kinds = read_smiles_csv(file, ["kind"], task="multiclass", root=tmp_path)
    assert kinds.labels.tolist() == [0, 1, 0]
    assert kinds.num_classes == 2
    assert kinds.classes == ("acid", "base")
    assert "'kind'" in kinds.notes["rejected"][0]["reason"]


def test_classes_are_those_of_usable_rows_in_alphabetical_order(tmp_path):
    """Also if they are met in another order, in another block."""
    names = [f"class {(7 * i) % 10}" for i in range(1500)]
    rows = [f"{'C' * (1 + i % 5)},{name}" for i, name in enumerate(names)]
    file = table(tmp_path, "\n".join(["smiles,kind", "C1CC,a", *rows]))
    dataset = read_smiles_csv(file, ["kind"], task="multiclass", root=tmp_path)
    assert dataset.classes == tuple(sorted(set(names)))
    assert [dataset.classes[label] for label in dataset.labels] == names
    assert dataset.graphs.batch([0]).y.dtype == torch.int64


def test_long_tables_are_read_in_order(tmp_path):
    smiles = ["C" * (1 + i % 7) for i in range(2500)]
    rows = [f"{text},{i}" for i, text in enumerate(smiles)]
    file = table(tmp_path, "\n".join(["smiles,y", *rows]))
    dataset = read_smiles_csv(file, ["y"], root=tmp_path)
    assert dataset.labels[:, 0].tolist() == list(range(2500))
    assert list(dataset.texts("smiles")) == smiles
    assert dataset.graphs.num_nodes.tolist() == [len(text) for text in smiles]


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
    assert "'other'" in dataset.notes["rejected"][0]["reason"]
    # OCC is CCO in another spelling.
    assert split.how["in train and test"] == ["CCO"]
    assert "1 molecules" in caplog.text


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
    assert first.fingerprint != again.fingerprint


def test_the_fingerprint_is_that_of_what_is_read(tmp_path):
    text = "smiles,a,b\nC,1,2\nCC,3,4\n"
    file, other = table(tmp_path, text), tmp_path / "copy.csv"
    other.write_text(text.replace("smiles", "mol") + "\n")
    both, swapped, copied = (
        load_dataset(f, targets=t, root=tmp_path, **more)
        for f, t, more in (
            (file, ["a", "b"], {}),
            (file, ["b", "a"], {}),
            (other, ["a", "b"], {"smiles": "mol"}),
        )
    )
    assert both.fingerprint == copied.fingerprint != swapped.fingerprint
    single = both.select_targets(["a"])
    assert single.fingerprint != both.fingerprint


def test_options_survive_the_file_being_moved(tmp_path, monkeypatch):
    file = table(tmp_path, "smiles,y\nC,1\n")
    monkeypatch.chdir(tmp_path)
    given = source(
        "molecules.csv", targets=["y"], rejected="r.csv", allow_rejected=True
    )
    assert given.name == str(file)
    assert given.rejected == tmp_path / "r.csv"
    assert given.label == "molecules"
    moved = source(tmp_path / "elsewhere" / "m.csv", targets=["y"])
    assert given.determining() == moved.determining()
    assert "name" not in given.determining()


def test_the_featurizer_is_that_of_the_options(tmp_path):
    file = table(tmp_path, "smiles,y\nCC.O,1\n")
    dataset = load_dataset(file, targets=["y"], fragments="largest", root=tmp_path)
    assert dataset.featurizer == MoleculeFeaturizer(fragments="largest")
    assert dataset.graphs.num_nodes.tolist() == [2]


def test_wrong_arguments(tmp_path):
    file = table(tmp_path, "SMILES,logP\nC,1\n")
    with pytest.raises(DataError, match="'smiles'.*'SMILES'"):
        read_smiles_csv(file, ["logP"], root=tmp_path)
    with pytest.raises(DataError, match="'logS'.*'logP'"):
        read_smiles_csv(file, ["logS"], smiles="SMILES", root=tmp_path)
    with pytest.raises(DataError, match="SMILES, logP"):
        read_smiles_csv(file, [], smiles="SMILES", root=tmp_path)
    with pytest.raises(DataError, match=r"absent\.csv"):
        read_smiles_csv(tmp_path / "absent.csv", ["y"])
    with pytest.raises(DataError, match="task.*'tokens'"):
        load_dataset(file, task="tokens")


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b'smiles,y\nC,1\n"CC,2\n', "line 3"),
        (b"smiles,y\nC,\xff\xfe\n", "molecules.csv"),
        (b"smiles,y,y\nC,1,2\n", "2 .*'y'"),
        (b"smiles;y\nC;1,5\n", "1.5"),
        (b"smiles,y\nC,1\nC\0C,2\n", "line 3"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, content, word):
    file = tmp_path / "molecules.csv"
    file.write_bytes(content)
    with pytest.raises(DataError, match=word):
        read_smiles_csv(file, ["y"], root=tmp_path)


def test_long_cells(tmp_path):
    note = "x" * 300_000
    file = table(tmp_path, f"smiles,y,note\nC,1,{note}\n")
    assert len(read_smiles_csv(file, ["y"], root=tmp_path)) == 1


def test_missing_is_not_zero(tmp_path):
    file = table(tmp_path, "smiles,y\nC,None\nCC,null\nCCC,0\n")
    labels = read_smiles_csv(file, ["y"], root=tmp_path).labels[:, 0]
    assert [math.isnan(value) for value in labels] == [True, True, False]


def test_the_table_is_not_overwritten_by_its_rejected_rows(tmp_path):
    file = table(tmp_path, "smiles,y\nC,1\nCC,x\n")
    with pytest.raises(DataError, match=r"rejected.*molecules\.csv"):
        read_smiles_csv(file, ["y"], root=tmp_path, rejected=file)
    assert file.read_text() == "smiles,y\nC,1\nCC,x\n"


def test_rejected_rows_that_cannot_be_listed_are_still_reported(tmp_path, caplog):
    file = table(tmp_path, "smiles,y\nC,1\nCC,x\n")
    read_smiles_csv(file, ["y"], root=tmp_path / "root", rejected=tmp_path)
    assert "row 3" in caplog.text
    assert f"see {tmp_path}" not in caplog.text


def test_units_belong_to_targets(tmp_path):
    (tmp_path / "t.csv").write_text("smiles,a,b\nC,1,2\n")
    read = partial(read_smiles_csv, tmp_path / "t.csv", ["a", "b"], root=tmp_path)
    dataset = read(units={"b": "eV"})
    assert [target.unit for target in dataset.targets] == ["", "eV"]
    assert dataset.fingerprint == read().fingerprint
    with pytest.raises(DataError, match="'c'"):
        read(units={"c": "eV"})
