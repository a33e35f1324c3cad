"""Predictions on a Ray cluster, whose two nodes are on this machine."""

import os
import sys

import numpy as np
import pytest

from fullrank import load
from fullrank.errors import ConfigError, RunError
from fullrank.train.predict_file import FileOptions, predict_file
from fullrank.train.predict_on_ray import predict_on_ray
from train.samples import SMILES, small_config, untrained, write_molecules
from train.test_predict import rows_of

pytest.importorskip("ray")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    return untrained(small_config(folder), folder / "model.safetensors")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere"])
def test_a_cluster_that_does_not_answer(model, tmp_path, address):
    table = write_molecules(tmp_path / "in.csv")
    with pytest.raises(RunError, match=address):
        predict_file(load(model), table, tmp_path / "o.csv", FileOptions(ray=address))
    assert [file.name for file in tmp_path.iterdir()] == ["in.csv"]
    with pytest.raises(ConfigError, match=tmp_path.name):
        predict_file(load(model), tmp_path, tmp_path / "o.csv", FileOptions(ray="auto"))


@pytest.fixture
def cluster(monkeypatch):
    import ray
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    # Ray gives a silent node half a minute, and its workers what others leave over.
    soon = {
        "health_check_period_ms": 1000,
        "health_check_failure_threshold": 3,
        "worker_niceness": 0,
    }
    head = {"num_cpus": 1, "_system_config": soon, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.mark.slow
def test_a_lost_node_loses_no_row(model, tmp_path, cluster):
    doomed = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    predictor = load(model)
    texts = [[*SMILES[start:], *SMILES[:start], "C1CC"] for start in range(40)]
    found = []
    for rows in predict_on_ray(predictor, iter(texts), None, cluster.address):
        if len(found) == 2:  # with others under way
            cluster.remove_node(doomed, allow_graceful=False)
        found.append(rows)
    assert len(found) == len(texts)
    for smiles, rows in zip(texts, found, strict=True):
        truth = predictor.predict(smiles)
        values = [row[0] for row in rows[:-1]]
        np.testing.assert_allclose(values, truth["predicted_logp"][:-1], rtol=1e-5)
        assert rows[-1][-1] == truth["reason"].iloc[-1]

    table = write_molecules(tmp_path / "in.csv", repeat=20)
    for name, address in (("here", None), ("there", cluster.address)):
        options = FileOptions(ray=address)
        predict_file(predictor, table, tmp_path / f"{name}.csv", options)
    here, there = (rows_of(tmp_path / f"{name}.csv") for name in ("here", "there"))
    assert [row["smiles"] for row in here] == [row["smiles"] for row in there]
    np.testing.assert_allclose(
        *([float(row["predicted_logp"]) for row in rows] for rows in (here, there)),
        rtol=1e-5,
    )
