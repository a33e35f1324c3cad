import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from fullrank import load
from fullrank.data import Features, Split, from_graphs
from fullrank.errors import ConfigError, ModelError
from fullrank.train import Model, parse, run_one
from fullrank.train.model import design_model
from fullrank.train.references import fit_references, num_references
from fullrank.train.splitting import make_split
from train.samples import SMILES, small_config, untrained, write_molecules

NOTHING = np.array([], dtype=int)
REFERENCES = {"references": True}


def random_graphs(count=60, targets=2):
    """Graphs whose labels are sums over nodes, with noise and missing values."""
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(3, targets, generator=generator, dtype=torch.float64)
    made = []
    for index in range(count):
        size = int(torch.randint(2, 9, (), generator=generator))
        x = torch.randn(size, 3, generator=generator)
        edges = torch.randint(size, (2, 3 * size), generator=generator)
        noise = torch.randn(targets, generator=generator, dtype=torch.float64)
        y = 7 + (x.double() @ weights).sum(0) + 0.1 * noise
        if index % 4 == 0:
            y[-1] = torch.nan
        made.append(Data(x, edges, y=y[None]))
    return from_graphs(made, task="regression")


def molecules(tmp_path, targets=("logp",), **sections):
    """A configuration with references, and enough rows to fit them."""
    if not (tmp_path / "molecules.csv").exists():
        write_molecules(tmp_path / "molecules.csv", repeat=3)
    training = {**REFERENCES, **sections.pop("training", {})}
    return small_config(tmp_path, targets, training=training, **sections)


def numpy_fit(rows, labels):
    """Least squares of minimal norm with a constant, by numpy."""
    known = ~np.isnan(labels)
    design = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    found = np.linalg.lstsq(design[known], labels[known], rcond=1e-10)[0]
    return found, labels - design @ found


def one_hot_sums(dataset):
    """How often each category of each node feature occurs in each graph."""
    sizes = dataset.node_features.cardinalities
    rows = np.zeros((len(dataset), sum(sizes)))
    for graph in range(len(dataset)):
        for column, first in enumerate(np.cumsum([0, *sizes[:-1]])):
            for category in dataset[graph].x[:, column].tolist():
                rows[graph, first + category] += 1
    return rows


def test_numbers_are_fitted_as_by_numpy():
    dataset, train = random_graphs(), np.arange(5, 55)
    references, left = fit_references(dataset, train)
    sums = np.stack([dataset[int(i)].x.double().sum(0).numpy() for i in train])
    for target in range(2):
        labels = np.asarray(dataset.labels)[train, target]
        found, rest = numpy_fit(sums, labels)
        np.testing.assert_allclose(references[:, target], found[:-1], rtol=1e-9)
        np.testing.assert_allclose(left[:, target] - found[-1], rest, atol=1e-9)


def test_categories_are_fitted_as_by_numpy(tmp_path):
    config = molecules(tmp_path, ("logp", "weight"))
    dataset = config.load_data()
    split = make_split(config, dataset)
    spec = design_model(config, dataset, split)
    rows = one_hot_sums(dataset)[split.train]
    assert np.shape(spec.references) == (2, num_references(dataset.node_features))
    labels = dataset.labels[split.train, 0].astype(np.float64)
    found, rest = numpy_fit(rows, labels)
    seen = rows.any(axis=0)
    ours = np.array(spec.references[0])
    np.testing.assert_allclose(ours[seen], found[:-1][seen], atol=1e-7)
    assert spec.mean[0] == pytest.approx(found[-1], abs=1e-7)
    assert spec.std[0] == pytest.approx(rest.std(), rel=1e-7)
    first = 0
    for size in dataset.node_features.cardinalities:
        column = slice(first, first + size)
        mean = np.average(ours[column], weights=rows.sum(axis=0)[column])
        np.testing.assert_allclose(ours[column][~seen[column]], mean)
        first += size


def test_an_unseen_category_does_not_lose_a_share_of_each_atom(tmp_path):
    config = molecules(tmp_path, ("weight",))
    predictor = load(untrained(config, tmp_path / "model.safetensors"))
    for parameter in predictor.models[0].network.head[-1].parameters():
        torch.nn.init.zeros_(parameter)
    flat, chiral = predictor.predict(["CC(O)CC", "C[C@H](O)CC"])["predicted_weight"]
    assert chiral == pytest.approx(flat, rel=1e-3)


def test_the_weight_of_a_molecule_is_the_sum_of_its_references(tmp_path):
    """It is linear: a network that gives 0 predicts it exactly."""
    config = molecules(tmp_path, ("weight",))
    predictor = load(untrained(config, tmp_path / "model.safetensors"))
    (model,) = predictor.models
    assert model.spec.std == (1.0,)
    for parameter in model.network.head[-1].parameters():
        torch.nn.init.zeros_(parameter)
    dataset = config.load_data()
    train = make_split(config, dataset).train
    found = predictor.predict(dataset.texts("smiles")[i] for i in train.tolist())
    truth = dataset.labels[train, 0]
    np.testing.assert_allclose(found["predicted_weight"], truth, rtol=1e-6)


