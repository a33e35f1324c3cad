import numpy as np
import pytest
import torch
from rdkit import Chem
from rdkit.Chem import AllChem

from fullrank.data import QM9, DataError, PackedGraphs
from fullrank.data.conformers import (
    conformer_fields,
    edge_features,
    embedded,
    graph_from_conformer,
    with_hydrogens,
)
from fullrank.data.molecules import molecule


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return QM9(tmp_path_factory.mktemp("root"), limit=120)


def test_a_conformer_gives_the_features_of_the_data_set(sample):
    mol = with_hydrogens(molecule(sample.texts("smiles")[40]))
    AllChem.EmbedMolecule(mol, randomSeed=0)
    graph = graph_from_conformer(mol)
    data = PackedGraphs.from_graphs([graph], fields=conformer_fields())[0]
    assert torch.equal(data.x, sample[40].x)
    assert torch.equal(data.edge_attr[:, :4], sample[40].edge_attr[:, :4])
    assert data.edge_attr.shape[1] == edge_features(distance=True).dim
    with pytest.raises(DataError):
        graph_from_conformer(Chem.MolFromSmiles("C"))


def test_conformers_are_always_the_same_and_near_those_of_qm9(sample):
    for index in range(20):
        first, again = (
            graph_from_conformer(embedded(with_hydrogens(molecule(smiles))))
            for smiles in [sample.texts("smiles")[index]] * 2
        )
        mine = np.sort(first.arrays["edge.distance"])
        assert np.array_equal(mine, np.sort(again.arrays["edge.distance"]))
        truth = np.sort(sample[index].edge_attr[:, -1].numpy())
        np.testing.assert_allclose(mine, truth, atol=0.12)


@pytest.mark.parametrize(("smiles", "word"), [("C[SiH3]", " 14"), ("C$C", "QUADRUPLE")])
def test_what_qm9_does_not_have_is_named(smiles, word):
    mol = with_hydrogens(molecule(smiles))
    with pytest.raises(DataError, match=word):
        graph_from_conformer(mol)
