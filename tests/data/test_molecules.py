import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ogb.utils import smiles2graph
from rdkit import Chem

from fullrank.data import DataError, PackedGraphs
from fullrank.data.molecules import (
    MOLECULE_FIELDS,
    graph_from_molecule,
    largest_fragment,
    molecule,
    molecule_features,
    scaffold,
)

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
    graph, truth = graph_from_molecule(molecule(smiles)), smiles2graph(smiles)
    assert graph.arrays["node.x"].tolist() == truth["node_feat"].tolist()
    assert graph.edge_index.tolist() == truth["edge_index"].tolist()
    assert graph.arrays["edge.attr"].tolist() == truth["edge_feat"].tolist()


def test_columns_are_ogbs():
    atoms, bonds = molecule_features()
    assert atoms.cardinalities == (119, 5, 12, 12, 10, 6, 6, 2, 2)
    assert bonds.cardinalities == (5, 6, 2)


def test_stereo_stays_in_the_features():
    def features(smiles):
        graph = graph_from_molecule(molecule(smiles))
        packed = PackedGraphs.from_graphs([graph], fields=MOLECULE_FIELDS)
        return packed[0].x, packed[0].edge_attr

    left, right = features("C[C@H](N)O")[0], features("C[C@@H](N)O")[0]
    assert not torch.equal(left, right)
    cis, trans = features("C/C=C\\C")[1], features("C/C=C/C")[1]
    assert not torch.equal(cis, trans)


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("", ""),
        (" ", ""),
        ("C1CC", "'C1CC'"),
        ("hello", "'hello'"),
        ("C(C)(C)(C)(C)C", "valence"),  # RDKit's own words
        ("[#200]", "'[#200]'"),
        ("C\ud800", "RDKit"),
        ("C(" * 1000, "(2,000 characters)"),
    ],
)
def test_reasons(smiles, reason):
    with pytest.raises(DataError) as error:
        molecule(smiles)
    assert reason in str(error.value)


def test_a_smiles_without_end_is_refused_before_rdkit_sees_it():
    with pytest.raises(DataError, match="1,000,000"):
        molecule("C" * 10**6)


def test_fragments():
    salt = molecule("CC(=O)[O-].[Na+]")
    assert (salt.GetNumAtoms(), largest_fragment(salt).GetNumAtoms()) == (5, 4)


def test_scaffold():
    assert scaffold("Cc1ccccc1CCN") == "c1ccccc1"
    assert scaffold("CCO") == ""


@settings(max_examples=60)
@given(st.text(alphabet="CNO()=#123[]+-@/\\.cnH", max_size=12))
def test_any_text_gives_a_molecule_or_a_reason(text):
    truth = Chem.MolFromSmiles(text)
    if truth is None or truth.GetNumAtoms() == 0:
        with pytest.raises(DataError):
            molecule(text)
    else:
        assert molecule(text).GetNumAtoms() == truth.GetNumAtoms()
