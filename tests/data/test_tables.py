import csv
import gzip
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from rdkit import Chem

from fullrank.data import DataError
from fullrank.data.tables import (
    delimiter_of,
    is_table,
    number,
    open_table,
    table_text,
)


@pytest.fixture
def table(tmp_path):
    """Writes a table and reads it."""

    def read(content, name="t.csv", column=None):
        file = tmp_path / name
        data = content if isinstance(content, bytes) else content.encode()
        file.write_bytes(data)
        with open_table(file) as opened:
            if column:
                opened.column(column)
            return opened.header, [(row.line, row.cells) for row in opened]

    return read


def test_the_ending_counts_in_any_case():
    names = ["a.csv", "b.CSV", "c.Tsv", "d.doc", "csv"]
    assert [is_table(name) for name in names] == [True, True, True, False, False]
    assert "".join(delimiter_of(Path(name)) for name in names) == ",,\t,,"


def test_rows_have_the_line_they_begin_in(table):
    header, rows = table('\ufeffa, b\r\n1,"x\ny"\n\n"2",""""\r\n')
    assert header == ["a", "b"]
    assert rows == [(2, ["1", "x\ny"]), (4, []), (5, ["2", '"'])]


@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\v", "\f", "\x1c"])
def test_only_line_ends_end_rows(table, sign):
    assert table(f"a,b\n1{sign}2,3\n")[1] == [(2, [f"1{sign}2", "3"])]


def test_long_cells(table):
    text = "C" * 300_000
    assert table(f"a\n{text}\n")[1] == [(2, [text])]


@given(
    rows=st.lists(
        st.lists(
            # `open_table` removes the apostrophe of an escaped formula.
            st.text(st.characters(exclude_characters="\0", codec="utf-8")).filter(
                lambda cell: not cell.startswith("'")
            ),
            min_size=2,
            max_size=2,
        )
    )
)
def test_whatever_is_written_is_read(rows, tmp_path_factory):
    import csv

    file = tmp_path_factory.mktemp("tables") / "t.csv"
    with file.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([["a", "b"], *rows])
    with open_table(file) as opened:
        assert [row.cells for row in opened] == rows


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["is empty"]),
        ("a,b,a\n1,2,3\n", ["2 columns 'a'"]),
        ("a, b,b \n1,2,3\n", ["2 columns 'b'"]),
        ('a,b\n1,"2\n3,4\n', ["line 2"]),
        ('a,b\n1,"x\ny"\n"3,4\n5,6\n', ["line 4"]),
        ('a,b\n1,"2"3\n', ["line 2"]),
        ('a,b\n"x\ny","z\n5,6\n', ["line 3"]),
        ("a,b\n1,2\n3,\0\n", ["line 3", "NUL"]),
        (b"a,b\n\xff,1\n", ["not UTF-8"]),
    ],
)
def test_what_is_no_table_is_refused(table, tmp_path, content, words):
    with pytest.raises(DataError) as error:
        table(content)
    for word in [str(tmp_path / "t.csv"), *words]:
        assert word in str(error.value)


def test_columns_without_a_name_may_be_several(table):
    assert table("a,,\n1,,\n")[1] == [(2, ["1", "", ""])]


def test_a_missing_column_is_named(table):
    with pytest.raises(DataError, match="'smiles'.*'Smiles'"):
        table("Smiles,y\n", column="smiles")


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.txt"])
@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
def test_the_header_tells_what_separates(table, name, sign):
    assert table(f"smiles{sign}y\nC{sign}1\n", name)[1] == [(2, ["C", "1"])]


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("smiles;y, measured;z", 3),  # what there is most of
        ('"a;b;c",smiles', 2),  # not within quotes
        ("smiles", 1),
    ],
)
def test_signs_that_do_not_separate(table, header, columns):
    cells = ["C"] * columns
    sign = ";" if columns == 3 else ","
    assert table(f"{header}\n{sign.join(cells)}\n")[1] == [(2, cells)]


def test_a_name_may_contain_other_signs(table):
    table("a;b,smiles\n", column="smiles")


@pytest.mark.parametrize(
    ("cells", "word"),
    [
        (["C", "1"], None),
        ([], "empty"),
        ([" ", ""], "empty"),
        (["C"], "1 cells instead of 2"),
        (["C;1"], "semicolons"),
        (["C", "3", "14"], "'3,14'"),
        (["C", "x", "y"], "3 cells instead of 2"),
    ],
)
def test_cells_that_do_not_fit(tmp_path, cells, word):
    (tmp_path / "t.csv").write_text("smiles,y\n")
    with open_table(tmp_path / "t.csv") as opened:
        found = opened.misfit(cells)
    assert found is None if word is None else word in found


