import numpy as np
import pytest
import torch
import torch_geometric.transforms as T
from rdkit import Chem
from rdkit.Chem import AllChem

from fullrank.data import QM9, DataError, GraphDataset, QM9Featurizer, load_dataset
from fullrank.data.conformers import BONDS
from fullrank.data.sources import qm9 as module

METHANE = {
    "mu": 0.0,
    "alpha": 13.21,
    "homo": -0.3877,
    "lumo": 0.1171,
    "gap": 0.5048,
    "r2": 35.3641,
    "zpve": 0.044749,
    "U0": -40.47893,
    "U": -40.476062,
    "H": -40.475117,
    "G": -40.498597,
    "Cv": 6.469,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="module")
def sample(root) -> GraphDataset:
    return QM9(root, limit=2500)


def test_methane_has_the_published_values(sample):
    names = [target.name for target in sample.targets]
    assert names == list(METHANE)
    assert dict(zip(names, sample.labels[0].tolist(), strict=True)) == METHANE
    assert sample.texts("smiles")[0] == "C"
    assert [t.unit for t in sample.targets][:3] == ["D", "bohr³", "Hartree"]


def test_atom_and_bond_features_of_methane(sample):
    methane = sample[0]
    carbon, hydrogen = methane.x[0].tolist(), methane.x[1].tolist()
    #                  H  C  N  O  F  Z  ar sp sp2 sp3 Hs
    assert carbon == [0, 1, 0, 0, 0, 6, 0, 0, 0, 1, 4]
    assert hydrogen == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    assert methane.edge_attr[:, :4].tolist() == [[1, 0, 0, 0]] * 8
    assert torch.allclose(methane.edge_attr[:, 4], torch.tensor(1.092), atol=1e-3)


def test_every_bond_is_as_long_as_the_atoms_are_apart(sample):
    batch = sample.graphs.batch(np.arange(len(sample)))
    source, destination = batch.edge_index
    apart = (batch.pos[source] - batch.pos[destination]).norm(dim=1)
    assert torch.allclose(batch.edge_attr[:, 4], apart, atol=1e-5)
    # No bond between these five elements is outside this range.
    assert apart.min() > 0.9
    assert apart.max() < 1.9
    assert bool((batch.edge_attr[:, :4].sum(dim=1) == 1).all())


def test_all_molecules_of_the_sample_are_accounted_for(sample):
    assert len(sample) == 2500
    assert sample.notes["left out"] == []
    matched = sample.notes["matched"] + sample.notes["matched loosely"]
    assert sample.notes["in order"] + len(matched) == 2500
    numbers = sample.graphs.array("number").tolist()
    assert len(set(numbers)) == 2500
    assert set(matched) <= set(numbers)


def test_kinds_of_bonds_agree_with_rdkit(sample):
    for index in range(0, 2500, 83):
        mol = Chem.AddHs(Chem.MolFromSmiles(sample.texts("smiles")[index]))
        kinds = [str(bond.GetBondType()) for bond in mol.GetBonds()]
        expected = [2 * kinds.count(kind) for kind in BONDS]
        assert sample[index].edge_attr[:, :4].sum(0).tolist() == expected


def test_atom_features_are_pygs(sample):
    """PyG's own columns, atom by atom, for every 50th molecule."""
    for index in range(0, 2500, 50):
        mol = Chem.AddHs(Chem.MolFromSmiles(sample.texts("smiles")[index]))
        truth = []
        for atom in mol.GetAtoms():
            hybridization = str(atom.GetHybridization())
            truth.append(
                [atom.GetSymbol() == element for element in "HCNOF"]
                + [atom.GetAtomicNum(), atom.GetIsAromatic()]
                + [hybridization == kind for kind in ("SP", "SP2", "SP3")]
                + [sum(n.GetSymbol() == "H" for n in atom.GetNeighbors())]
            )
        found = sample[index].x.int().tolist()
        assert sorted(found) == sorted([list(map(int, row)) for row in truth])


