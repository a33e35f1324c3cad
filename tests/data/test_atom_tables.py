import csv
import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem, rdBase

from fullrank.data.atom_tables import tables
from fullrank.data.molecules import graph_from_molecule, molecule, reads_binaries
from shared_data import shared_data
from train.samples import SMILES

UNUSUAL = [
    "[13CH4]",
    "[2H]C([2H])Cl",
    "C[C@H](O)/C=C\\C |o1:1|",
    "N->[Pt](<-N)(Cl)Cl",
    "CC=CC |ctu:1|",
    "C[S@](=O)CC",
    "[U+6].[Og]",
    "C1" + "C" * 40 + "1",
    "C12C3C4C1C5C2C3C45",
    "[CH3].[O][O]",
    "F[C@@]12CC[C@](Cl)(CC1)C2",
    "C[N+]#N.[Fe-4](C#N)(C#N)(C#N)(C#N)(C#N)C#N",
    "Cl[Pt@SP1](F)(Br)I",
]
UNREADABLE = ["*C", "[CH3:7]C", "C" * 300]


def assert_as_ogb(mols):
    found = tables(mols)
    assert len(found) == len(mols)
    for mol, table in zip(mols, found, strict=True):
        truth = graph_from_molecule(mol)
        assert np.array_equal(table.atoms, truth.arrays["node.x"])
        assert np.array_equal(table.ends, truth.edge_index.T[::2])
        assert np.array_equal(table.bonds, truth.arrays["edge.attr"][::2])


def test_this_version_of_rdkit_is_read():
    assert reads_binaries()


def test_tables_hold_what_ogb_says():
    assert_as_ogb([molecule(smiles) for smiles in SMILES + UNUSUAL])
    assert tables([]) == []


def test_what_cannot_be_read_has_no_table_and_spoils_nothing():
    good = [molecule(smiles) for smiles in SMILES]
    bad = [molecule(smiles) for smiles in UNREADABLE]
    assert tables(bad) == [None] * len(bad)
    mixed = [mol for pair in zip(good, bad * 30, strict=False) for mol in pair]
    found = tables(mixed)
    assert found[1::2] == [None] * len(good)
    for table, truth in zip(found[::2], tables(good), strict=True):
        assert all(np.array_equal(*pair) for pair in zip(table, truth, strict=True))


@settings(max_examples=60)
@given(st.lists(st.text(alphabet="CNOPSF()=#12[]+-@/\\.cnH", max_size=14), max_size=6))
def test_any_molecules_agree_with_ogb(texts):
    with rdBase.BlockLogs():
        mols = [Chem.MolFromSmiles(text) for text in texts]
    assert_as_ogb([mol for mol in mols if mol is not None and mol.GetNumAtoms()])


@pytest.mark.slow
def test_drugs_agree_with_ogb():
    """Of 41,120 molecules that RDKit reads, all but a few large ones have a table."""
    file = shared_data() / "ogb" / "ogbg_molhiv" / "mapping" / "mol.csv.gz"
    with gzip.open(file, "rt") as stream, rdBase.BlockLogs():
        smiles = [row["smiles"] for row in csv.DictReader(stream)]
        mols = [mol for text in smiles if (mol := Chem.MolFromSmiles(text))]
    known = [mol for mol, table in zip(mols, tables(mols), strict=True) if table]
    assert len(known) > 0.999 * len(mols)
    for start in range(0, len(known), 1000):
        assert_as_ogb(known[start : start + 1000])
