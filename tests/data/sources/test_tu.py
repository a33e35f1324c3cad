import os
import zipfile

import numpy as np
import pytest
import torch
from torch_geometric.datasets import TUDataset
from torch_geometric.transforms import OneHotDegree

from fullrank.data import TU, DataError, load, read_tu_folder, read_tu_inputs
from shared_data import shared_data

# Graphs, classes, mean nodes, mean edges: https://chrsmrrs.github.io/datasets/
PUBLISHED = {
    "COLLAB": (5000, 3, 74.49, 2457.78),
    "REDDIT-BINARY": (2000, 2, 429.63, 497.75),
    "IMDB-BINARY": (1000, 2, 19.77, 96.53),
    "MUTAG": (188, 2, 17.93, 19.79),
    "PROTEINS": (1113, 2, 39.06, 72.82),
    "ENZYMES": (600, 6, 32.63, 62.14),
}
FEATURES = {"COLLAB": 492, "REDDIT-BINARY": 1, "IMDB-BINARY": 136, "MUTAG": 7}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("root")


@pytest.mark.parametrize("name", PUBLISHED)
def test_statistics_are_the_published_ones(name, root):
    dataset = load(name, root=root, mirror=shared_data() / "tu")
    graphs = dataset.graphs
    loops = int((graphs.src == graphs.dst).sum())
    edges = (len(graphs.src) - loops) / 2 + loops
    found = (
        len(dataset),
        dataset.num_classes,
        round(float(graphs.num_nodes.mean()), 2),
        round(edges / len(dataset), 2),
    )
    assert found == PUBLISHED[name]
    assert dataset.node_features.dim == FEATURES.get(name, dataset[0].x.shape[1])
    assert dataset[0].x.shape[1] == dataset.node_features.dim
    assert dataset.default_split == "folds"


@pytest.mark.parametrize("name", ["MUTAG", "ENZYMES"])
def test_graphs_equal_pygs(name, root, tmp_path, monkeypatch):
    monkeypatch.setattr(TUDataset, "url", str(shared_data() / "tu"))
    truth = TUDataset(tmp_path, name)
    dataset = TU(name, root, shared_data() / "tu")
    for index in range(0, len(truth), 37):
        ours, theirs = dataset[index], truth[index]
        assert torch.equal(ours.x, theirs.x)
        assert ours.y.tolist() == theirs.y.tolist()
        assert edge_set(ours) == edge_set(theirs)


def test_degrees_equal_pygs(root, tmp_path, monkeypatch):
    monkeypatch.setattr(TUDataset, "url", str(shared_data() / "tu"))
    truth = TUDataset(tmp_path, "IMDB-BINARY", transform=OneHotDegree(135))
    dataset = TU("IMDB-BINARY", root, shared_data() / "tu")
    for index in range(0, len(truth), 101):
        assert torch.equal(dataset[index].x, truth[index].x)


def test_large_degrees_are_normalised(root):
    dataset = TU("REDDIT-BINARY", root, shared_data() / "tu")
    x = dataset.graphs.batch(np.arange(len(dataset))).x.double()
    assert dataset.node_features.names == ("normalised degree",)
    assert abs(x.mean()) < 1e-4
    assert abs(x.std() - 1) < 1e-4


def edge_set(data) -> set[tuple[int, int]]:
    return set(map(tuple, data.edge_index.t().tolist()))


def small(folder, **changes: str | None):
    """Two graphs, a triangle and an edge, in TU layout."""
    files = {
        "A": "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n4, 5\n5, 4\n",
        "graph_indicator": "1\n1\n1\n2\n2\n",
        "graph_labels": "-1\n1\n",
        "node_labels": "3\n3\n7\n3\n7\n",
        "node_attributes": "0.5, 1\n1.5, 1\n2.5, 1\n3.5, 1\n4.5, 1\n",
        "edge_labels": "0\n0\n1\n1\n0\n0\n1\n1\n",
    }
    folder.mkdir(exist_ok=True)
    for kind, content in (files | changes).items():
        if content is not None:
            (folder / f"SMALL_{kind}.txt").write_text(content)
    return folder


def test_own_folder(tmp_path):
    dataset = read_tu_folder(small(tmp_path / "set"))
    assert dataset.name == "SMALL"
    assert dataset.labels.tolist() == [0, 1]
    # Attributes, then labels one-hot.
    assert dataset[1].x.tolist() == [[3.5, 1, 1, 0], [4.5, 1, 0, 1]]
    assert dataset[1].edge_attr.tolist() == [[0, 1], [0, 1]]
    assert dataset.edge_features.names == ("label 0 is 0", "label 0 is 1")
    assert dataset[0].edge_index.tolist() == [[1, 2, 0, 2, 1, 0], [0, 0, 1, 1, 2, 2]]
    # Labels stayed with their edges.
    assert dataset[0].edge_attr.argmax(1).tolist() == [0, 0, 0, 1, 1, 0]


