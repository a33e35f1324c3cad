import csv
import math

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, mean_absolute_error, r2_score, roc_auc_score

from fullrank import load
from fullrank.errors import ConfigError, DataError
from fullrank.train.evaluate_table import evaluate_table
from train.samples import SMILES, small_config, untrained, write_molecules


def model_and_table(tmp_path, targets=("logp",), task="regression"):
    config = small_config(tmp_path, targets, task)
    model = load(untrained(config, tmp_path / "model.safetensors"))
    table = tmp_path / "other.csv"
    with write_molecules(tmp_path / "all.csv").open() as whole, table.open("w") as part:
        part.writelines([*list(whole)[:1:-1], "oops,1,1,1,1,chain\n"])
    text = (tmp_path / "all.csv").read_text().splitlines()[0]
    table.write_text(f"{text}\n{table.read_text()}")
    with table.open() as stream:
        rows = list(csv.DictReader(stream))[:-1]
    return model, table, rows


def test_measures_are_those_of_scikit_learn(tmp_path):
    model, table, rows = model_and_table(tmp_path)
    found = evaluate_table(model, table, root=tmp_path, resamples=200)
    predicted = model.predict([row["smiles"] for row in rows])["predicted_logp"]
    labels = np.array([float(row["logp"]) for row in rows])
    assert found["mae"].value == pytest.approx(mean_absolute_error(labels, predicted))
    assert found["r2"].value == pytest.approx(r2_score(labels, predicted))
    # For a mean, the bootstrap agrees with the normal approximation.
    errors = np.abs(labels - predicted)
    half = 1.96 * errors.std() / math.sqrt(len(errors))
    assert found["mae"].low == pytest.approx(errors.mean() - half, rel=0.1)
    assert found["mae"].high == pytest.approx(errors.mean() + half, rel=0.1)
    again = evaluate_table(model, table, root=tmp_path, resamples=200)
    assert again == found


def test_missing_labels_do_not_count(tmp_path):
    model, table, rows = model_and_table(tmp_path, ["ring", "hetero"], "binary")
    found = evaluate_table(model, table, root=tmp_path, resamples=50)
    predicted = model.predict([row["smiles"] for row in rows])
    areas = []
    for name in ("ring", "hetero"):
        known = [row[name] != "" for row in rows]
        labels = [int(row[name]) for row in rows if row[name] != ""]
        areas.append(roc_auc_score(labels, predicted[f"probability_{name}"][known]))
    assert found["rocauc"].value == pytest.approx(np.mean(areas), abs=1e-6)
    assert found["rocauc"].low <= found["rocauc"].value <= found["rocauc"].high


def test_names_of_labels_are_those_of_the_model(tmp_path):
    with write_molecules(tmp_path / "plain.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    named = [f"{row['smiles']},{['chain', 'cycle'][int(row['ring'])]}" for row in rows]
    (tmp_path / "molecules.csv").write_text("\n".join(["smiles,ring", *named]))
    models = []
    for labels in (["chain", "cycle"], ["cycle", "chain"]):
        config = small_config(tmp_path, ["ring"], "binary", data={"labels": labels})
        models.append(untrained(config, tmp_path / f"{labels[0]}.safetensors"))
    found = evaluate_table(load(models[0]), tmp_path / "molecules.csv", root=tmp_path)
    predicted = load(models[0]).predict([row["smiles"] for row in rows])
    area = roc_auc_score(
        [int(row["ring"]) for row in rows], predicted["probability_ring"]
    )
    assert found["rocauc"].value == pytest.approx(area, abs=1e-6)
    with pytest.raises(ConfigError):  # one predicts the opposite of the other
        load(models)


def test_classes_are_those_of_the_model(tmp_path):
    """A table without one of the classes numbers the others differently."""
    model, table, rows = model_and_table(tmp_path, ["kind"], "multiclass")
    lines = table.read_text().splitlines()
    kept = [line for line in lines if not line.endswith("aromatic")]
    table.write_text("\n".join(kept) + "\n")
    rows = [row for row in rows if row["kind"] != "aromatic"]
    found = evaluate_table(model, table, root=tmp_path, resamples=20)
    predicted = model.predict([row["smiles"] for row in rows])[model.columns]
    names = predicted.to_numpy().argmax(1)
    truth = [model.spec.classes.index(row["kind"]) for row in rows]
    assert found["accuracy"].value == pytest.approx(accuracy_score(truth, names))
    table.write_text(table.read_text() + "CCC,1,1,0,0,spiral\n")
    with pytest.raises(DataError, match="'spiral'"):
        evaluate_table(model, table, root=tmp_path)


def test_a_table_without_the_target(tmp_path):
    model, table, _ = model_and_table(tmp_path)
    table.write_text("smiles\n" + "\n".join(SMILES))
    with pytest.raises(DataError, match="'logp'"):
        evaluate_table(model, table, root=tmp_path)
