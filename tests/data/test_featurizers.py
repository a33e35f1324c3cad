import numpy as np
import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from rdkit import Chem

from data.tu_samples import BARE, small, star
from fullrank.data import (
    AnyFeaturizer,
    DataError,
    Graph,
    MoleculeFeaturizer,
    PackedGraphs,
    QM9Featurizer,
    featurize,
    read_tu_folder,
)
from fullrank.data.conformers import graph_from_conformer
from fullrank.data.featurizers import Reading
from fullrank.data.molecules import graph_from_molecule, molecule
from fullrank.data.workers import batched, for_each

ADAPTER = TypeAdapter(AnyFeaturizer)
SALT = "CC(=O)[O-].[Na+]"


def assert_same(first: Graph, second: Graph) -> None:
    assert first.num_nodes == second.num_nodes
    assert np.array_equal(first.edge_index, second.edge_index)
    for name, values in first.arrays.items():
        assert np.array_equal(values, second.arrays[name])


def test_json_keeps_what_a_featurizer_is(tmp_path):
    for featurizer in (
        MoleculeFeaturizer(fragments="largest"),
        QM9Featurizer(edges="complete", distance=False),
        read_tu_folder(small(tmp_path / "set")).featurizer,
        read_tu_folder(star(tmp_path / "star", 1001)).featurizer,
    ):
        assert ADAPTER.validate_json(ADAPTER.dump_json(featurizer)) == featurizer
    with pytest.raises(ValidationError):
        ADAPTER.validate_python({"kind": "molecule", "fragments": "strip"})
    with pytest.raises(ValidationError):
        ADAPTER.validate_python({"kind": "molecule", "unknown": 1})


def test_molecules():
    featurizer = MoleculeFeaturizer()
    mol = molecule("CCO")
    for graph in (featurizer.from_smiles("CCO"), featurizer.from_molecule(mol)):
        assert_same(graph, graph_from_molecule(mol))
    assert not featurizer.makes_conformers
    assert not featurizer.keeps_hydrogens
    for unusable in (None, Chem.Mol()):
        with pytest.raises(DataError):
            featurizer.from_molecule(unusable)
        with pytest.raises(DataError):
            QM9Featurizer().from_molecule(unusable)


def test_fragments_are_chosen_however_the_molecule_comes():
    kept, stripped = MoleculeFeaturizer(), MoleculeFeaturizer(fragments="largest")
    mol = molecule(SALT)
    assert kept.from_smiles(SALT).num_nodes == kept.from_molecule(mol).num_nodes == 5
    assert stripped.from_smiles(SALT).num_nodes == 4
    assert stripped.from_molecule(mol).num_nodes == 4


@pytest.mark.parametrize(
    ("options", "conformers"),
    [
        ({}, True),
        ({"distance": False}, False),
        ({"distance": False, "edges": "complete"}, True),
    ],
)
def test_conformers_are_made_only_where_they_are_read(options, conformers):
    featurizer = QM9Featurizer(**options)
    assert featurizer.makes_conformers == conformers
    assert featurizer.keeps_hydrogens
    graph = featurizer.from_smiles("CCO")
    assert graph.num_nodes == 9
    assert bool(graph.arrays["node.pos"].any()) == conformers
    assert_same(graph, featurizer.from_smiles("CCO"))
    packed = PackedGraphs.from_graphs([graph], fields=featurizer.fields)
    assert packed[0].edge_attr.shape[1] == (5 if featurizer.distance else 4)


def test_given_coordinates_are_used_as_they_are():
    mol = Chem.AddHs(Chem.MolFromSmiles("CO"))
    conformer = Chem.Conformer(mol.GetNumAtoms())
    conformer.SetPositions(np.random.default_rng(0).normal(size=(6, 3)))
    mol.AddConformer(conformer)
    found = QM9Featurizer().from_molecule(mol)
    assert_same(found, graph_from_conformer(mol))
    conformer = mol.GetConformer()
    conformer.Set3D(False)
    with pytest.raises(DataError):
        QM9Featurizer().from_molecule(mol)
    with pytest.raises(DataError):
        QM9Featurizer().from_molecule(Chem.RemoveHs(mol))