def test_numbers():
    assert [number(t) for t in ("1", "-2.5e3", "inf")] == [1, -2500, float("inf")]
    for text, word in (("3,14", "3.14"), ("much", "much"), ("1_000", "1_000")):
        with pytest.raises(DataError, match=word):
            number(text)


def test_files_are_named(tmp_path):
    with pytest.raises(DataError, match=r"absent\.csv"), open_table("absent.csv"):
        pass
    with pytest.raises(DataError), open_table(tmp_path):
        pass
    (tmp_path / "t.csv").write_text("a\n")
    with pytest.raises(FileNotFoundError), open_table(tmp_path / "t.csv"):
        (tmp_path / "another").read_text()  # which has nothing to do with the table


CELLS = st.text(alphabet="'=+-@\t\r1.e,;\"\nC ") | st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"])
)


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1))
def test_no_cell_is_a_formula_and_all_are_read_back(tmp_path_factory, rows):
    file = tmp_path_factory.mktemp("t") / "t.csv"
    file.write_bytes(table_text([("a", "b"), *rows]).encode())
    with open_table(file) as table:
        assert [row.cells for row in table] == rows
    with file.open(newline="", encoding="utf-8") as stream:
        for cell in (cell for row in csv.reader(stream) for cell in row):
            if cell[:1] in ("=", "+", "-", "@", "\t", "\r"):
                float(cell)  # a number is what it looks like


def test_numbers_are_left_alone():
    assert table_text([["-1.5", "+2e-3", -0.5, "-x", "=1"]]) == (
        "-1.5,+2e-3,-0.5,'-x,'=1\r\n"
    )


def test_only_the_apostrophes_of_formulas_are_removed(table):
    assert table("a,b,c\n'abc,'=1,''=1\n")[1] == [(2, ["'abc", "=1", "'=1"])]


TRUTH = [("CCO", "-0.77"), ("c1ccccc1", "2.13"), ("CC(=O)O", "")]


def cells_of(file):
    with open_table(file) as opened:
        wanted = [opened.column("smiles"), opened.column("y")]
        return [tuple(row.cells[i] for i in wanted) for row in opened]


def text_file(file):
    file.write_text("smiles,y\n" + "".join(f"{s},{y}\n" for s, y in TRUTH))


def gz_file(file):
    with gzip.open(file, "wt") as stream:
        stream.write("y;smiles\n" + "".join(f"{y};{s}\n" for s, y in TRUTH))


def smi_file(file):
    rows = "".join(f"{s}\t{y or 'nan'}\n" for s, y in TRUTH)
    file.write_text("smiles y\n\n" + rows)


def parquet_file(file):
    smiles, y = zip(*TRUTH, strict=True)
    numbers = [float(text) if text else None for text in y]
    parquet.write_table(pyarrow.table({"y": numbers, "smiles": list(smiles)}), file)


def sdf_file(file):
    with Chem.SDWriter(str(file)) as writer:
        for smiles, y in TRUTH:
            mol = Chem.MolFromSmiles(smiles)
            if y:
                mol.SetProp("y", y)
            writer.write(mol)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("t.csv", text_file),
        ("t.csv.gz", gz_file),
        ("T.TXT.GZ", gz_file),
        ("t.smi", smi_file),
        ("t.parquet", parquet_file),
        ("t.sdf", sdf_file),
    ],
)
def test_every_format_holds_the_same_rows(tmp_path, name, write):
    assert is_table(name)
    write(tmp_path / name)
    found = [(s, y.replace("nan", "")) for s, y in cells_of(tmp_path / name)]
    assert found == TRUTH


def test_smiles_without_a_header_have_names(table):
    header, rows = table("CCO ethanol\nC methane gas\n", "t.smi")
    assert header == ["smiles", "name"]
    assert rows == [(1, ["CCO", "ethanol"]), (2, ["C", "methane", "gas"])]


def test_an_entry_that_rdkit_cannot_read_is_one_row(tmp_path):
    sdf_file(tmp_path / "t.sdf")
    text = (tmp_path / "t.sdf").read_text().replace("V2000", "V9999", 1)
    (tmp_path / "t.sdf").write_text(text)
    with open_table(tmp_path / "t.sdf") as opened:
        rows = list(opened)
    assert [row.problem is None for row in rows] == [False, True, True]
    assert rows[0].cells[2] == "-0.77"


@pytest.mark.parametrize("name", ["t.parquet", "t.csv.gz"])
def test_a_file_of_another_kind_is_refused(tmp_path, name):
    (tmp_path / name).write_text("smiles,y\n")
    with pytest.raises(DataError, match=name), open_table(tmp_path / name):
        pass
