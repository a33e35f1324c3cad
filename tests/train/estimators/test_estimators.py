"""What holds for every estimator, on graphs that differ in density."""

import networkx as nx
import numpy as np
import pytest

from fullrank.errors import ConfigError
from fullrank.train import RunFolder, run_experiment
from fullrank.train.config import parse
from fullrank.train.estimators import ESTIMATORS
from fullrank.train.estimators.base import KernelEstimator

FEW = {"awe": {"walks": 300}, "dgk": {"samples": 300}, "wegl": {"trees": 50}}
KERNELS = [n for n, kind in ESTIMATORS.items() if issubclass(kind, KernelEstimator)]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Random graphs with few edges, and with many; nodes have their degrees."""
    folder = tmp_path_factory.mktemp("tu") / "density"
    folder.mkdir()
    edges, owners, labels = [], [], []
    for graph in range(80):
        label, nodes, first = graph % 2, 8 + graph % 5, len(owners) + 1
        found = nx.gnp_random_graph(nodes, (0.25, 0.6)[label], seed=graph)
        edges += [f"{first + u}, {first + v}" for u, v in found.to_directed().edges]
        owners += [graph + 1] * nodes
        labels.append(label)
    lines = {"A": edges, "graph_indicator": owners, "graph_labels": labels}
    for name, values in lines.items():
        text = "".join(f"{value}\n" for value in values)
        (folder / f"density_{name}.txt").write_text(text)
    return parse({"data": {"name": str(folder)}}).data.load()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_learns_what_can_be_seen(dataset, name):
    train, test = np.arange(50), np.arange(50, 80)
    found = ESTIMATORS[name](**FEW[name]).fit(dataset, train).predict(dataset, test)
    assert found.shape == (30, 2)
    assert np.allclose(found.sum(axis=1), 1)
    assert (found.argmax(axis=1) == dataset.labels[test]).mean() > 0.8


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_seed_repeats_and_graphs_do_not_depend_on_each_other(dataset, name):
    train = np.arange(40)
    fitted = [ESTIMATORS[name](seed=3, **FEW[name]).fit(dataset, train) for _ in "ab"]
    one, other = (e.predict(dataset, np.arange(40, 60)) for e in fitted)
    assert np.array_equal(one, other)
    alone = fitted[0].predict(dataset, np.array([45]))
    assert np.allclose(alone, one[5:6], atol=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_positive_semidefinite(dataset, name):
    graphs = np.arange(30)
    estimator = ESTIMATORS[name](**FEW[name])
    estimator.start(dataset, graphs)
    kernel = estimator.kernel(dataset, graphs, graphs)
    assert np.allclose(kernel, kernel.T)
    assert np.allclose(kernel.diagonal(), 1)
    assert np.linalg.eigvalsh(kernel).min() > -1e-10


@pytest.mark.parametrize("kind", ["gin", "fair"])
def test_runs_in_the_protocols_of_networks(dataset, kind, tmp_path):
    config = parse(
        {
            "data": {"name": "MUTAG"},  # only its name: the graphs are given
            "split": {"kind": kind, "folds": 3},
            "model": {"name": "dgk", "args": {"samples": 100}},
            "runs": str(tmp_path / "runs"),
        }
    )
    summary = run_experiment(config, dataset)
    assert summary.conv == "dgk"
    assert len(summary.test["accuracy"].values) == 3
    folder = RunFolder(tmp_path / "runs" / summary.runs[0])
    before = folder.result
    assert len(folder.curve) == before.epochs == 1
    run_experiment(config, dataset)  # finished: nothing is done again
    assert folder.result == before


def test_only_classes():
    config = {"data": {"name": "qm9", "targets": ["gap"], "limit": 20}}
    dataset = parse(config).data.load()
    with pytest.raises(ConfigError, match="regression"):
        ESTIMATORS["dgk"](samples=10).fit(dataset, np.arange(10))
