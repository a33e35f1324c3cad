import numpy as np
import pytest

from fullrank.data import MoleculeFeaturizer, read_smiles_csv
from fullrank.data.featurizers import Reading
from fullrank.data.molecules import molecule_features
from fullrank.train import domain
from fullrank.train.model import Seen
from train.samples import SMILES, write_molecules

NAMES = [features.names for features in molecule_features()]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("domain")
    table = write_molecules(folder / "in.csv")
    return read_smiles_csv(table, ["logp"], root=folder)


def test_what_was_seen_is_that_of_the_training_molecules(dataset):
    chosen = ["CCO", "CSC", "c1ccccc1"]
    train = np.array([SMILES.index(smiles) for smiles in chosen])
    seen = domain.seen_in(dataset, train)
    assert seen.elements == (6, 8, 16)
    assert seen.atoms == seen.usual_atoms == (3, 6)
    assert [len(column) for column in seen.node_categories[:2]] == [
        3,
        1,
    ]  # no chirality
    assert len(seen.edge_categories) == 3


def test_usual_sizes_leave_out_one_in_a_hundred(tmp_path):
    smiles = ["C"] + ["CCCC"] * 300 + ["C" * 9]
    table = tmp_path / "sizes.csv"
    table.write_text("smiles,y\n" + "".join(f"{s},1.5\n" for s in smiles))
    sizes = read_smiles_csv(table, ["y"], root=tmp_path)
    seen = domain.seen_in(sizes, np.arange(len(smiles)))
    assert (seen.atoms, seen.usual_atoms) == ((1, 9), (4, 4))


def test_notes_name_what_no_training_molecule_has():
    seen = Seen(elements=(6, 8), atoms=(2, 4))
    block = Reading(MoleculeFeaturizer())(["CCO", "CBr", "C", "NCCCCBr", "[Og]"])
    found = domain.notes(seen, block.graphs, *NAMES)
    assert found[0] is None
    assert "Br" in found[1]
    assert "1 atom" in found[2]
    assert all(word in found[3] for word in ("N", "Br", "6 atoms", "2 to 4"))
    assert "Og" in found[4]


def test_notes_name_categories_that_no_training_molecule_has(dataset):
    flat = [i for i, smiles in enumerate(SMILES) if not set(smiles) & set("@/+-[")]
    seen = domain.seen_in(dataset, np.array(flat))
    smiles = ["CCO", "C[C@H](O)CC", "C/C=C/C", "CC[CH]C"]
    block = Reading(MoleculeFeaturizer())(smiles)
    found = domain.notes(seen, block.graphs, *NAMES)
    assert found[0] is None
    assert "chirality" in found[1]
    assert "stereo" in found[2]
    assert "radical" in found[3]


def test_notes_name_sizes_that_are_rare_in_training():
    seen = Seen(elements=(6,), atoms=(1, 5), usual_atoms=(2, 4))
    block = Reading(MoleculeFeaturizer())(["C", "CC", "CCCC", "CCCCC", "CCCCCC"])
    found = domain.notes(seen, block.graphs, *NAMES)
    assert found[1:3] == [None, None]
    assert all("99%" in found[i] and "2 to 4" in found[i] for i in (0, 3))
    assert "99%" not in found[4]
    assert "1 to 5" in found[4]


def test_fingerprints_are_of_training_molecules_and_bounded(dataset, monkeypatch):
    train = np.arange(50)
    everything = domain.training_fingerprints(dataset, train)
    assert everything.shape == (50, 128)
    monkeypatch.setattr(domain, "MOST_MOLECULES", 20)
    some = {
        row.tobytes() for row in domain.training_fingerprints(dataset, train).numpy()
    }
    assert len(some) <= 20
    assert some <= {row.tobytes() for row in everything.numpy()}
