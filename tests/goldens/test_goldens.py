"""The same ten experiments end in the same numbers, whatever is moved or renamed.

``PYTHONPATH=tests python tests/goldens/test_goldens.py`` writes `metrics.json`; a
change of it needs a reason in the commit that makes it.
"""

import hashlib
import json
from pathlib import Path

import pytest
import torch

from fullrank import load
from fullrank.nn import backend
from fullrank.train import parse, run_experiment
from goldens.configs import golden_configs

FILE = Path(__file__).with_name("metrics.json")
SMILES = ["CCO", "c1ccccc1O", "CC(=O)N"]


def machine():
    """What decides the order of sums: the processor and the versions of the kernels."""
    lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    known = dict(map(str.strip, line.split(":", 1)) for line in lines)
    parts = ("vendor_id", "cpu family", "model", "stepping", "flags")
    flags = hashlib.sha256(" ".join(known.get(p, "") for p in parts).encode())
    return f"{flags.hexdigest()[:12]}, torch {torch.__version__}"


def measure(name, values, home):
    """The final metrics of an experiment; of an ensemble its predictions too."""
    config = parse({**values, "runs": home / "runs"})
    with backend("cpu"):  # compiled loops, if somebody built them, add up otherwise
        found = run_experiment(config)
        metrics = {key: spread.values for key, spread in found.test.items()}
        if name == "ensemble":
            predicted = (
                load(config.runs / found.experiment)
                .predict(SMILES)
                .drop(columns=["similarity", "note", "reason"])
            )
            metrics["predictions"] = predicted.to_numpy().tolist()
    return metrics


@pytest.fixture(scope="module")
def configs(tmp_path_factory):
    home = tmp_path_factory.mktemp("goldens")
    return home, golden_configs(home)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch, one_thread):
    monkeypatch.setenv("FULLRANK_ROOT", str(tmp_path / "root"))


GOLDEN = json.loads(FILE.read_text()) if FILE.exists() else {"metrics": {}}


@pytest.mark.xdist_group("goldens")
@pytest.mark.parametrize("name", GOLDEN["metrics"])
def test_golden(name, configs):
    home, values = configs
    found = json.loads(json.dumps(measure(name, values[name], home)))
    known = GOLDEN["metrics"][name]
    assert found.keys() == known.keys()
    if machine() == GOLDEN["machine"]:
        assert found == known
    else:  # sums are done in another order
        for key, numbers in known.items():
            for one, other in zip(found[key], numbers, strict=True):
                assert one == pytest.approx(other, rel=1e-2, abs=1e-4)


if __name__ == "__main__":
    import os
    import tempfile

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        os.environ["FULLRANK_ROOT"] = str(home / "root")
        metrics = {
            name: measure(name, values, home)
            for name, values in golden_configs(home).items()
        }
    content = {"machine": machine(), "metrics": metrics}
    FILE.write_text(json.dumps(content, indent=1) + "\n")
