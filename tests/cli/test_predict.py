"""``fullrank predict`` as a person runs it."""

import csv

import pytest

from fullrank.train import run_experiment
from train.samples import small_config


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    config = small_config(tmp_path_factory.mktemp("trained"), training={"epochs": 1})
    run_experiment(config)
    return config.folder


@pytest.fixture
def run(program):
    def command(*arguments):
        status, _, errors = program("predict", *arguments)
        return status, errors

    return command


def test_predicts_what_it_can_and_counts_the_rest(run, trained, tmp_path):
    (tmp_path / "in.csv").write_text("name,smiles\na,CCO\nb,oops\nc,CC\n")
    status, errors = run(trained, "in.csv", "-o", "out.csv")
    assert status == 0
    assert "2 of 3 predicted" in errors
    assert "1 have no prediction but a reason" in errors
    with open("out.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["name"] for row in rows] == ["a", "b", "c"]
    assert "oops" in rows[1]["reason"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["RUN", "gone.csv", "-o", "out.csv"], "gone.csv"),
        (["in.csv", "-o", "out.csv"], "run folder and an input"),
        ([".", "in.csv", "-o", "out.csv"], "no run folder"),
        (["RUN", "in.csv", "-o", "in.csv"], "is the input"),
        (["RUN", "in.csv", "-o", "out.csv", "--smiles", "x"], "no column 'x'"),
        (["RUN", "in.csv", "-o", "gone/out.csv"], "gone"),
    ],
)
def test_bad_input_is_one_sentence(run, trained, tmp_path, arguments, words):
    (tmp_path / "in.csv").write_text("smiles\nC\n")
    given = [str(trained) if word == "RUN" else word for word in arguments]
    status, errors = run(*given)
    assert status == 2
    assert words in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "out.csv").exists()
