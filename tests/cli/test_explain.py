"""``fullrank explain``, ``embed`` and ``export`` as a person runs them."""

import numpy as np
import pytest

from fullrank.cli.main import main
from train.samples import SMILES, small_config, untrained


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    return untrained(small_config(folder), folder / "model.safetensors")


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "in.csv").write_text("\n".join(["smiles", *SMILES[:5], "C1CC"]) + "\n")

    def command(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(list(map(str, arguments)))
        return ended.value.code or 0, capsys.readouterr().err

    return command


def test_a_page_of_drawings(run, model, tmp_path):
    status, errors = run("explain", model, "in.csv", "-o", "page.html")
    assert status == 0
    assert "5 of 6 explained" in errors
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg version") == 5
    assert "C1CC" in page
    assert str(tmp_path) not in page


def test_vectors(run, model, tmp_path):
    status, errors = run("embed", model, "in.csv", "-o", "out.npy")
    assert (status, np.load(tmp_path / "out.npy").shape) == (0, (6, 16))
    assert "5 of 6 embedded" in errors


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["explain", "MODEL", "in.csv", "--target", "logS"], "'logS'"),
        (["explain", "MODEL", "in.csv", "--smiles", "x"], "'x'"),
        (["embed", "MODEL", "in.csv", "-o", "out.csv"], "out.csv"),
        (["export", "MODEL", "model.pt"], ".onnx"),
        (
            ["predict", "MODEL", "in.csv", "-o", "o.csv", "--interval", "90"],
            "calibration",
        ),
        (["predict", "MODEL", "in.csv", "-o", "o.csv", "--interval", "100"], "100"),
    ],
)
def test_bad_input_is_one_sentence(run, model, tmp_path, arguments, word):
    given = [str(model) if word == "MODEL" else word for word in arguments]
    status, errors = run(*given)
    assert status == 2
    assert word in errors
    assert "Traceback" not in errors
    assert {file.name for file in tmp_path.iterdir()} == {"in.csv"}