def test_a_block_is_what_its_molecules_are_one_by_one():
    smiles = ["CCO", "C1CC", "", "[#200]", "c1ccccc1", SALT]
    for featurizer in (
        MoleculeFeaturizer(),
        MoleculeFeaturizer(fragments="largest"),
        MoleculeFeaturizer(descriptors=("rdkit",)),
        QM9Featurizer(distance=False),
    ):
        graphs = featurizer.graphs(featurizer.molecules(smiles))
        for text, found in zip(smiles, graphs, strict=True):
            (truth,) = for_each(featurizer.from_smiles, [text])
            if isinstance(truth, DataError):
                assert str(found) == str(truth)
            else:
                assert_same(found, truth)


def test_featurize_gives_graphs_and_reasons_in_order():
    smiles = ["CCO", "C1CC", "", "[#200]", "c1ccccc1"] * 30
    blocks = batched(iter(smiles), 7)
    found = list(featurize(Reading(MoleculeFeaturizer()), blocks, workers=2))
    reasons = [reason for block in found for reason in block.reasons]
    usable = [text in ("CCO", "c1ccccc1") for text in smiles]
    assert [reason is None for reason in reasons] == usable
    sizes = [size for b in found if b.graphs for size in b.graphs.num_nodes]
    assert sizes == [3, 6] * 30


def test_a_molecule_that_rdkit_cannot_take_is_one_reason():
    featurizer = MoleculeFeaturizer(fragments="largest")
    (found,) = featurize(Reading(featurizer), [["C", "C" * 19_990 + ".O", "CC"]])
    assert [reason is None for reason in found.reasons] == [True, False, True]
    assert "10,000" in found.reasons[1]


class TestGraphs:
    def test_new_graphs_get_the_columns_of_the_training_set(self, tmp_path):
        known = read_tu_folder(small(tmp_path / "known"))
        new = small(tmp_path / "new", graph_labels=None, node_labels="7\n7\n7\n7\n7\n")
        graphs, reasons = known.featurizer.read_folder(new)
        assert reasons == {}
        x = torch.cat([graphs[0].x, graphs[1].x])
        assert x[:, 2:].tolist() == [[0, 1]] * 5  # not 3, but 7
        assert torch.equal(graphs[0].edge_attr, known[0].edge_attr)

    def test_a_label_that_no_training_graph_has_is_named(self, tmp_path):
        featurizer = read_tu_folder(small(tmp_path / "known")).featurizer
        new = small(tmp_path / "new", node_labels="3\n5\n7\n3\n7\n")
        assert featurizer.read_folder(new)[1] == {
            0: "no training graph has the node label 5"
        }
        new = small(tmp_path / "new", edge_labels="0\n0\n1\n1\n0\n0\n2\n2\n")
        assert featurizer.read_folder(new)[1] == {
            1: "no training graph has the edge label 2"
        }

    def test_a_degree_that_no_training_graph_has_is_named(self, tmp_path):
        two_paths = {"A": "1, 2\n2, 1\n4, 5\n5, 4\n"}
        known = read_tu_folder(small(tmp_path / "paths", **BARE, **two_paths))
        new = small(tmp_path / "triangle", **BARE)
        graphs, reasons = known.featurizer.read_folder(new)
        assert reasons == {0: "no training graph has the degree 2"}
        assert graphs[1].x.tolist() == [[0, 1], [0, 1]]
        labelled = read_tu_folder(small(tmp_path / "labelled"))
        with pytest.raises(DataError, match="degree 0"):
            labelled.featurizer.read_folder(new)

    def test_degrees_are_normalised_as_in_training(self, tmp_path):
        known = read_tu_folder(star(tmp_path / "known", 1200))
        again, reasons = known.featurizer.read_folder(tmp_path / "known")
        assert reasons == {}
        assert torch.equal(again[0].x, known[0].x)
        new, _ = known.featurizer.read_folder(star(tmp_path / "new", 3))
        mean, std = 2402 / 1203, float(np.std([1200] + [1] * 1202, ddof=1))
        expected = (np.array([3, 1, 1, 1]) - mean) / std
        assert np.allclose(new[0].x[:, 0].numpy(), expected, rtol=1e-5)
