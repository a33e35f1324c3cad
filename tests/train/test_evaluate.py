import numpy as np
import pytest

from fullrank.errors import ConfigError, RunError
from fullrank.train import evaluate_run, run_one
from goldens.configs import write_graphs
from train.samples import small_config


def test_evaluation_repeats_the_result(tmp_path):
    run = run_one(small_config(tmp_path))
    for part in ("train", "valid", "test"):
        found = evaluate_run(run, part)
        # The training part is also measured while the weights change.
        known = run.result.train_eval if part == "train" else getattr(run.result, part)
        assert found == pytest.approx(known, rel=1e-6)
    assert run.result.train.keys() == run.result.train_eval.keys()
    assert run.result.train != run.result.train_eval
    with pytest.raises(ConfigError, match="'all'"):
        evaluate_run(run, "all")


@pytest.mark.parametrize("change", ["sorted", "longer", "shorter", "relabelled"])
def test_a_table_that_changed_is_refused(tmp_path, change):
    """Its split would mean other molecules, among them some that it was trained on."""
    run = run_one(small_config(tmp_path, training={"epochs": 1}))
    table = tmp_path / "molecules.csv"
    header, *rows = table.read_text().splitlines()
    changed = {
        "sorted": sorted(rows),
        "longer": [*rows, rows[0].replace("C,", "CCCCCCCC,", 1)],
        "shorter": rows[:-1],
        "relabelled": [rows[0].replace("0.6", "0.7"), *rows[1:]],
    }[change]
    table.write_text("\n".join([header, *changed]) + "\n")
    with pytest.raises(RunError) as error:
        evaluate_run(run)
    count = {"longer": "71 graphs and has 72", "shorter": "71 graphs and has 70"}
    assert count.get(change, "its 71 graphs") in str(error.value)
    table.write_text("\n".join([header, *rows]) + "\n")
    assert np.isfinite(evaluate_run(run)["mae"])


def test_a_folder_of_graphs_that_changed_is_refused(tmp_path):
    graphs = write_graphs(tmp_path / "chords", 30)
    base = {"name": str(graphs)}
    config = small_config(
        tmp_path, data=base, split={"kind": "random"}, training={"epochs": 1}
    )
    run = run_one(config)
    evaluate_run(run)
    labels = graphs / "chords_graph_labels.txt"
    lines = labels.read_text().split()
    labels.write_text("\n".join(reversed(lines)) + "\n")
    with pytest.raises(RunError):
        evaluate_run(run)


@pytest.mark.parametrize(
    ("target", "task"), [("kind", "multiclass"), ("ring", "binary")]
)
def test_weighted_classes_in_double_precision(tmp_path, target, task):
    training = {"epochs": 1, "precision": "64", "class_weights": "balanced"}
    config = small_config(tmp_path, [target], task, training=training)
    run = run_one(config)
    assert evaluate_run(run) == pytest.approx(run.result.test, abs=1e-12)
