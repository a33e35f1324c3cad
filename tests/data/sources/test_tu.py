import os

import numpy as np
import pytest
import torch
from torch_geometric.datasets import TUDataset
from torch_geometric.transforms import OneHotDegree

from data.tu_samples import BARE, archive, small, star
from fullrank.data import TU, DataError, load_dataset, read_tu_folder
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


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch):
    monkeypatch.delenv("FULLRANK_MIRROR", raising=False)


def test_statistics_are_the_published_ones(tmp_path):
    for name in PUBLISHED.keys() - {"COLLAB"}:
        assert_published(name, tmp_path)


@pytest.mark.slow
def test_statistics_of_the_largest_set_are_the_published_ones(tmp_path):
    assert_published("COLLAB", tmp_path)


def assert_published(name, tmp_path):
    dataset = load_dataset(name, root=tmp_path, mirror=shared_data() / "tu")
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
    assert dataset.node_features.dim == dataset[0].x.shape[1]
    assert dataset.node_features.dim == FEATURES.get(name, dataset[0].x.shape[1])


def edge_set(data) -> set[tuple[int, int]]:
    return set(map(tuple, data.edge_index.t().tolist()))


def pygs(folder, **options) -> TUDataset:
    """What PyG makes of the same files."""
    raw = folder.parent / "pyg" / "SMALL" / "raw"
    raw.parent.mkdir(parents=True)
    raw.symlink_to(folder)
    return TUDataset(folder.parent / "pyg", "SMALL", use_node_attr=True, **options)


def test_graphs_equal_pygs(tmp_path):
    # PyG has a column for every number between the smallest and the largest label.
    folder = small(tmp_path / "set", node_labels="3\n3\n4\n3\n4\n")
    dataset = read_tu_folder(folder)
    for ours, theirs in zip(dataset, pygs(folder), strict=False):
        assert torch.equal(ours.x, theirs.x)
        assert ours.y.tolist() == theirs.y.tolist()
        assert edge_set(ours) == edge_set(theirs)


def test_degrees_equal_pygs(tmp_path):
    folder = small(tmp_path / "set", **BARE)
    dataset = read_tu_folder(folder)
    for ours, theirs in zip(
        dataset, pygs(folder, transform=OneHotDegree(2)), strict=False
    ):
        assert torch.equal(ours.x, theirs.x)


def test_large_degrees_are_normalised(tmp_path):
    dataset = read_tu_folder(star(tmp_path / "star", 1200))
    x = dataset.graphs.batch(np.arange(2)).x.double()
    degrees = torch.tensor([1200.0, *[1.0] * 1202], dtype=torch.float64)
    assert dataset.node_features.names == ("normalised degree",)
    expected = (degrees - degrees.mean()) / degrees.std()
    assert torch.allclose(x[:, 0], expected, rtol=1e-6)


def test_own_folder(tmp_path):
    dataset = load_dataset(small(tmp_path / "set"))
    assert dataset.name == "SMALL"
    assert dataset.labels.tolist() == [0, 1]
    assert dataset.default_split == "folds"
    # Attributes, then labels one-hot.
    assert dataset[1].x.tolist() == [[3.5, 1, 1, 0], [4.5, 1, 0, 1]]
    assert dataset[1].edge_attr.tolist() == [[0, 1], [0, 1]]
    assert dataset.edge_features.names == ("label 0 is 0", "label 0 is 1")
    assert dataset[0].edge_index.tolist() == [[1, 2, 0, 2, 1, 0], [0, 0, 1, 1, 2, 2]]
    # Labels stayed with their edges.
    assert dataset[0].edge_attr.argmax(1).tolist() == [0, 0, 0, 1, 1, 0]


def test_regression_targets(tmp_path):
    changes = {"graph_labels": None, "graph_attributes": "0.25\n-3\n"}
    dataset = load_dataset(small(tmp_path / "set", **changes))
    assert dataset.task == "regression"
    assert dataset.labels.tolist() == [[0.25], [-3]]


@pytest.mark.parametrize("packed", [True, False], ids=["archive", "folder"])
def test_a_mirror_that_changes_is_read_again(tmp_path, packed):
    """An edited mirror, or another one, never returns what was prepared before."""
    mirror, root = tmp_path / "mirror", tmp_path / "root"

    def write(**changes):
        folder = small(tmp_path / "set" if packed else mirror / "SMALL", **changes)
        if packed:
            mirror.mkdir(exist_ok=True)
            archive(mirror / "SMALL.zip", folder)

    write()
    first = TU("SMALL", root, mirror)
    assert TU("SMALL", root, mirror).fingerprint == first.fingerprint
    write(graph_labels="1\n-1\n")
    again = TU("SMALL", root, mirror)
    assert [first.labels.tolist(), again.labels.tolist()] == [[0, 1], [1, 0]]
    assert again.fingerprint != first.fingerprint
    other = tmp_path / "other"
    small(other / "SMALL", node_labels="3\n3\n3\n3\n3\n")
    assert TU("SMALL", root, other).node_features.dim == 3


def test_the_fingerprint_is_that_of_the_content(tmp_path):
    folder = small(tmp_path / "set")
    root = tmp_path / "root"
    mirror, archives = tmp_path / "mirror", tmp_path / "archives"
    small(mirror / "SMALL")
    archives.mkdir()
    archive(archives / "SMALL.zip", folder)
    (root / "raw").mkdir(parents=True)
    archive(root / "raw" / "SMALL.zip", folder)  # as if it had been downloaded
    found = {
        load_dataset(folder).fingerprint,
        load_dataset(small(tmp_path / "copy", name="COPY")).fingerprint,
        TU("SMALL", root, mirror).fingerprint,
        TU("SMALL", root, archives).fingerprint,
        TU("SMALL", root).fingerprint,
    }
    assert len(found) == 1
    elsewhere = small(tmp_path / "elsewhere" / "set", graph_labels="1\n2\n")
    assert load_dataset(elsewhere).fingerprint in found  # the same two classes
    changed = small(tmp_path / "another" / "set", node_labels="3\n3\n7\n7\n7\n")
    assert load_dataset(changed).fingerprint not in found


def test_a_wrong_archive_leaves_nothing_behind(tmp_path):
    mirror, root = tmp_path / "mirror", tmp_path / "root"
    mirror.mkdir()
    archive(mirror / "SMALL.zip", small(tmp_path / "SMALL", A="1, 2\n2, 9\n"))
    with pytest.raises(DataError, match=" 5 "):
        TU("SMALL", root, mirror)
    assert [name for name in os.listdir(root) if not name.endswith(".lock")] == []