def test_regression_targets(tmp_path):
    changes = {"graph_labels": None, "graph_attributes": "0.25\n-3\n"}
    dataset = read_tu_folder(small(tmp_path / "set", **changes))
    assert dataset.task == "regression"
    assert dataset.labels.tolist() == [[0.25], [-3]]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("A", "1, 2\n2, 6\n", r"A\.txt, line 2: the edge \(2, 6\) is outside the 5"),
        ("A", "1, 2\n0, 1\n", r"A\.txt, line 2: the edge \(0, 1\) is outside"),
        ("A", "1, 2\n3, 4\n", r"A\.txt, line 2: the edge joins graph 1 and graph 2"),
        ("A", "1, 2\n3, b\n", r"A\.txt, line 2: 'b' is not a whole number"),
        ("A", "1\n2\n", r"A\.txt, line 1: an edge needs two nodes, got 1"),
        ("graph_indicator", "1\n1\n1\n3\n3\n", r"line 4: .*graph 2 has no nodes"),
        ("graph_indicator", "1\n2\n1\n2\n2\n", "line 3: .*one after the other"),
        ("graph_indicator", "", "names no node"),
        ("graph_labels", "1\n", r"graph_labels\.txt, line 2: 1 lines instead of 2"),
        ("graph_labels", "1\n1\n2\n", r"line 3: 3 lines instead of 2"),
        ("node_labels", "1\n1\n", r"node_labels\.txt, line 3: 2 lines instead of 5"),
        ("graph_indicator", None, r"SMALL_graph_indicator\.txt is missing"),
        ("graph_labels", None, "no graph_labels or graph_attributes"),
    ],
)
def test_wrong_files_are_named_with_the_line(tmp_path, file, content, message):
    with pytest.raises(DataError, match=message):
        read_tu_folder(small(tmp_path / "set", **{file: content}), "SMALL")


def test_new_graphs_get_the_columns_of_another_set(tmp_path):
    known = read_tu_folder(small(tmp_path / "known"))
    new = small(tmp_path / "new", graph_labels=None, node_labels="7\n7\n7\n7\n7\n")
    features = known.node_features, known.edge_features
    graphs, strangers = read_tu_inputs(new, *features)
    assert strangers == {}
    x = torch.cat([graphs[0].x, graphs[1].x])
    assert x[:, 2:].tolist() == [[0, 1]] * 5  # not 3, but 7
    assert torch.equal(graphs[0].edge_attr, known[0].edge_attr)


def test_new_graphs_with_a_label_or_degree_nobody_knows_are_named(tmp_path):
    known = read_tu_folder(small(tmp_path / "known"))
    new = small(tmp_path / "new", node_labels="3\n5\n7\n3\n7\n")
    features = known.node_features, known.edge_features
    _, strangers = read_tu_inputs(new, *features)
    assert strangers == {0: "no training graph has the node label 5"}
    new = small(tmp_path / "new", edge_labels="0\n0\n1\n1\n0\n0\n2\n2\n")
    (tmp_path / "new" / "SMALL_node_labels.txt").write_text("3\n3\n7\n3\n7\n")
    _, strangers = read_tu_inputs(new, *features)
    assert strangers == {1: "no training graph has the edge label 2"}

    bare = dict.fromkeys(("node_labels", "node_attributes", "edge_labels"))
    two_paths = {"A": "1, 2\n2, 1\n4, 5\n5, 4\n"}
    known = read_tu_folder(small(tmp_path / "paths", **bare | two_paths))
    new = small(tmp_path / "triangle", **bare)
    graphs, strangers = read_tu_inputs(new, known.node_features, known.edge_features)
    assert strangers == {0: "no training graph has the degree 2"}
    assert graphs[1].x.tolist() == [[0, 1], [0, 1]]
    with pytest.raises(DataError, match="have the node features degree 0"):
        read_tu_inputs(new, *features)


def test_folder_without_a_set(tmp_path):
    with pytest.raises(DataError, match=r"must hold one NAME_A\.txt, found 0"):
        read_tu_folder(tmp_path)


def test_a_wrong_archive_leaves_nothing_behind(tmp_path):
    mirror, root = tmp_path / "mirror", tmp_path / "root"
    small(tmp_path / "SMALL", A="1, 2\n2, 9\n")
    mirror.mkdir()
    with zipfile.ZipFile(mirror / "SMALL.zip", "w") as archive:
        for file in (tmp_path / "SMALL").iterdir():
            archive.write(file, f"SMALL/{file.name}")
    with pytest.raises(DataError, match="is outside the 5 nodes"):
        TU("SMALL", root, mirror)
    assert [name for name in os.listdir(root) if not name.endswith(".lock")] == []
