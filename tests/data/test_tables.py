from pathlib import Path

import pytest

from fullrank.data import DataError
from fullrank.data.tables import check_columns, delimiter_of, is_table, reading_table


def test_the_ending_counts_in_any_case():
    names = ["a.csv", "b.CSV", "c.Tsv", "d.txt", "csv"]
    assert [is_table(name) for name in names] == [True, True, True, False, False]
    assert "".join(delimiter_of(Path(name)) for name in names) == ",,\t,,"


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (["Smiles", "y"], "t.csv has no column 'smiles' (did you mean 'Smiles'?); it"),
        (["smiles;y"], "t.csv seems to be separated by ';'"),
        (["smiles\ty"], "t.csv seems to be separated by '\\t'"),
        ([], "t.csv is empty"),
    ],
)
def test_what_is_wrong_with_a_header(header, words):
    with pytest.raises(DataError) as error:
        check_columns(Path("t.csv"), header, ["smiles"])
    assert words in str(error.value)


def test_columns_that_are_there_are_no_error():
    check_columns(Path("t.csv"), ["a;b", "smiles"], ["smiles"])


def test_files_are_named(tmp_path):
    file = tmp_path / "t.csv"
    with pytest.raises(DataError, match=r"no file '.*t\.csv'"), reading_table(file):
        file.read_text()
    file.write_bytes(b"\xe9")
    with pytest.raises(DataError, match=r"t\.csv is not UTF-8"), reading_table(file):
        file.read_text("utf-8")
