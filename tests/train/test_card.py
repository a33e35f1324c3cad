import json
import shutil

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error

from fullrank import load
from fullrank.errors import ConfigError
from fullrank.train import Model, run_one
from fullrank.train.card import measure_run, write_card
from train.samples import small_config, write_molecules

ABOUT = {
    "title": "Two numbers",
    "data": "Some molecules",
    "licence": "none",
    "split": "Random",
    "settings": "Guessed",
    "applicability": "None",
    "commands": ["fullrank train it.yaml"],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    write_molecules(folder / "molecules.csv", repeat=3)
    targets = ("logp", "weight")
    training = {"epochs": 1, "references": True}
    config = small_config(folder, targets, training=training, split={"calibration": 20})
    done = run_one(config)
    _set_commit(done, "0" * 40)
    return done


def _set_commit(run, commit):
    file = run.path / "environment.json"
    content = json.loads(file.read_text()) | {"commit": commit}
    file.write_text(json.dumps(content))


def test_a_card_is_completed_by_its_run(run, tmp_path):
    (tmp_path / "it.json").write_text(json.dumps(ABOUT))
    card = write_card("it", run, tmp_path, resamples=20)
    assert json.loads((tmp_path / "it.json").read_text())["title"] == "Two numbers"
    measured = card.measured
    predictor = load(tmp_path / "it.safetensors")
    dataset, test = run.config.load_data(), run.split.test
    smiles = [dataset.texts("smiles")[int(i)] for i in test]
    found = predictor.predict(smiles)
    for column, name in enumerate(("logp", "weight")):
        truth = dataset.labels[test, column]
        error = mean_absolute_error(truth, found[f"predicted_{name}"])
        assert measured.scores[f"mae/{name}"].value == pytest.approx(error, rel=1e-4)
    assert measured.scores["coverage_90"].value == run.result.test["coverage_90"]
    widths = [output.half_width for output in measured.outputs]
    np.testing.assert_allclose(predictor.half_widths(90), widths)
    # Equal molecules stay together, so one more than asked for.
    assert (measured.calibration, measured.graphs["test"]) == (21, len(test))
    # The weight is linear: its references alone are exact where all elements are known.
    assert measured.linear["mae/weight"] <= measured.scores["mae/weight"].value


def test_a_run_with_changes_that_are_not_committed_has_no_card(run, tmp_path):
    copy = type(run)(shutil.copytree(run.path, tmp_path / run.id))
    for commit in ("0" * 40 + "-dirty", None):
        _set_commit(copy, commit)
        with pytest.raises(ConfigError):
            measure_run(copy)
    assert Model.load(copy.model_file).spec.run == run.id
