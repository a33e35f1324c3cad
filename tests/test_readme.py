"""The README's code runs as it stands, from the first block to the last."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fullrank.train.config import parse
from train.samples import SMILES

README = Path(__file__).parent.parent / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def test_the_code_runs():
    found = blocks("python")
    assert len(found) >= 4
    exec(compile("\n".join(found), str(README), "exec"), {})


def test_the_configuration_is_one():
    (block,) = blocks("yaml")
    config = parse(yaml.safe_load(block))
    assert config.model.conv == "expc"
    assert config.training.epochs == 50


@pytest.mark.slow
def test_a_table_becomes_predictions(tmp_path):
    (snippet,) = [block for block in blocks("bash") if "run=$(" in block]
    for name, header in (("molecules.csv", "logS"), ("new.csv", "id")):
        with open(tmp_path / name, "w", newline="") as stream:
            rows = [[smiles, len(smiles)] for smiles in dict.fromkeys(SMILES)]
            csv.writer(stream).writerows([["smiles", header], *rows])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-euc", snippet],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        check=True,
        timeout=300,
    )
    with open(tmp_path / "predicted.csv", newline="") as stream:
        predicted = [float(row["predicted_logS"]) for row in csv.DictReader(stream)]
    lengths = [len(smiles) for smiles in dict.fromkeys(SMILES)]
    assert predicted == pytest.approx(lengths, abs=0.5 * max(lengths))


def test_the_links_lead_somewhere():
    for name in re.findall(r"\]\((docs/[^)#]+)", README.read_text()):
        assert (README.parent / name).exists(), name