def test_outputs_are_targets_without_references_in_units_of_what_they_leave(tmp_path):
    config = molecules(tmp_path)
    dataset = config.load_data()
    split = make_split(config, dataset)
    model = Model(design_model(config, dataset, split)).eval()
    batch = dataset.graphs.batch(split.train)
    output = model(model.ready(batch.clone()))
    assert output.dtype == torch.float64
    sums = one_hot_sums(dataset)[split.train] @ np.array(model.spec.references).T
    network = model.network(batch).detach().double().numpy()
    truth = network * model.spec.std + model.spec.mean + sums
    found = model.predictions(output).detach().numpy()
    np.testing.assert_allclose(found, truth, rtol=1e-9, atol=1e-9)
    normalized = model.normalize(batch.y.double(), torch.float64).numpy()
    normalized = normalized - sums / np.array(model.spec.std)
    assert normalized.mean() == pytest.approx(0, abs=1e-6)
    assert normalized.std() == pytest.approx(1, rel=1e-6)


def test_a_run_with_references_predicts_calibrates_and_loads(tmp_path):
    config = molecules(tmp_path, training={"epochs": 2}, split={"calibration": 0.2})
    run = run_one(config)
    predictor = load(run.path)
    spec = predictor.spec
    assert spec.references
    dataset = config.load_data()
    found = predictor.predict(dataset.texts("smiles")[:], interval=90)
    errors = np.abs(found["predicted_logp"] - dataset.labels[:, 0])
    test = run.split.test
    assert errors[test].mean() == pytest.approx(run.result.test["mae"], rel=1e-5)
    width = (found["predicted_logp_high"] - found["predicted_logp_low"]) / 2
    within = (errors[test] <= width[test] + 1e-9).mean()
    assert within == pytest.approx(run.result.test["coverage_90"])


def test_contributions_of_atoms_include_their_references(tmp_path):
    config = molecules(tmp_path, ("weight", "logp"))
    predictor = load(untrained(config, tmp_path / "model.safetensors"))
    (model,) = predictor.models
    model.network.double()
    for target in ("weight", "logp"):
        found = predictor.explain("CCO", target)
        value = predictor.predict(["CCO"])[f"predicted_{target}"][0]
        assert found.value == pytest.approx(value, rel=1e-6)
        assert found.total == pytest.approx(found.value - found.base, rel=1e-3)
    weights = predictor.explain("CCO", "weight").atoms
    assert np.all(weights > 10)


def test_references_are_exported(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    from fullrank.data import PackedGraphs
    from fullrank.train.export import export_onnx

    predictor = load(untrained(molecules(tmp_path), tmp_path / "model.safetensors"))
    export_onnx(predictor, tmp_path / "model.onnx")
    featurizer = predictor.molecules
    graphs = [featurizer.from_smiles(text) for text in SMILES]
    batch = PackedGraphs.from_graphs(graphs, fields=featurizer.fields).batch(
        range(len(graphs))
    )
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    inputs = {given.name: batch[given.name].numpy() for given in session.get_inputs()}
    found = session.run(None, inputs)[0][:, 0]
    truth = predictor.predict(SMILES)["predicted_logp"]
    np.testing.assert_allclose(found, truth, rtol=1e-5, atol=1e-5)


def test_references_that_cannot_be_fitted(tmp_path):
    config = molecules(tmp_path, ("ring",), task="binary")
    dataset = config.load_data()
    with pytest.raises(ConfigError, match="binary"):
        design_model(config, dataset, make_split(config, dataset))
    graphs = random_graphs()
    few = Split(np.arange(5), NOTHING, NOTHING)
    config = parse({"data": {"name": "qm9"}, "training": REFERENCES})
    with pytest.raises(ConfigError, match="4 .* 5 .*'y0'"):
        design_model(config, graphs, few)
    model = {"name": "awe"}
    with pytest.raises(ConfigError, match="awe"):
        parse({"data": {"name": "MUTAG"}, "model": model, "training": REFERENCES})


@pytest.mark.parametrize(
    "change",
    [
        {"references": ((1.0, 2.0, 3.0),)},
        {"references": ((1.0,), (1.0,))},
        {"references": ((1.0, 2.0, 3.0), (1.0, 2.0))},
        {"node_features": Features("categorical", ("a",), (3,))},
        {"node_features": Features()},
    ],
)
def test_references_that_do_not_fit_are_refused(tmp_path, change):
    config = parse({"data": {"name": "qm9"}, "training": REFERENCES})
    split = Split(np.arange(50), NOTHING, NOTHING)
    model = Model(design_model(config, random_graphs(), split))
    model.save(tmp_path / "model.safetensors")
    assert Model.load(tmp_path / "model.safetensors").spec == model.spec
    model.spec = model.spec.model_copy(update=change)
    model.save(tmp_path / "model.safetensors")
    with pytest.raises(ModelError):
        Model.load(tmp_path / "model.safetensors")
