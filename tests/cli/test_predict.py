"""``fullrank predict`` as a person runs it."""

import csv

import pytest

from fullrank.train import run_one
from train.samples import small_config, write_molecules


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    config = small_config(tmp_path_factory.mktemp("trained"), training={"epochs": 1})
    return run_one(config).path


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
    assert "1 not predicted" in errors
    with open("out.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["name"] for row in rows] == ["a", "b", "c"]
    assert "oops" in rows[1]["reason"]


def test_reads_the_column_of_the_training(run, tmp_path):
    text = write_molecules(tmp_path / "molecules.csv").read_text()
    (tmp_path / "molecules.csv").write_text(text.replace("smiles", "SMI", 1))
    config = small_config(tmp_path, data={"smiles": "SMI"}, training={"epochs": 1})
    folder = run_one(config).path
    (tmp_path / "in.csv").write_text("SMI,other\nCCO,CC\n")
    assert run(folder, "in.csv", "-o", "out.csv")[0] == 0
    run(folder, "in.csv", "-o", "other.csv", "--smiles", "other")
    written = [(tmp_path / name).read_text() for name in ("out.csv", "other.csv")]
    assert written[0] != written[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["RUN", "gone.csv", "-o", "out.csv"], "gone.csv"),
        (["RUN", "latin.csv", "-o", "out.csv"], "latin.csv is not UTF-8"),
        (["in.csv", "-o", "out.csv"], "and an input"),
        ([".", "in.csv", "-o", "out.csv"], "not a run folder"),
        (["RUN", "in.csv", "-o", "in.csv"], "is the input"),
        (["RUN", "in.csv", "-o", "out.csv", "--smiles", "x"], "no column 'x'"),
    ],
)
def test_bad_input_is_one_sentence(run, trained, tmp_path, arguments, words):
    (tmp_path / "in.csv").write_text("smiles\nC\n")
    (tmp_path / "latin.csv").write_bytes(b"smiles,name\nC,\xe9\n")
    given = [str(trained) if word == "RUN" else word for word in arguments]
    status, errors = run(*given)
    assert status == 2
    assert words in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "out.csv").exists()
