import sys

import pytest
from rdkit import Chem

from fullrank.data.sdf import sdf_columns, sdf_entries, sdf_texts
from fullrank.data.tables import open_table
from fullrank.errors import MissingPackage
from fullrank.extras import need

MOLECULES = {"ethanol": "CCO", "benzene": "c1ccccc1", "chiral": "C[C@H](N)C(=O)O"}


@pytest.fixture
def file(tmp_path):
    """Three molecules, written by RDKit; each has a property that the others lack."""
    path = tmp_path / "molecules.sdf"
    with Chem.SDWriter(str(path)) as writer:
        for number, (name, smiles) in enumerate(MOLECULES.items()):
            mol = Chem.MolFromSmiles(smiles)
            mol.SetProp("_Name", name)
            mol.SetProp("logS", str(-number))
            mol.SetProp(f"only {name}", "two\nlines")
            writer.write(mol)
    return path


def test_entries_are_those_that_rdkit_reads(file):
    entries = list(sdf_entries(file))
    supplier = Chem.SDMolSupplier(str(file))
    for entry, mol in zip(entries, supplier, strict=True):
        assert entry.name == mol.GetProp("_Name")
        assert entry.smiles == Chem.MolToSmiles(mol)
        assert entry.properties == mol.GetPropsAsDict() | {"logS": mol.GetProp("logS")}
        assert entry.problem is None
    smiles = [Chem.CanonSmiles(text) for text in MOLECULES.values()]
    assert [entry.smiles for entry in entries] == smiles


def test_columns_are_in_the_order_of_their_first_appearance(file):
    first, *others = (f"only {name}" for name in MOLECULES)
    assert sdf_columns(file) == ["logS", first, *others]


def test_an_entry_that_cannot_be_read_does_not_stop_the_others(file):
    first, _, third = sdf_texts(file)
    broken = "broken\n\n\nnot a molecule\n>  <logS>  (2) \n7\n\n"
    file.write_text(f"{first}$$$$\n{broken}$$$$\n{third}$$$$\n")
    ethanol, bad, chiral = sdf_entries(file)
    assert (ethanol.name, bad.name, chiral.name) == ("ethanol", "broken", "chiral")
    assert bad.smiles == ""
    assert bad.problem
    assert bad.properties == {"logS": "7"}
    assert ethanol.problem is None
    assert chiral.problem is None


@pytest.mark.parametrize("change", ["no end", "CRLF", "not UTF-8"])
def test_variants_of_the_format(file, change):
    content = file.read_bytes()
    if change == "no end":
        content = content.removesuffix(b"$$$$\n")
    elif change == "CRLF":
        content = content.replace(b"\n", b"\r\n")
    else:
        content = content.replace(b"benzene", b"benz\xe8ne")
    file.write_bytes(content)
    entries = list(sdf_entries(file))
    assert [entry.properties["logS"] for entry in entries] == ["0", "-1", "-2"]
    assert all(entry.smiles for entry in entries)


def test_a_table_has_a_row_for_each_entry(file):
    with open_table(file) as table:
        rows = list(table)
    assert table.header[:3] == ["smiles", "name", "logS"]
    assert [row.cells[1:3] for row in rows] == [
        ["ethanol", "0"],
        ["benzene", "-1"],
        ["chiral", "-2"],
    ]
    assert rows[0].cells[3:] == ["two\nlines", "", ""]


def test_an_empty_file_has_no_entries(tmp_path):
    (tmp_path / "empty.sdf").write_text("\n\n")
    assert list(sdf_entries(tmp_path / "empty.sdf")) == []
    assert sdf_columns(tmp_path / "empty.sdf") == []


def test_rdkit_is_needed(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    need.cache_clear()
    with pytest.raises(MissingPackage, match="rdkit"):
        next(sdf_entries(file))
    need.cache_clear()
