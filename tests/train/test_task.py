import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from fullrank.train.files import read_json
from fullrank.train.journal import read_rows
from fullrank.train.saved import load_task
from train.samples import call, small_config


def gradient(config, folder):
    """The gradient of a run's first step, from as many processes as it wants."""
    folder.mkdir()
    file = folder / "config.yaml"
    file.write_text(config.text())
    script = Path(__file__).with_name("gradients.py")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, script, file, folder / "gradient.pt"]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return torch.load(folder / "gradient.pt", weights_only=True)


@pytest.mark.parametrize(
    ("task", "targets"), [("binary", ["ring", "hetero"]), ("multiclass", ["kind"])]
)
def test_two_processes_have_the_gradient_of_one(tmp_path, task, targets):
    """Also when one has more labels, or heavier classes, than the other."""
    weights = {"class_weights": "balanced", "precision": "64", "batch_size": 32}
    one = small_config(tmp_path, targets, task, training=weights)
    two = one.changed(compute={"devices": 2, "accelerator": "cpu"})
    alone = gradient(one, tmp_path / "one")
    together = gradient(two, tmp_path / "two")
    assert max(float(g.abs().max()) for g in alone.values()) > 1e-3
    for name, truth in alone.items():
        torch.testing.assert_close(together[name], truth, rtol=1e-10, atol=1e-12)


def test_whole_run_on_two_processes_is_that_of_one(tmp_path):
    """Losses and measures of every epoch, gathered from both; one writes the folder.

    56 training graphs make batches that both can share evenly.
    """
    training = {"precision": "64", "batch_size": 28, "epochs": 3}
    config = small_config(tmp_path, ["ring", "hetero"], "binary", training=training)
    file = tmp_path / "config.yaml"
    file.write_text(config.text())
    for devices in (1, 2):
        runs = tmp_path / f"on{devices}"
        status, output, errors = call(
            "train", file, "--devices", devices, "--runs", runs
        )
        assert status == 0, errors
        assert output.count("accuracy") == 1
    tables = []
    for devices in (1, 2):
        rows = read_rows(tmp_path / f"on{devices}" / config.id / "metrics.csv")
        tables.append([[float(value) for value in row.values()] for row in rows])
    np.testing.assert_allclose(tables[1], tables[0], rtol=1e-9)
    results = [
        read_json(tmp_path / f"on{d}" / config.id / "result.json")["test"]
        for d in (1, 2)
    ]
    assert results[1] == pytest.approx(results[0], rel=1e-9)


def test_loaded_model_without_data_does_not_measure(tmp_path):
    from fullrank.train import run_one
    from fullrank.train.sources import load_dataset

    config = small_config(tmp_path, training={"epochs": 1})
    run_one(config)
    _, task = load_task(config.folder)
    loader = load_dataset(config.data).loader()
    with pytest.raises(ValueError, match="has no data set"):
        task.measure_part("test", loader)
