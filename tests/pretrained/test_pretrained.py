"""The models that come with the package: their files, and what they predict."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

import fullrank
from fullrank.data.featurizers import MoleculeFeaturizer
from fullrank.errors import ModelError, RunError
from fullrank.pretrained import FOLDER, model_file, names, resolve
from fullrank.pretrained.cards import card
from fullrank.train import Model, load_config
from fullrank.train.run_folder import model_files

MOST_BYTES = 10_000_000
MOLECULES = ["CCO", "c1ccccc1", "CC(=O)Oc1ccccc1C(=O)O"]


def test_the_models_that_are_there():
    assert names() == ("bbb", "hiv", "qm9", "solubility")
    together = sum(file.stat().st_size for file in FOLDER.glob("*.safetensors"))
    assert together <= MOST_BYTES
    for name in names():
        assert {".json", ".safetensors", ".yaml"} == {
            file.suffix for file in FOLDER.glob(f"{name}.*")
        }


@pytest.mark.parametrize("name", names())
def test_a_model_is_the_one_of_its_card(name):
    measured = card(name).measured
    content = model_file(name).read_bytes()
    assert len(content) == measured.size
    assert hashlib.sha256(content).hexdigest() == measured.sha256
    model = Model.load(model_file(name))
    spec = model.spec
    assert (spec.run, spec.task, spec.graphs) == (
        measured.run,
        measured.task,
        measured.graphs,
    )
    shown = [(output.name, output.unit) for output in measured.outputs]
    assert shown == [(target.name, target.unit) for target in spec.targets]
    for metric, score in measured.scores.items():
        assert score.value == pytest.approx(spec.scores["test"][metric], rel=1e-4)
    assert measured.scores.keys() | {"loss"} == spec.scores["test"].keys() | {"loss"}
    assert measured.calibration == len(model.kept["calibration_graphs"])
    assert measured.fingerprints == len(model.kept["fingerprints"])
    assert (measured.elements, measured.atoms) == (spec.seen.elements, spec.seen.atoms)
    assert bool(measured.linear) == bool(spec.references)
    parameters = model.network.parameters()
    assert measured.parameters == sum(p.numel() for p in parameters)
    assert isinstance(spec.featurizer, MoleculeFeaturizer)  # reads SMILES


@pytest.mark.parametrize("name", names())
def test_the_configuration_is_that_of_the_model(name):
    config = load_config(FOLDER / f"{name}.yaml")
    spec = Model.load(model_file(name)).spec
    assert config.data.targets == [target.name for target in spec.targets]
    assert config.data.task == spec.task
    assert config.training.batch_size == spec.batch_size
    assert bool(config.training.references) == bool(spec.references)
    network = spec.network
    assert config.model.hidden == network["hidden_channels"]
    assert config.model.layers == network["num_layers"]
    assert tuple(config.model.descriptors) == spec.featurizer.descriptors
    assert config.seeds == [card(name).measured.seed]
    assert config.training.epochs == card(name).measured.epochs


@pytest.mark.parametrize("name", names())
def test_intervals_are_those_of_the_card(name):
    predictor = fullrank.load(name)
    outputs = card(name).measured.outputs
    if predictor.spec.task != "regression":
        assert [output.half_width for output in outputs] == [None]
        assert predictor.calibration is not None
        return
    widths = [output.half_width for output in outputs]
    np.testing.assert_allclose(predictor.half_widths(90), widths, rtol=1e-9)


@pytest.mark.parametrize(("coverage", "properties"), [(90, 2), (99, 12)])
def test_qm9_predicts_properties_of_benzene(coverage, properties):
    """QM9's own values are within the intervals: some at 90%, all at 99%."""
    found = fullrank.load("qm9").predict(["c1ccccc1"], interval=coverage).iloc[0]
    truth = {
        **{"alpha": 57.28, "gap": 0.2503, "zpve": 0.100175, "Cv": 17.214},
        **{"mu": 0.0, "homo": -0.2475, "lumo": 0.0029, "r2": 456.6788},
        **{"U0": -232.164586, "U": -232.160188, "H": -232.159244, "G": -232.192047},
    }
    for name in list(truth)[:properties]:
        low, high = found[f"predicted_{name}_low"], found[f"predicted_{name}_high"]
        assert low <= truth[name] <= high, name
    assert found["similarity"] > 0


def test_solubility_falls_with_the_length_of_the_chain():
    chains = ["CCO", "CCCCCCO", "CCCCCCCCCC"]
    found = fullrank.load("solubility").predict(chains)["predicted_logS"]
    assert found.is_monotonic_decreasing
    assert found[0] > 0 > found[1] > -2.5 > found[2]  # measured: 1.1, -1.2, -6.6


def test_caffeine_passes_the_barrier_and_sucrose_does_not():
    smiles = ["Cn1cnc2c1c(=O)n(C)c(=O)n2C", "OCC1OC(OC2(CO)OC(CO)C(O)C2O)C(O)C(O)C1O"]
    caffeine, sucrose = fullrank.load("bbb").predict(smiles)["probability_p_np"]
    assert caffeine > 0.8 > 0.5 > sucrose


def test_zidovudine_is_more_likely_to_be_active_than_ethanol():
    zidovudine = "Cc1cn(C2CC(N=[N+]=[N-])C(CO)O2)c(=O)[nH]c1=O"
    found = fullrank.load("hiv").predict([zidovudine, "CCO"])["probability_HIV_active"]
    assert found[0] > 5 * found[1]


def test_what_training_molecules_do_not_have_is_noted():
    found = fullrank.load("qm9").predict(["CCCCCCBr", "CCO", "CCCCCCO"])
    assert "Br" in found["note"][0]
    assert "3 atoms" in found["note"][1]  # where errors are large
    assert not isinstance(found["note"][2], str)


def test_a_path_that_exists_wins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert resolve("qm9") == model_files("qm9")[0] == model_file("qm9")
    Path("qm9").write_bytes(b"not a model")
    assert model_files("qm9") == [Path("qm9")]
    with pytest.raises(ModelError, match="qm9"):
        fullrank.load("qm9")


def test_an_unknown_name_is_answered_with_the_known_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="'qm8'.*'qm9'.*bbb, hiv, qm9"):
        fullrank.load("qm8")
    with pytest.raises(ModelError, match="'runs/none'"):
        fullrank.load("runs/none")
    with pytest.raises(ModelError, match="'solvent'"):
        model_file("solvent")


def test_nothing_private_is_in_the_files():
    for file in FOLDER.iterdir():
        if file.suffix in (".json", ".safetensors", ".yaml"):
            content = file.read_bytes()
            for secret in (b"/home/", b"/work/", b"/root", b"/tmp/", b"/Users/"):
                assert secret not in content, file.name


def test_a_folder_that_hides_a_model_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qm9").mkdir()
    with pytest.raises(RunError, match="qm9"):
        model_files("qm9")


def test_stereo_and_radicals_keep_the_energy_and_are_noted():
    smiles = ["CC(O)CCCCC", "C[C@H](O)CCCCC", "CC(C)CCCC[CH]C"]
    found = fullrank.load("qm9").predict(smiles)
    plain, chiral, _ = found["predicted_U0"]
    assert chiral == pytest.approx(plain, abs=0.05)
    assert not isinstance(found["note"][0], str)
    assert "chirality" in found["note"][1]
    assert "radical" in found["note"][2]
