import numpy as np
import pytest

from fullrank import load
from fullrank.errors import ConfigError, DataError
from fullrank.train import Model, evaluate_run, parse, run_experiment, run_one
from fullrank.train.calibration import conformal_quantile
from fullrank.train.evaluate import load_model
from train.samples import SMILES, folder_of, small_config


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """An ensemble of two models of logp with 20 calibration molecules."""
    config = small_config(
        tmp_path_factory.mktemp("calibrated"),
        split={"calibration": 20},
        training={"epochs": 2},
        seeds=[0, 1],
    )
    experiment = run_experiment(config).experiment
    runs = [folder_of(config.changed(seeds=[seed])) for seed in (0, 1)]
    return config, config.runs / experiment, runs


def test_the_calibration_part_is_apart_from_all_others(calibrated):
    _, _, (first, second) = calibrated
    split = first.split
    assert len(split.calibration) == 20
    parts = [split.train, split.valid, split.test, split.calibration]
    assert len(np.unique(np.concatenate(parts))) == sum(map(len, parts))
    assert np.array_equal(split.calibration, second.split.calibration)


def test_intervals_of_one_and_of_several_models(calibrated):
    config, experiment, (run, _) = calibrated
    dataset = config.load_data()
    chosen = run.split.calibration
    smiles = [SMILES[i] for i in chosen]
    labels = dataset.labels[chosen, 0]
    for models in (run.path, experiment):
        found = load(models).predict([*SMILES, "not"], interval=80)
        assert found.iloc[-1].drop("reason").isna().all()
        found = found[:-1]
        mean = found["predicted_logp"]
        errors = np.abs(load(models).predict(smiles)["predicted_logp"] - labels)
        width = conformal_quantile(errors.to_numpy(), 0.8)
        np.testing.assert_allclose(mean - found["predicted_logp_low"], width, rtol=1e-5)
        np.testing.assert_allclose(
            found["predicted_logp_high"] - mean, width, rtol=1e-5
        )


def test_coverage_of_the_test_part_is_recorded(calibrated):
    config, _, (run, _) = calibrated
    test = run.split.test
    found = load(run.path).predict([SMILES[i] for i in test], interval=90)
    labels = config.load_data().labels[test, 0]
    inside = found["predicted_logp_low"] <= labels
    inside &= labels <= found["predicted_logp_high"]
    assert run.result.test["coverage_90"] == pytest.approx(inside.mean())
    assert load_model(run).spec.scores["test"]["coverage_90"] == inside.mean()
    assert evaluate_run(run)["mae"] == pytest.approx(run.result.test["mae"])


def test_similarity_and_note(calibrated):
    _, _, (run, _) = calibrated
    known = SMILES[run.split.train[0]]
    found = load(run.path).predict([known, "C[Si](C)(C)C", "C" * 60])
    assert found["similarity"][0] == 1
    assert (found["similarity"][1:] < 0.7).all()
    assert found["note"].isna().tolist() == [True, False, False]
    assert "Si" in found["note"][1]
    assert "60" in found["note"][2]


def test_a_model_without_calibration_has_no_intervals(tmp_path, calibrated):
    config = small_config(tmp_path, training={"epochs": 1, "similarity": False})
    run = run_one(config)
    predictor = load(run.path)
    with pytest.raises(ConfigError):
        predictor.predict(["CCO"], interval=90)
    assert "similarity" not in predictor.predict(["CCO"])
    assert "fingerprints" not in Model.load(run.model_file).kept
    # Nor has an ensemble of models that were calibrated on different molecules.
    other = small_config(
        tmp_path, split={"calibration": 20, "seed": 5}, training={"epochs": 1}
    )
    mixed = load([calibrated[2][0].path, run_one(other).path])
    with pytest.raises(ConfigError):
        mixed.predict(["CCO"], interval=90)


@pytest.mark.parametrize(
    ("target", "task"), [("ring", "binary"), ("kind", "multiclass")]
)
def test_probabilities_of_classes_are_calibrated(tmp_path, target, task):
    config = small_config(
        tmp_path,
        [target],
        task,
        split={"calibration": 25},
        training={"epochs": 3, "batch_size": 8},
    )
    run = run_one(config)
    model = load_model(run)
    predictor = load(run.path)
    raw = model.predictions(model(model.ready(config.load_data().graphs.batch([0]))))
    found = predictor.predict([SMILES[0]])[predictor.columns].to_numpy()
    truth = predictor.calibration.calibrated(raw.detach().double()).numpy()
    np.testing.assert_allclose(found, truth, rtol=1e-4)
    assert not np.allclose(found, raw.detach().numpy(), rtol=1e-3)
    assert {"log_loss", "calibrated_log_loss"} <= run.result.test.keys()


def test_too_many_calibration_graphs_are_refused(tmp_path):
    with pytest.raises(DataError, match="500"):
        run_one(small_config(tmp_path, split={"calibration": 500}))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_coverage_on_qm9(tmp_path):
    """90% ± 3 points, with 2,000 calibration and 2,000 test molecules."""
    config = parse(
        {
            "data": {"name": "qm9", "targets": ["gap", "mu"], "limit": 20_000},
            "split": {"calibration": 2000},
            "model": {"layers": 2, "hidden": 16},
            "training": {"epochs": 2, "batch_size": 256},
            "runs": str(tmp_path / "runs"),
        }
    )
    run = run_one(config)
    assert len(run.split.calibration) == len(run.split.test) == 2000
    assert run.result.test["coverage_90"] == pytest.approx(0.9, abs=0.03)
