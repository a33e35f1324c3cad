import csv
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fullrank import load
from fullrank.data import QM9, AddStructuralColors
from fullrank.errors import ConfigError, DataError, ModelError, RunError
from fullrank.train import evaluate_run, parse, run_experiment, run_one
from fullrank.train.evaluate import load_model
from fullrank.train.predict_file import predict_file
from goldens.configs import write_graphs
from train.samples import SMILES, folder_of, small_config


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """An ensemble of two small models of logp."""
    config = small_config(tmp_path_factory.mktemp("trained"), seeds=[0, 1])
    experiment = run_experiment(config).experiment
    runs = [folder_of(config.changed(seeds=[seed])) for seed in (0, 1)]
    return SimpleNamespace(config=config, folder=config.runs / experiment, runs=runs)


def own_predictions(run, dataset, indices):
    """The stored network on the data set's own batches."""
    model = load_model(run)
    with torch.no_grad():
        return model.predictions(model(dataset.graphs.batch(indices))).numpy()


def rows_of(file):
    with open(file, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_smiles_get_what_the_data_set_gets(trained):
    run = trained.runs[0]
    dataset = trained.config.data.load()
    truth = own_predictions(run, dataset, np.arange(len(SMILES)))
    found = load(run.path).predict(SMILES)
    assert list(found.columns) == ["predicted_logp", "similarity", "note", "reason"]
    np.testing.assert_allclose(found["predicted_logp"], truth[:, 0], rtol=1e-5)
    assert found["reason"].isna().all()


def test_a_model_file_needs_nothing_else(tmp_path):
    """Neither its run folder nor the table it was trained on."""
    config = small_config(tmp_path, training={"epochs": 1})
    run = run_one(config)
    truth = load(run.path).predict(SMILES)
    file = shutil.copy(run.model_file, tmp_path / "mailed.safetensors")
    shutil.rmtree(config.runs)
    (tmp_path / "molecules.csv").unlink()
    assert load(file).predict(SMILES).equals(truth)


def test_a_run_that_is_not_finished_has_no_model(tmp_path):
    run = run_one(small_config(tmp_path, training={"epochs": 1}))
    (run.path / "result.json").unlink()
    with pytest.raises(RunError):
        load(run.path)


@pytest.mark.parametrize("hops", [1, "all"])
def test_structure_is_read_in_training_evaluation_and_prediction(tmp_path, hops):
    structure = {"hops": hops, "node_labels": "x", "edge_labels": "edge_attr"}
    config = small_config(
        tmp_path,
        data={"structure": structure},
        model={"conv": "expc-structural", "s": 2, "re_sum": True},
        training={"epochs": 1},
    )
    run = run_one(config)
    assert run.config.data == config.data
    evaluated = evaluate_run(run)
    assert evaluated["mae"] == pytest.approx(run.result.test["mae"])
    dataset = config.data.load()
    truth = own_predictions(run, dataset, np.arange(len(SMILES)))
    found = load(run.path).predict(SMILES)["predicted_logp"]
    np.testing.assert_allclose(found, truth[:, 0], rtol=1e-5)

    bare = config.data.model_copy(update={"structure": None}).load()
    transform = AddStructuralColors(
        None if hops == "all" else hops,
        **{name: field for name, field in structure.items() if name != "hops"},
    )
    for index in (0, 40):
        colored = transform(bare[index])
        assert torch.equal(dataset[index].edge_color, colored.edge_color)


def test_continuous_structure_is_read_in_training_evaluation_and_prediction(tmp_path):
    config = small_config(
        tmp_path,
        data={"structure": {"kind": "continuous", "walk_length": 3}},
        model={
            "conv": "expc-continuous",
            "s": 2,
            "re_sum": True,
            "conv_args": {"walk_length": 3},
        },
        training={"epochs": 1},
    )
    run = run_one(config)
    assert run.config.data == config.data
    assert evaluate_run(run)["mae"] == pytest.approx(run.result.test["mae"])
    truth = own_predictions(run, config.data.load(), np.arange(len(SMILES)))
    found = load(run.path).predict(SMILES)["predicted_logp"]
    np.testing.assert_allclose(found, truth[:, 0], rtol=1e-5)


def test_descriptors_are_read_in_training_evaluation_and_prediction(tmp_path):
    config = small_config(
        tmp_path,
        model={"descriptors": ["rdkit", "morgan"]},
        training={"epochs": 2},
    )
    run = run_one(config)
    assert evaluate_run(run)["mae"] == pytest.approx(run.result.test["mae"])
    dataset = config.load_data()
    truth = own_predictions(run, dataset, np.arange(len(SMILES)))
    found = load(run.path).predict(SMILES)["predicted_logp"]
    np.testing.assert_allclose(found, truth[:, 0], rtol=1e-5)

    standardize = load_model(run).network.standardize
    values = dataset.graphs.batch(run.split.train).descriptors.double()
    torch.testing.assert_close(standardize.mean.double(), values.mean(0))
    torch.testing.assert_close(
        standardize.std.double(), values.std(0, correction=0), atol=1e-5, rtol=1e-5
    )
    constant = values.std(0, correction=0) == 0
    assert constant.any()
    assert (standardize.std[constant] == 0).all()


def test_only_tables_of_molecules_have_descriptors(tmp_path):
    write_graphs(tmp_path / "graphs")
    config = parse(
        {
            "data": {"name": str(tmp_path / "graphs")},
            "model": {"descriptors": ["rdkit"]},
            "runs": str(tmp_path / "runs"),
        }
    )
    with pytest.raises(DataError, match="rdkit"):
        run_one(config)


def test_an_output_that_is_not_finite_has_a_reason(trained):
    predictor = load(trained.runs[0].path)
    with torch.no_grad():
        for weight in predictor.models[0].parameters():
            weight.fill_(1e30)
    found = predictor.predict(["CCO"])
    assert found["predicted_logp"].isna().all()
    assert found["reason"][0]


def test_a_text_is_not_a_list_of_molecules(trained):
    with pytest.raises(DataError, match="'CCO'"):
        load(trained.runs[0].path).predict("CCO")


def test_what_pandas_puts_where_there_is_no_molecule_has_a_reason(trained):
    found = load(trained.runs[0].path).predict(["CCO", None, float("nan"), "CCN"])
    assert found["predicted_logp"].isna().tolist() == [False, True, True, False]
    assert found["reason"].notna().tolist() == [False, True, True, False]


def test_ensemble_gives_mean_and_standard_deviation(trained):
    folders = [run.path for run in trained.runs]
    each = [load(folder).predict(["CCO", "c1ccccc1"]) for folder in folders]
    values = np.stack([frame["predicted_logp"] for frame in each])
    for together in (load(folders), load(trained.folder)):
        found = together.predict(["CCO", "c1ccccc1"])
        np.testing.assert_allclose(found["predicted_logp"], values.mean(0))
        np.testing.assert_allclose(found["predicted_logp_std"], values.std(0, ddof=1))


@pytest.mark.parametrize(
    ("task", "target", "columns"),
    [
        ("binary", "ring", ["probability_ring"]),
        (
            "multiclass",
            "kind",
            ["probability_aromatic", "probability_chain", "probability_ring"],
        ),
    ],
)
def test_classification_gives_probabilities(tmp_path, task, target, columns):
    config = small_config(tmp_path, [target], task, training={"epochs": 1})
    found = load(run_one(config).path).predict(["CCO", "c1ccccc1"])
    assert list(found.columns) == [*columns, "similarity", "note", "reason"]
    values = found[columns].to_numpy()
    assert ((values > 0) & (values < 1)).all()
    if task == "multiclass":
        np.testing.assert_allclose(values.sum(axis=1), 1, rtol=1e-5)


def test_models_of_different_targets_are_no_ensemble(trained, tmp_path):
    other = small_config(tmp_path, ["weight"], training={"epochs": 1})
    run = run_one(other)
    with pytest.raises(ConfigError, match=run.id):
        load([trained.runs[0].path, run.path])


def test_folder_that_is_not_a_run(tmp_path):
    with pytest.raises(RunError):
        load(tmp_path)


def test_a_model_file_that_executes_code_does_not(trained, tmp_path):
    """The whole way: a run folder from a stranger."""
    from train.test_callbacks import crafted

    folder = tmp_path / trained.runs[0].id
    shutil.copytree(trained.runs[0].path, folder)
    crafted("torch", folder / "model.safetensors", tmp_path / "executed")
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        load(folder)
    assert not (tmp_path / "executed").exists()


class TestQM9:
    @pytest.fixture(scope="class")
    def root(self, tmp_path_factory):
        return tmp_path_factory.mktemp("qm9")

    @pytest.fixture(scope="class", params=[True, False], ids=["distance", "bonds only"])
    def config(self, root, request):
        config = parse(
            {
                "data": {
                    "name": "qm9",
                    "targets": ["gap", "mu"],
                    "limit": 120,
                    "distance": request.param,
                    "root": str(root),
                },
                "model": {"layers": 2, "hidden": 8},
                "training": {"epochs": 2, "batch_size": 32},
                "runs": str(root / "runs"),
            }
        )
        return SimpleNamespace(data=config.data, run=run_one(config))

    def test_given_geometries_are_read_as_they_are(self, config, tmp_path):
        """An SDF file with QM9's own coordinates gets the data set's predictions."""
        from rdkit import Chem

        dataset = QM9(root=config.data.root, limit=120, distance=config.data.distance)
        file = tmp_path / "in.sdf"
        with Chem.SDWriter(str(file)) as writer:
            for index in range(40):
                writer.write(molecule_of(dataset, index))
        predict_file(load(config.run.path), file, tmp_path / "out.csv")
        truth = own_predictions(config.run, dataset, np.arange(40))
        rows = rows_of(tmp_path / "out.csv")
        found = [[float(r["predicted_gap"]), float(r["predicted_mu"])] for r in rows]
        np.testing.assert_allclose(found, truth, rtol=2e-3)  # SDF has 4 decimals

    def test_smiles_get_conformers_only_where_distances_are_read(self, config):
        predictor = load(config.run.path)
        assert predictor.molecules.makes_conformers == config.data.distance
        smiles = ["CCO", "c1ccccc1", "CC(N)=O"]
        first, again = (predictor.predict(smiles) for _ in range(2))
        assert first.equals(again)
        reasons = predictor.predict(["C[Si]", "not a molecule"])["reason"]
        assert "element 14" in reasons[0]
        assert reasons[1]

    def test_conformers_have_lengths_near_those_of_qm9(self, config):
        if not config.data.distance:
            pytest.skip("reads no distances")
        dataset = QM9(root=config.data.root, limit=120)
        featurizer = load(config.run.path).molecules
        for index in range(20):
            graph = featurizer.from_smiles(dataset.texts("smiles")[index])
            mine = np.sort(graph.arrays["edge.distance"])
            truth = np.sort(dataset[index].edge_attr[:, -1].numpy())
            assert len(mine) == len(truth)
            np.testing.assert_allclose(mine, truth, atol=0.12)


def molecule_of(dataset, index):
    """The molecule of a QM9 graph, with its coordinates."""
    from rdkit import Chem

    data = dataset[index]
    mol = Chem.RWMol()
    for number in data.z.tolist():
        mol.AddAtom(Chem.Atom(number))
    kinds = [Chem.BondType.SINGLE, Chem.BondType.DOUBLE]
    kinds += [Chem.BondType.TRIPLE, Chem.BondType.AROMATIC]
    for (a, b), kind in zip(
        data.edge_index.T.tolist(),
        data.edge_attr[:, :4].argmax(1).tolist(),
        strict=True,
    ):
        if a < b:
            mol.AddBond(a, b, kinds[kind])
            if kind == 3:
                mol.GetAtomWithIdx(a).SetIsAromatic(True)
                mol.GetAtomWithIdx(b).SetIsAromatic(True)
    conformer = Chem.Conformer(data.num_nodes)
    conformer.SetPositions(data.pos.double().numpy())
    mol.AddConformer(conformer)
    return mol
