"""``fullrank models``, and names of models in other commands, as a person uses them."""

import csv
import json

import pytest

from fullrank.pretrained import model_file, names
from fullrank.pretrained.cards import card
from fullrank.train import Model


def test_list_and_show(program):
    status, output, _ = program("models", "list")
    assert status == 0
    for name in names():
        assert card(name).title in output
    status, output, _ = program("models", "show", "qm9")
    assert status == 0
    assert output.startswith("# qm9: ")
    assert card("qm9").measured.commit in output
    _, output, _ = program("models", "show", "bbb", "--json")
    assert json.loads(output)["measured"]["sha256"] == card("bbb").measured.sha256
    _, output, _ = program("models", "show", "hiv", "--config")
    assert "molhiv.csv" in output


def test_get_copies_the_file_and_overwrites_nothing(program, tmp_path):
    status, output, _ = program("models", "get", "bbb")
    assert (status, output.strip()) == (0, "bbb.safetensors")
    copied = Model.load(tmp_path / "bbb.safetensors")
    assert copied.digest == Model.load(model_file("bbb")).digest
    status, _, errors = program("models", "get", "bbb")
    assert status == 2
    assert "bbb.safetensors" in errors
    assert program("models", "get", "bbb", "-o", "other.safetensors")[0] == 0


@pytest.mark.parametrize(
    "arguments", [("models", "show", "qm8"), ("predict", "qm8", "in.csv")]
)
def test_an_unknown_name(program, tmp_path, arguments):
    (tmp_path / "in.csv").write_text("smiles\nCCO\n")
    status, _, errors = program(*arguments)
    assert status == 2
    assert "there is no model 'qm8' (did you mean 'qm9'?)" in errors
    assert ", ".join(names()) in errors


def test_predict_by_name_needs_nothing_else(program, tmp_path, monkeypatch):
    def offline(*_):
        raise AssertionError("something was downloaded")

    monkeypatch.setattr("socket.socket.connect", offline)
    (tmp_path / "molecules.csv").write_text("id,smiles\n1,CCO\n2,c1ccccc1\n3,CC=O\n")
    status, _, errors = program("predict", "qm9", "molecules.csv")
    assert status == 0
    assert "3 of 3 predicted: molecules.predicted.csv" in errors
    with open("molecules.predicted.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["id"] for row in rows] == ["1", "2", "3"]
    assert float(rows[0]["predicted_U0"]) == pytest.approx(-155.0, abs=0.1)
    assert float(rows[1]["predicted_U0"]) == pytest.approx(-232.2, abs=0.1)


def test_names_in_other_commands(program, tmp_path):
    (tmp_path / "in.csv").write_text("smiles,logS\nCCO,1.1\nCCCCCC,-3.8\nCC=O,0.5\n")
    done = [
        program("explain", "solubility", "in.csv", "-o", "out.html", "-q"),
        program("embed", "solubility", "in.csv", "-o", "out.npy", "-q"),
        program("evaluate", "solubility", "--data", "in.csv", "--resamples", "20"),
        program("inspect", "solubility", "--data", "in.csv", "--graphs", "3"),
    ]
    assert [status for status, _, _ in done] == [0] * 4
    status, _, errors = program("inspect", "solubility")
    assert status == 2
    assert "'solubility'" in errors


def test_a_model_is_fine_tuned_by_its_name(program, tmp_path):
    from train.samples import write_molecules

    write_molecules(tmp_path / "molecules.csv")
    options = ("--target", "logp", "--from", "solubility", "--no-page", "-q")
    fast = ("--set", "training.epochs=1", "--set", "data.root=root")
    status, output, _ = program("train", "molecules.csv", *options, *fast)
    assert status == 0
    assert "runs" in output
