import json

import numpy as np
import pytest
import torch
from safetensors.torch import save
from sklearn.utils.class_weight import compute_class_weight
from torch_geometric.data import Data
from torch_geometric.utils import degree

from fullrank.data import DataError, Split, from_graphs
from fullrank.errors import ConfigError, ModelError
from fullrank.nn import network_names
from fullrank.train import Model, parse
from fullrank.train.model import checksum, degree_histogram, design_model

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


def designed(dataset, train, **sections):
    config = parse({"data": {"name": "qm9"}, **sections})
    return design_model(config, dataset, Split(train, NOTHING, NOTHING))


def test_moments_are_those_of_the_training_graphs_that_have_a_label():
    labels = np.random.default_rng(0).normal(3, 2, (30, 2))
    labels[::4, 1] = np.nan
    train = np.arange(20)
    spec = designed(graphs(labels, "regression"), train)
    assert spec.mean == pytest.approx(np.nanmean(labels[:20], axis=0))
    assert spec.std == pytest.approx(np.nanstd(labels[:20], axis=0))


def test_constant_target_is_not_stretched():
    spec = designed(graphs([[2.0]] * 5, "regression"), np.arange(5))
    assert (spec.mean, spec.std) == ((2.0,), (1.0,))


def test_the_labels_of_the_training_part_are_counted():
    labels = np.random.default_rng(0).normal(3, 2, (30, 2))
    labels[::4, 1] = np.nan
    for column, found in enumerate(
        designed(graphs(labels, "regression"), np.arange(20)).distributions
    ):
        known = labels[:20, column][~np.isnan(labels[:20, column])]
        assert (found.low, found.high) == (known.min(), known.max())
        edges = np.linspace(found.low, found.high, len(found.counts) + 1)[1:-1]
        places = np.searchsorted(edges, known, side="right")
        assert list(found.counts) == np.bincount(places, minlength=32).tolist()
    classes = designed(graphs([0, 2, 2, 1, 2, 0], "multiclass"), np.arange(5))
    assert [found.counts for found in classes.distributions] == [(1, 1, 3)]
    binary = graphs([[1.0], [0.0], [np.nan], [1.0]], "binary")
    assert designed(binary, np.arange(4)).distributions[0].counts == (1, 2)


def test_target_without_training_labels_is_named():
    labels = np.full((6, 1), np.nan)
    with pytest.raises(DataError, match="'y0'"):
        designed(graphs(labels, "regression"), np.arange(6))


def test_degree_histogram_is_that_of_the_training_graphs():
    dataset = graphs(list(range(12)))
    found = degree_histogram(dataset.loader(np.arange(3, 9), batch_size=4))
    degrees = torch.cat(
        [degree(dataset[i].edge_index[1], dataset[i].num_nodes) for i in range(3, 9)]
    )
    assert found.tolist() == torch.bincount(degrees.long()).tolist()
    spec = designed(dataset, np.arange(3, 9), model={"conv": "pna"})
    assert spec.network["conv_args"]["deg"] == found.tolist()


def test_balanced_weights_of_classes_equal_scikit_learns():
    labels = [0] * 10 + [1] * 3 + [2] * 7
    spec = designed(
        graphs(labels), np.arange(20), training={"class_weights": "balanced"}
    )
    truth = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    assert spec.class_weights == pytest.approx(truth)


def test_balanced_weights_of_labels_even_out_each_target():
    labels = np.array([[1, 0], [0, 0], [0, 1], [0, np.nan]], dtype=float)
    spec = designed(
        graphs(labels, "binary"), np.arange(4), training={"class_weights": "balanced"}
    )
    assert spec.class_weights == (3.0, 2.0)


@pytest.mark.parametrize(
    ("labels", "weights", "named"),
    [
        ([0, 1, 0], [1.0, 2.0, 3.0], "3 .* 2 "),
        ([[0.5], [0.1], [0.2]], [1.0], "regression"),
    ],
)
def test_class_weights_that_do_not_fit(labels, weights, named):
    with pytest.raises(ConfigError, match=named):
        designed(graphs(labels), np.arange(3), training={"class_weights": weights})


def saved(tmp_path, precision="32", **sections):
    """A model in a file, and the model."""
    labels = np.random.default_rng(0).normal(3, 2, (6, 2))
    dataset = graphs(labels, "regression")
    model = Model(designed(dataset, np.arange(6), **sections)).eval()
    file = tmp_path / "model.safetensors"
    model.network.to(torch.float64 if precision == "64" else torch.float32)
    model.save(file)
    return file, model, dataset


@pytest.mark.parametrize("conv", ["expc", "combc", "pna", "gat"])
@pytest.mark.parametrize("precision", ["32", "64"])
def test_a_file_holds_the_whole_model(tmp_path, conv, precision):
    sections = {"model": {"conv": conv, "layers": 2, "batch_norm": True}}
    file, model, dataset = saved(tmp_path, precision, **sections)
    loaded = Model.load(file)
    assert loaded.spec == model.spec
    batch = dataset.graphs.batch(np.arange(6))
    with torch.no_grad():
        outputs = [m.predictions(m(m.ready(batch.clone()))) for m in (model, loaded)]
    assert torch.equal(*outputs)
    assert outputs[0].std() > 0


