import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import AllChem, Crippen, Descriptors

from fullrank.data.descriptors import (
    MORGAN_COLUMNS,
    descriptor_arrays,
    descriptor_fields,
    descriptor_names,
)
from fullrank.data.featurizers import MoleculeFeaturizer
from fullrank.data.packed.graphs import PackedGraphs

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"


def described(smiles, kind):
    return descriptor_arrays(Chem.MolFromSmiles(smiles), [kind])[f"graph.{kind}"]


@pytest.mark.parametrize("smiles", ["C", ASPIRIN, "[Na+].[Cl-]", "C[Pt](C)(C)C"])
def test_rdkit_columns_are_what_their_names_say(smiles):
    mol = Chem.MolFromSmiles(smiles)
    values = dict(
        zip(descriptor_names(["rdkit"]), described(smiles, "rdkit"), strict=True)
    )
    expected = {
        "amw": Descriptors.MolWt(mol),
        "tpsa": Descriptors.TPSA(mol),
        "CrippenClogP": Crippen.MolLogP(mol),
        "NumRotatableBonds": Descriptors.NumRotatableBonds(mol),
        "MQN12": mol.GetNumHeavyAtoms(),
        "SlogP_VSA5": Descriptors.SlogP_VSA5(mol),
        "SMR_VSA7": Descriptors.SMR_VSA7(mol),
    }
    for name, value in expected.items():
        assert values[name] == pytest.approx(value, rel=1e-5), name
    assert np.isfinite(list(values.values())).all()


def test_morgan_columns_count_the_neighbourhoods():
    counts = described(ASPIRIN, "morgan")
    mol = Chem.MolFromSmiles(ASPIRIN)
    # Every kind of neighbourhood falls into the column of its hash.
    sparse = AllChem.GetMorganFingerprint(mol, 2).GetNonzeroElements()
    expected = np.zeros(MORGAN_COLUMNS)
    for identifier, count in sparse.items():
        expected[identifier % MORGAN_COLUMNS] += count
    assert counts.sum() == sum(sparse.values())
    assert (counts == expected).all()


def test_a_count_too_large_for_a_byte_is_the_largest_byte():
    assert described("C" * 600, "morgan").max() == 255


def test_a_batch_carries_the_descriptors_of_each_molecule_side_by_side():
    kinds = ("morgan", "rdkit")
    featurizer = MoleculeFeaturizer(descriptors=kinds)
    graphs = [featurizer.from_smiles(smiles) for smiles in ("CCO", ASPIRIN)]
    packed = PackedGraphs.from_graphs(graphs, fields=featurizer.fields)
    batch = packed.batch([1, 0])
    assert batch.descriptors.shape == (2, len(descriptor_names(kinds)))
    expected = [described(ASPIRIN, kind) for kind in kinds]
    assert (batch.descriptors[0].numpy() == np.concatenate(expected)).all()


def test_descriptors_are_of_the_chosen_fragments():
    largest = MoleculeFeaturizer(fragments="largest", descriptors=("rdkit",))
    of_salt = largest.from_smiles(f"{ASPIRIN}.[Na+]").arrays["graph.rdkit"]
    assert (of_salt == described(ASPIRIN, "rdkit")).all()


def test_without_descriptors_a_batch_has_none():
    assert descriptor_fields(()) == {}
    assert "graph.rdkit" not in MoleculeFeaturizer().from_smiles("CCO").arrays
