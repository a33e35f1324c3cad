import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch_geometric.data import Data
from torch_geometric.utils import degree

from fullrank.data import DataError, Split, from_graphs
from fullrank.train.blueprint import Blueprint, degree_histogram, draw_blueprint
from fullrank.train.config import ConfigError, parse

NOTHING = np.array([], dtype=int)


def graphs(labels, task=None):
    """Random graphs with these labels."""
    torch.manual_seed(0)
    made = []
    for label in labels:
        size = int(torch.randint(2, 9, ()))
        edges = torch.randint(size, (2, 3 * size))
        made.append(Data(torch.randn(size, 3), edges, y=torch.as_tensor(label)))
    return from_graphs(made, task=task)


def drawn(dataset, train, **sections):
    config = parse({"data": {"name": "own"}, **sections})
    return draw_blueprint(config, dataset, Split(train, NOTHING, NOTHING))


def test_moments_are_those_of_the_training_graphs_that_have_a_label():
    labels = np.random.default_rng(0).normal(3, 2, (30, 2))
    labels[::4, 1] = np.nan
    train = np.arange(20)
    plan = drawn(graphs(labels, "regression"), train)
    assert plan.mean == pytest.approx(np.nanmean(labels[:20], axis=0))
    assert plan.std == pytest.approx(np.nanstd(labels[:20], axis=0))


def test_constant_target_is_not_stretched():
    plan = drawn(graphs([[2.0]] * 5, "regression"), np.arange(5))
    assert (plan.mean, plan.std) == ((2.0,), (1.0,))


def test_target_without_training_labels_is_named():
    labels = np.full((6, 1), np.nan)
    with pytest.raises(DataError, match="no training graph has a value of 'y0'"):
        drawn(graphs(labels, "regression"), np.arange(6))


def test_degree_histogram_is_that_of_the_training_graphs():
    dataset = graphs(list(range(12)))
    found = degree_histogram(dataset.loader(np.arange(3, 9), batch_size=4))
    degrees = torch.cat(
        [degree(dataset[i].edge_index[1], dataset[i].num_nodes) for i in range(3, 9)]
    )
    assert found.tolist() == torch.bincount(degrees.long()).tolist()
    plan = drawn(dataset, np.arange(3, 9), model={"conv": "pna"})
    assert plan.network["conv_args"]["deg"] == found.tolist()


def test_balanced_weights_of_classes_equal_scikit_learns():
    labels = [0] * 10 + [1] * 3 + [2] * 7
    plan = drawn(graphs(labels), np.arange(20), training={"class_weights": "balanced"})
    truth = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    assert plan.class_weights == pytest.approx(truth)


def test_balanced_weights_of_labels_even_out_each_target():
    labels = np.array([[1, 0], [0, 0], [0, 1], [0, np.nan]], dtype=float)
    plan = drawn(
        graphs(labels, "binary"), np.arange(4), training={"class_weights": "balanced"}
    )
    assert plan.class_weights == (3.0, 2.0)


@pytest.mark.parametrize(
    ("labels", "weights", "words"),
    [
        ([0, 1, 0], [1.0, 2.0, 3.0], "3 numbers for 2 classes"),
        ([[0.5], [0.1], [0.2]], [1.0], "for classification"),
    ],
)
def test_class_weights_that_do_not_fit(labels, weights, words):
    with pytest.raises(ConfigError, match=words):
        drawn(graphs(labels), np.arange(3), training={"class_weights": weights})


def test_saved_plan_builds_the_same_network(tmp_path):
    plan = drawn(graphs([0, 1, 2]), np.arange(3), model={"conv": "pna"})
    plan.save(tmp_path / "model.json")
    loaded = Blueprint.load(tmp_path / "model.json")
    assert loaded == plan
    networks = []
    for each in (plan, loaded):
        torch.manual_seed(0)
        networks.append(each.build().state_dict())
    assert all(torch.equal(networks[0][k], networks[1][k]) for k in networks[0])


def test_file_that_describes_no_model(tmp_path):
    (tmp_path / "model.json").write_text('{"task": "regression"}')
    with pytest.raises(ConfigError, match="does not describe a model"):
        Blueprint.load(tmp_path / "model.json")