@pytest.mark.parametrize("name", sorted(set(network_names()) - {"graph-net"}))
def test_a_file_holds_any_network(tmp_path, name):
    dataset = graphs(np.arange(6) % 2, "multiclass")
    sections = {"model": {"name": name, "layers": 2, "hidden": 8}}
    model = Model(designed(dataset, np.arange(6), **sections)).eval()
    model.save(tmp_path / "model.safetensors")
    loaded = Model.load(tmp_path / "model.safetensors")
    batch = dataset.graphs.batch(np.arange(6))
    if name == "dtnn":
        batch.pos = torch.randn(batch.num_nodes, 3)
    with torch.no_grad():
        assert torch.equal(*(m(m.ready(batch.clone())) for m in (model, loaded)))


def rewritten(file, change_spec=lambda spec: spec, change_weights=lambda w: None):
    """The same file with other parts, and a checksum that agrees with them."""
    model = Model.load(file)
    weights = {k: v.clone() for k, v in model.state_dict().items()}
    change_weights(weights)
    spec = change_spec(json.loads(model.spec.model_dump_json()))
    text = json.dumps(spec)
    header = json.dumps({"sha256": checksum(text, weights), "spec": text})
    file.write_bytes(save(weights, {"fullrank": header}))


def test_a_file_of_an_earlier_version_has_no_distribution_of_labels(tmp_path):
    file, _, _ = saved(tmp_path)
    assert Model.load(file).spec.distributions
    rewritten(
        file, lambda spec: {k: v for k, v in spec.items() if k != "distributions"}
    )
    assert Model.load(file).spec.distributions == ()


@pytest.mark.parametrize(
    "change",
    [
        {"targets": [{"name": "one", "unit": ""}]},
        {"targets": []},
        {"node_features": {"kind": "float", "names": ["a"], "cardinalities": []}},
        {"edge_features": {"kind": "float", "names": ["a"], "cardinalities": []}},
        {
            "seen": {
                "elements": [6],
                "atoms": [1, 2],
                "node_categories": [[0]] * 9,
            }
        },
        {"mean": [1.0]},
        {"std": [1.0, 0.0]},
        {"mean": [1.0, None]},
        {"task": "multiclass", "num_classes": 3},
        {"task": "binary"},
        {"task": "guess"},
        {"format": 99},
        {"network": {}},
        {"surprise": 1},
        {"distributions": [{"low": 0, "high": 1, "counts": [1]}]},
        {"distributions": [{"low": 0, "high": None, "counts": [1]}] * 2},
        {"distributions": [{"low": 0, "high": 1, "counts": [-1]}] * 2},
    ],
)
def test_parts_that_do_not_fit_are_refused(tmp_path, change):
    file, _, _ = saved(tmp_path)
    rewritten(file, lambda spec: spec | change)
    with pytest.raises(ModelError, match="model.safetensors"):
        Model.load(file)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_channels": -1},
        {"hidden_channels": 10**12},
        {"hidden_channels": 5000},  # small beside the file, but 10^8 weights
        {"num_layers": 10**12},
        {"conv": "pna", "conv_args": {"deg": [1, 2], "towers": 10**12}},
        {"conv_args": {"num_aggregators": 10**12}},
    ],
)
def test_a_network_that_does_not_fit_its_weights_takes_no_memory(tmp_path, change):
    file, _, _ = saved(tmp_path)
    network = {"network": Model.load(file).spec.network | change}
    rewritten(file, lambda spec: spec | network)
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        Model.load(file)


def test_another_width_of_the_network_is_refused(tmp_path):
    file, _, _ = saved(tmp_path)

    def wider(spec):
        return spec | {"network": spec["network"] | {"hidden_channels": 128}}

    rewritten(file, wider)
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        Model.load(file)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_refused(tmp_path, value):
    file, _, _ = saved(tmp_path)

    def spoil(weights):
        next(iter(weights.values())).view(-1)[0] = value

    rewritten(file, change_weights=spoil)
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        Model.load(file)


def test_changed_bytes_are_noticed(tmp_path):
    file, _, _ = saved(tmp_path)
    whole = file.read_bytes()
    for place in np.random.default_rng(0).integers(8, len(whole), 60):
        changed = bytearray(whole)
        changed[place] ^= 1 << int(place % 8)
        file.write_bytes(changed)
        with pytest.raises(ModelError, match="model.safetensors"):
            Model.load(file)
    for cut in (0, 5, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:cut])
        with pytest.raises(ModelError, match="model.safetensors"):
            Model.load(file)
    file.write_bytes(whole)
    Model.load(file)


def test_a_file_that_is_not_a_model(tmp_path):
    with pytest.raises(ModelError, match="nowhere"):
        Model.load(tmp_path / "nowhere")
    file = tmp_path / "other.safetensors"
    for header in ({}, {"fullrank": '{"spec": 5, "sha256": "0"}'}):
        file.write_bytes(save({"w": torch.ones(2)}, header))
        with pytest.raises(ModelError, match=file.name):
            Model.load(file)
