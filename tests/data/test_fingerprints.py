import numpy as np
from rdkit import DataStructs
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

from fullrank.data.fingerprints import fingerprints, nearest_similarity
from fullrank.data.molecules import molecule
from train.samples import SMILES


def test_similarity_is_rdkits():
    mols = [molecule(smiles) for smiles in SMILES]
    generator = GetMorganGenerator(radius=2, fpSize=1024)
    truth = [generator.GetFingerprint(mol) for mol in mols]
    known = truth[:40]
    expected = [max(DataStructs.BulkTanimotoSimilarity(f, known)) for f in truth]
    packed = fingerprints(mols)
    found = nearest_similarity(packed, packed[:40])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert (found[:40] == 1).all()
    assert found[40:].min() < 0.5