def test_without_distance_and_complete(root, sample):
    plain = QM9(root, limit=2500, distance=False)
    assert plain.edge_features.names == ("single", "double", "triple", "aromatic")
    assert torch.equal(plain[9].edge_attr, sample[9].edge_attr[:, :4])

    assert plain.fingerprint != sample.fingerprint
    assert plain.featurizer == QM9Featurizer(distance=False)

    complete = QM9(root, limit=20, edges="complete")
    bonds = QM9(root, limit=20)
    for index in range(20):
        all_pairs, bonded = complete[index], bonds[index]
        n = all_pairs.num_nodes
        assert all_pairs.num_edges == n * (n - 1)
        is_bond = all_pairs.edge_attr[:, :4].sum(1) == 1
        assert torch.equal(
            all_pairs.edge_index[:, is_bond].sort(1)[0], bonded.edge_index.sort(1)[0]
        )
        source, destination = all_pairs.edge_index
        apart = (all_pairs.pos[source] - all_pairs.pos[destination]).norm(dim=1)
        assert torch.allclose(all_pairs.edge_attr[:, 4], apart, atol=1e-5)


def test_targets_by_name(sample):
    chosen = sample.select_targets(["U0", "mu"])
    assert chosen.labels[0].tolist() == [METHANE["U0"], METHANE["mu"]]
    assert chosen.graphs.batch([0, 1]).y.shape == (2, 2)
    assert chosen.select_targets(["mu"]).labels[0].tolist() == [METHANE["mu"]]
    with pytest.raises(DataError, match="'u0'"):
        sample.select_targets(["u0"])


def test_atoms_are_found_whatever_their_order():
    """Shuffled atoms of embedded molecules come back to where they belong."""
    rng = np.random.default_rng(0)
    for smiles in ("C#CC#N", "[NH3+]CCC([O-])=O", "CC(C)(C)O", "c1ccncc1", "FC1CC1"):
        mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
        AllChem.EmbedMolecule(mol, randomSeed=1)
        order = rng.permutation(mol.GetNumAtoms())
        pos = mol.GetConformer().GetPositions()[order]
        symbols = [mol.GetAtomWithIdx(int(i)).GetSymbol() for i in order]
        placed, how = module._molecule(smiles, symbols, pos)
        assert how == "matched"
        assert [a.GetSymbol() for a in placed.GetAtoms()] == symbols
        ends = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in placed.GetBonds()]
        lengths = [np.linalg.norm(pos[a] - pos[b]) for a, b in ends]
        truth = mol.GetConformer().GetPositions()
        true_ends = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()]
        expected = [np.linalg.norm(truth[a] - truth[b]) for a, b in true_ends]
        assert np.allclose(sorted(lengths), sorted(expected))


def test_coordinates_of_another_molecule_are_not_accepted():
    far = 5.0 * np.arange(15).reshape(5, 3)
    assert module._molecule("C", list("CHHHH"), far) == (None, "left out")


def test_wrong_options():
    with pytest.raises(DataError, match="edges.*'knn'.*'bonds'.*'complete'"):
        load_dataset("qm9", edges="knn")
    with pytest.raises(DataError, match="limit.*0"):
        load_dataset("qm9", limit=0)


@pytest.mark.slow
def test_all_of_qm9(tmp_path):
    everything = QM9(tmp_path)
    assert len(everything) == 130_831
    assert everything.notes["in order"] == 130_378
    assert len(everything.notes["matched"]) == 450
    loosely = everything.notes["matched loosely"]
    assert loosely == [81580, 133857, 133859]
    assert everything.notes["left out"] == []
    assert everything.graphs.array("number")[-1] == 133_885
    graphs = everything.graphs
    distance = graphs.array("edge.distance")
    assert distance.min() > 0.9
    far = np.searchsorted(graphs.edge_ptr, np.flatnonzero(distance > 1.9), "right") - 1
    assert set(graphs.array("number")[far].tolist()) <= set(loosely)


def test_relative_distances_are_those_of_pyg(tmp_path):
    """`T.Distance` divides by the longest edge of the molecule."""
    raw, relative = (
        QM9(tmp_path, limit=50, distance=distance) for distance in (True, "relative")
    )
    assert raw.fingerprint != relative.fingerprint
    for index in (0, 20, 49):
        graph = raw[index]
        graph.edge_attr = graph.edge_attr[:, :-1]
        expected = T.Distance()(graph).edge_attr
        assert torch.allclose(relative[index].edge_attr, expected, atol=1e-6)
    smiles = relative.texts("smiles")[30]
    made = relative.featurizer.from_smiles(smiles).arrays
    longest = made["edge.distance"].max()
    assert np.allclose(made["edge.relative"], made["edge.distance"] / longest)
