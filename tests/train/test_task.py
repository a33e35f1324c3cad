import socket
import subprocess
import sys

import numpy as np
import pytest
import torch

from fullrank.train import RunFolder
from train import gradients
from train.samples import environment, folder_of, small_config, start


def gradient(config, folder):
    """The gradient of a run's first step, from as many processes as it wants."""
    folder.mkdir()
    file, output = folder / "config.yaml", folder / "gradient.pt"
    file.write_text(config.text())
    if config.compute.devices == 1:
        gradients.main(file, output)
    else:
        command = [sys.executable, gradients.__file__, file, output]
        subprocess.run(command, env=environment(), check=True, capture_output=True)
    return torch.load(output, weights_only=True)


@pytest.mark.parametrize(
    ("task", "targets"),
    [
        ("binary", ["ring", "hetero"]),
        pytest.param("multiclass", ["kind"], marks=pytest.mark.slow),
    ],
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


def test_whole_run_on_two_processes_is_that_of_one(tmp_path, monkeypatch):
    """Losses and measures of every epoch, gathered from both; one writes the folder.

    56 training graphs make batches that both can share evenly.
    """
    training = {"precision": "64", "batch_size": 28, "epochs": 3}
    config = small_config(tmp_path, ["ring", "hetero"], "binary", training=training)
    file = tmp_path / "config.yaml"
    file.write_text(config.text())

    def train(name, *options):
        return start("train", file, "--runs", tmp_path / name, *options)

    def machines(name):
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", str(free_port()))
        for rank in ("1", "0"):
            monkeypatch.setenv("NODE_RANK", rank)
            yield train(name, "--nodes", 2)

    started = {
        "one": [train("one")],
        "devices": [train("devices", "--devices", 2)],
        "machines": list(machines("machines")),
    }
    found = {}
    for name, programs in started.items():
        ended = [program.communicate(timeout=300) for program in programs]
        assert [program.returncode for program in programs] == [0] * len(ended), ended
        assert "".join(output for output, _ in ended).count("accuracy") == 1
        run = RunFolder(tmp_path / name / folder_of(config).id)
        rows = [list(row.values()) for row in run.curve.rows]
        found[name] = rows, run.result.test
    for name in ("devices", "machines"):
        np.testing.assert_allclose(found[name][0], found["one"][0], rtol=1e-9)
        assert found[name][1] == pytest.approx(found["one"][1], rel=1e-9)


def free_port():
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return any_port.getsockname()[1]
