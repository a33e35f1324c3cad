import pytest

from fullrank.data.recognize import Columns, recognize
from fullrank.errors import DataError


@pytest.fixture
def look(tmp_path):
    """Writes a table of one target and looks at it."""

    def recognized(values, header="smiles,y", target="y", **known):
        file = tmp_path / "t.csv"
        rows = [f"{'C' * (i + 1)},{value}" for i, value in enumerate(values)]
        file.write_text("\n".join([header, *rows]) + "\n")
        return recognize(file, [target], **known)

    return recognized


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1.5", "-2", "3e4"], Columns("smiles", "regression")),
        (["0", "1", "", "1.0"], Columns("smiles", "binary")),
        (["inactive", "active"], Columns("smiles", "binary", ("inactive", "active"))),
        (["active", "inactive"], Columns("smiles", "binary", ("inactive", "active"))),
        (["no", "Yes"], Columns("smiles", "binary", ("no", "Yes"))),
        (["2", "1"], Columns("smiles", "binary", ("1.0", "2.0"))),
        (["a", "b", "c", "NA"], Columns("smiles", "multiclass", classes=3)),
        (["1.5", "many", "2", "3"], Columns("smiles", "regression")),
    ],
)
def test_tasks(look, values, expected):
    assert look(values) == expected


def test_what_is_told_is_not_guessed(look):
    assert look(["0", "1", "2"], task="multiclass").task == "multiclass"
    assert look(["0", "1"], task="regression").task == "regression"


@pytest.mark.parametrize(
    ("header", "smiles"),
    [
        ("SMILES,y", "SMILES"),
        ("mol_smiles,y", "mol_smiles"),
        ("structure,y", "structure"),  # by its content
    ],
)
def test_the_column_of_smiles(look, header, smiles):
    assert look(["1", "2", "3"], header).smiles == smiles


@pytest.mark.parametrize(
    ("values", "known", "word"),
    [
        (["7", "7.0"], {}, "'7'"),
        (["active", "active"], {}, "'active'"),
        (['"1,5"', '"2,25"', '"3,5"', "4"], {}, "'1,5'"),
        (['"0,5"', '"1,5"'], {}, "'0,5'"),
        (["", "NA"], {}, "'y'"),
        (["a", "b", "c"], {"task": "binary"}, "'a'"),
        ([f"name {i}" for i in range(99)], {}, "'name 0'"),
        (["1", "2"], {"smiles": "structure"}, "'structure'"),
        (["1", "2"], {"target": "z"}, "'z'"),
    ],
)
def test_what_cannot_be_learned_is_named(look, values, known, word):
    with pytest.raises(DataError, match=word):
        look(values, **known)


def test_a_table_without_smiles(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("compound,y\nhello,1\nworld,2\nthere,3\n")
    with pytest.raises(DataError, match="compound"):
        recognize(file, ["y"])


def test_targets_of_different_kinds(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("smiles,a,b\nC,0,1.5\nCC,1,2.5\nCCC,1,3.5\n")
    with pytest.raises(DataError, match="'a'.*binary.*'b'.*regression"):
        recognize(file, ["a", "b"])
