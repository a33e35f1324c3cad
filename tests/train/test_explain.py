import numpy as np
import pytest
import torch

from fullrank import load
from fullrank.data import PackedGraphs
from fullrank.data.descriptors import descriptor_names
from fullrank.errors import ConfigError, DataError
from fullrank.train import parse
from fullrank.train.explain import TOLERANCE
from train.samples import small_config, untrained

MOLECULES = ["CC(=O)Oc1ccccc1C(=O)O", "C", "[Na+].[Cl-]", "C/C=C/CN", "C1CC1"]


def predictor_of(tmp_path, targets=("logp",), task="regression", **sections):
    config = small_config(tmp_path, targets, task, **sections)
    predictor = load(untrained(config, tmp_path / "model.safetensors"))
    predictor.models[0].network.double()
    return predictor


@pytest.mark.parametrize("conv", ["expc", "combc", "gin0", "gat"])
def test_contributions_add_up(tmp_path, conv):
    predictor = predictor_of(tmp_path, model={"conv": conv, "batch_norm": True})
    for smiles in MOLECULES:
        found = predictor.explain(smiles)
        value = predictor.predict([smiles])["predicted_logp"][0]
        assert found.value == pytest.approx(value, rel=1e-6)
        distance = found.value - found.base
        parts = [found.atoms, found.bonds, list(found.descriptors.values())]
        size = sum(np.abs(part).sum() for part in parts)
        assert abs(found.total - distance) <= TOLERANCE * size + 1e-12
        assert found.unexplained == pytest.approx(distance - found.total, abs=1e-12)
        assert len(found.atoms) == found.mol.GetNumAtoms()
        assert len(found.bonds) == found.mol.GetNumBonds()


def test_a_sum_over_atoms_is_explained_exactly(tmp_path):
    """Without layers a network adds up a number for each atom."""
    model = {"layers": 0, "readout": "sum", "head": "ogb"}
    predictor = predictor_of(tmp_path, model=model)
    (model,) = predictor.models
    smiles = MOLECULES[0]
    graph = predictor.molecules.from_smiles(smiles)
    batch = PackedGraphs.from_graphs([graph], fields=predictor.molecules.fields).batch(
        [0]
    )
    with torch.no_grad():
        each = model.network.head[0].weight @ model.network.encoder(batch.x).T
    truth = each[0].numpy() * model.spec.std[0]
    found = predictor.explain(smiles)
    np.testing.assert_allclose(found.atoms, truth, rtol=1e-9)
    np.testing.assert_allclose(found.bonds, 0, atol=1e-12)


def test_descriptors_contribute_by_name(tmp_path):
    model = {"descriptors": ["rdkit"], "head": "ogb"}
    predictor = predictor_of(tmp_path, model=model)
    (model,) = predictor.models
    found = predictor.explain("CCO")
    assert list(found.descriptors) == descriptor_names(["rdkit"])
    graph = predictor.molecules.from_smiles("CCO")
    with torch.no_grad():
        values = torch.from_numpy(graph.arrays["graph.rdkit"])[None].double()
        read = model.network.standardize(values)[0]
        weight = model.network.head[0].weight[0, -len(read) :]
        truth = (weight * read).numpy() * model.spec.std[0]
    np.testing.assert_allclose(list(found.descriptors.values()), truth, rtol=1e-9)


def test_equal_atoms_contribute_equally(tmp_path):
    found = predictor_of(tmp_path).explain("c1ccccc1")
    np.testing.assert_allclose(found.atoms, found.atoms[0], rtol=1e-6)
    np.testing.assert_allclose(found.bonds, found.bonds[0], rtol=1e-6)
    assert found.atoms[0] != 0


def test_an_ensemble_is_explained_by_the_mean(tmp_path):
    config = small_config(tmp_path)
    files = [untrained(config, tmp_path / f"{seed}", seed) for seed in (0, 1)]
    one, two, both = (load(f).explain("CCO") for f in (files[0], files[1], files))
    np.testing.assert_allclose(both.atoms, (one.atoms + two.atoms) / 2, rtol=1e-6)
    assert both.value == pytest.approx((one.value + two.value) / 2)


def test_classes_are_explained_by_their_logits(tmp_path):
    predictor = predictor_of(tmp_path, ["kind"], "multiclass")
    (model,) = predictor.models
    likeliest = predictor.predict(["CCO"])[predictor.columns].T[0].idxmax()
    found = predictor.explain("CCO")
    assert f"probability_{found.target}" == likeliest
    assert found.scale == "logit"
    other = predictor.explain("CCO", target="ring")
    graph = PackedGraphs.from_graphs(
        [predictor.molecules.from_smiles("CCO")], fields=predictor.molecules.fields
    )
    logits = model(model.ready(graph.batch([0])))[0]
    column = model.spec.classes.index("ring")
    assert other.value == pytest.approx(float(logits[column].detach()))
    with pytest.raises(ConfigError, match="'rings'.*'ring'"):
        predictor.explain("CCO", target="rings")


def test_what_cannot_be_explained(tmp_path):
    with pytest.raises(DataError, match="C1CC"):
        predictor_of(tmp_path).explain("C1CC")
    data = {"name": "qm9", "targets": ["gap"], "limit": 60, "root": str(tmp_path)}
    config = parse({"data": data, "model": {"layers": 1, "hidden": 4}})
    with pytest.raises(ConfigError, match="qm9"):
        load(untrained(config, tmp_path / "qm9.safetensors")).explain("CCO")


def test_the_drawing_has_every_atom(tmp_path):
    drawing = predictor_of(tmp_path).explain("OCCN").svg()
    assert drawing.startswith("<svg")
    assert all(f"atom-{index}" in drawing for index in range(4))
