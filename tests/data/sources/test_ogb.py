"""Real OGB sets where they are, and small ones written in just OGB's layout."""

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from ogb.io.read_graph_raw import read_csv_graph_raw
from ogb.utils import smiles2graph

from fullrank.data import (
    OGB,
    DataError,
    OGBSource,
    Reading,
    featurize,
    load_dataset,
)
from shared_data import shared_data


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch):
    monkeypatch.delenv("FULLRANK_MIRROR", raising=False)


def test_real_sets(tmp_path):
    dataset = load_dataset("ogbg-molhiv", root=tmp_path, mirror=shared_data() / "ogb")
    split = dataset.split()
    assert len(dataset) == 41_127
    parts = (split.train, split.valid, split.test)
    assert [len(part) for part in parts] == [32_901, 4_113, 4_113]
    assert [int(dataset.labels[part].sum()) for part in parts] == [1232, 81, 130]
    assert dataset.metric == "rocauc"

    folder = shared_data() / "ogb" / "ogbg_molesol"
    dataset = OGB("ogbg-molesol", tmp_path, folder=folder)
    truth = read_csv_graph_raw(folder / "raw", add_inverse_edge=True)
    labels = pd.read_csv(folder / "raw" / "graph-label.csv.gz", header=None)[0]
    assert len(dataset) == 1128
    for index in range(0, 1128, 50):
        data, graph = dataset[index], truth[index]
        assert data.x.tolist() == graph["node_feat"].tolist()
        assert edges_with_features(
            data.edge_index.numpy(), data.edge_attr.numpy()
        ) == edges_with_features(graph["edge_index"], graph["edge_feat"])
        assert data.y.item() == pytest.approx(labels[index])
    assert dataset.texts("smiles")[1] == "Cc1occc1C(=O)Nc2ccccc2"


SMILES = ["CCO", "C", "C/C=C/C", "c1ccccc1N"]


def write_molecules(folder, labels=(0.5, -1, 2, 4)):
    """`SMILES` in OGB's layout, made by OGB's own function."""
    made = [smiles2graph(text) for text in SMILES]
    graphs = [(g["num_nodes"], g["edge_index"].T[::2].tolist()) for g in made]
    features = {
        "node_feat": [row for g in made for row in g["node_feat"]],
        "edge_feat": [row for g in made for row in g["edge_feat"][::2]],
    }
    write_set(folder, graphs, labels, "scaffold", **features)
    rows = ["smiles,mol_id", *(f"{text},{i}" for i, text in enumerate(SMILES))]
    write_table(folder / "mapping" / "mol.csv.gz", rows)
    return folder


def test_molecules_equal_what_ogb_reads(tmp_path):
    folder = write_molecules(tmp_path / "esol")
    dataset = OGB("ogbg-molesol", tmp_path / "root", folder=folder)
    assert list(dataset.texts("smiles")) == SMILES
    assert dataset.labels[:, 0].tolist() == [0.5, -1, 2, 4]
    assert (dataset.task, dataset.metric) == ("regression", "rmse")
    assert dataset.graphs.batch([0, 1]).y.dtype == torch.float32
    truth = read_csv_graph_raw(folder / "raw", add_inverse_edge=True)
    for data, graph in zip(dataset, truth, strict=False):
        assert data.x.tolist() == graph["node_feat"].tolist()
        assert edges_with_features(
            data.edge_index.numpy(), data.edge_attr.numpy()
        ) == edges_with_features(graph["edge_index"], graph["edge_feat"])
    truth = dataset.labels
    assert dataset.evaluate(truth, truth + 2) == {"rmse": pytest.approx(2)}


def test_new_molecules_get_the_same_graphs(tmp_path):
    folder = write_molecules(tmp_path / "esol")
    dataset = OGB("ogbg-molesol", tmp_path / "root", folder=folder)
    (made,) = featurize(Reading(dataset.featurizer), [SMILES])
    for ours, theirs in zip(made.graphs, dataset, strict=False):
        assert torch.equal(ours.x, theirs.x)
        assert edges_with_features(ours.edge_index, ours.edge_attr) == (
            edges_with_features(theirs.edge_index, theirs.edge_attr)
        )


def edges_with_features(edge_index, features) -> list:
    return sorted(zip(*edge_index.tolist(), features.tolist(), strict=True))


def test_an_archive_a_folder_and_a_mirror_are_one_set(tmp_path):
    folder = write_molecules(tmp_path / "mirror" / "ogbg_molesol")
    archives, root = tmp_path / "archives", tmp_path / "root"
    archives.mkdir()
    with zipfile.ZipFile(archives / "esol.zip", "w") as archive:
        for file in folder.rglob("*.gz"):
            archive.write(file, Path("esol") / file.relative_to(folder))
    found = [
        OGB("ogbg-molesol", root, mirror=archives),
        OGB("ogbg-molesol", root, mirror=folder.parent),
        OGB("ogbg-molesol", root, folder=folder),
    ]
    assert len({dataset.fingerprint for dataset in found}) == 1
    split = found[0].split()
    parts = (split.train, split.valid, split.test)
    assert [part.tolist() for part in parts] == [[0, 2], [1], [3]]


def test_a_folder_or_mirror_that_changes_is_read_again(tmp_path):
    folder, root = tmp_path / "mirror" / "ogbg_molesol", tmp_path / "root"
    for options in ({"folder": folder}, {"mirror": folder.parent}):
        write_molecules(folder)
        first = load_dataset("ogbg-molesol", root=root, **options)
        write_molecules(folder, labels=(9, 9, 9, 9))
        again = load_dataset("ogbg-molesol", root=root, **options)
        assert first.labels[:, 0].tolist() == [0.5, -1, 2, 4]
        assert again.labels[:, 0].tolist() == [9] * 4
        assert first.fingerprint != again.fingerprint


def test_molecules_with_many_and_missing_labels(tmp_path):
    graphs = [(2, [[0, 1]]), (1, []), (3, [[0, 1], [1, 2]]), (1, [])]
    labels = [[1, "", 0], ["", "", 1], [0, 0, 0], [1, 1, ""]]
    atoms = [[5, 0, 4, 5, 3, 0, 2, 0, 0]] * 7
    more = {"node_feat": atoms, "edge_feat": [[0, 0, 0], [1, 0, 0], [2, 0, 1]]}
    write_set(tmp_path / "set", graphs, labels, "scaffold", **more)
    dataset = OGB("ogbg-molclintox", tmp_path / "root", folder=tmp_path / "set")
    expected = [[1, np.nan, 0], [np.nan, np.nan, 1], [0, 0, 0], [1, 1, np.nan]]
    assert np.array_equal(dataset.labels, expected, equal_nan=True)
    assert dataset[2].edge_attr.tolist() == [[1, 0, 0], [1, 0, 0], [2, 0, 1], [2, 0, 1]]
    assert dataset.graphs.batch([0, 1]).y.isnan().sum() == 3


def write_table(file, rows) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = (
        row if isinstance(row, list | tuple) else np.atleast_1d(row) for row in rows
    )
    lines = (",".join(map(str, row)) for row in rows)
    file.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))


def write_set(folder, graphs, labels, split_kind, **more) -> None:
    """OGB's layout: ``graphs`` are pairs of a number of nodes and edges ``[E, 2]``."""
    raw = folder / "raw"
    write_table(raw / "num-node-list.csv.gz", [nodes for nodes, _ in graphs])
    write_table(raw / "num-edge-list.csv.gz", [len(edges) for _, edges in graphs])
    write_table(raw / "edge.csv.gz", [edge for _, edges in graphs for edge in edges])
    write_table(raw / "graph-label.csv.gz", labels)
    for name, rows in more.items():
        write_table(raw / f"{name.replace('_feat', '-feat')}.csv.gz", rows)
    parts = {"train": [0, 2], "valid": [1], "test": [3]}
    for part, indices in parts.items():
        write_table(folder / "split" / split_kind / f"{part}.csv.gz", indices)


@pytest.fixture
def ppa(tmp_path):
    rng = np.random.default_rng(0)
    edges = [[[0, 1], [1, 2]], [[0, 1]], [[0, 2], [1, 2], [0, 1]], [[1, 0]]]
    graphs = [(3, edges[0]), (2, edges[1]), (4, edges[2]), (2, edges[3])]
    features = rng.random((7, 7)).round(3)
    write_set(tmp_path / "ppa", graphs, [4, 36, 0, 11], "species", edge_feat=features)
    return tmp_path / "ppa", features


def test_ppa(ppa, tmp_path):
    folder, features = ppa
    dataset = OGB("ogbg-ppa", tmp_path / "root", folder=folder)
    assert dataset.task == "multiclass"
    assert dataset.num_classes == 37
    assert dataset.metric == "accuracy"
    assert dataset.graphs.batch([0, 1, 2, 3]).y.tolist() == [4, 36, 0, 11]
    assert dataset.node_features.cardinalities == (1,)
    assert dataset[2].x.tolist() == [[0]] * 4
    truth = read_csv_graph_raw(folder / "raw", add_inverse_edge=True)
    for index, graph in enumerate(truth):
        ours = dataset[index]
        order = np.lexsort(graph["edge_index"])
        again = np.lexsort(ours.edge_index.numpy())
        assert np.array_equal(
            ours.edge_index.numpy()[:, again], graph["edge_index"][:, order]
        )
        expected = graph["edge_feat"][order]
        assert np.allclose(ours.edge_attr.numpy()[again], expected)
    assert features.shape == (7, dataset.edge_features.dim)
    assert dataset.split().train.tolist() == [0, 2]
    assert dataset.evaluate(np.array([4, 36]), np.array([4, 1])) == {"accuracy": 0.5}


@pytest.fixture
def code(tmp_path):
    """Four trees; nodes are not in depth-first order in the last."""
    graphs = [
        (4, [[0, 1], [0, 2], [2, 3]]),
        (1, []),
        (3, [[0, 1], [1, 2]]),
        (3, [[0, 1], [0, 2]]),
    ]
    write_set(
        tmp_path / "code2",
        graphs,
        ["get value", "run", "get the very long name of it", "nan set"],
        "project",
        node_feat=[[i % 3, i] for i in range(11)],
        node_is_attributed=[0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1],
        node_dfs_order=[0, 1, 2, 3, 0, 0, 1, 2, 0, 2, 1],
        node_depth=[0, 1, 1, 2, 0, 0, 1, 25, 0, 1, 1],
    )
    mapping = tmp_path / "code2" / "mapping"
    write_table(mapping / "typeidx2type.csv.gz", ["type idx,type", "0,a", "1,b", "2,c"])
    write_table(
        mapping / "attridx2attr.csv.gz",
        ["attr idx,attr", *(f"{i},attribute" for i in range(11))],
    )
    return tmp_path / "code2"


@pytest.mark.parametrize("name", ["ogbg-code2", "ogbg-code"])
def test_code(code, tmp_path, name):
    dataset = OGB(name, tmp_path / "root", folder=code)
    assert dataset.task == "tokens"
    assert dataset.num_tokens == 5
    # Of the training names, the most frequent word first.
    assert dataset.vocabulary == (
        "get",
        "value",
        "the",
        "very",
        "long",
        "name",
        "of",
        "it",
    )
    unknown, end = 8, 9
    assert dataset.num_classes == 10
    assert dataset.labels.tolist() == [
        [0, 1, end, end, end],
        [unknown, end, end, end, end],
        [0, 2, 3, 4, 5],
        [unknown, unknown, end, end, end],
    ]
    assert dataset.node_features.cardinalities == (3, 11, 21)
    assert dataset[2].x.tolist() == [[2, 5, 0], [0, 6, 1], [1, 7, 20]]
    assert dataset.texts("name")[3] == "nan set"
    references = [dataset.texts("name")[0].split(" ")]
    assert dataset.evaluate(references, [["get", "value"]])["f1"] == 1


def test_code_edges_go_down_up_to_the_next_token_and_back(code, tmp_path):
    dataset = OGB("ogbg-code2", tmp_path / "root", folder=code)

    def edges(index):
        data = dataset[index]
        return {
            (u, v): tuple(kind)
            for u, v, kind in zip(
                *data.edge_index.tolist(), data.edge_attr.tolist(), strict=True
            )
        }

    assert edges(1) == {}
    assert edges(2) == {
        (0, 1): (0, 0),
        (1, 0): (0, 1),
        (1, 2): (0, 0),
        (2, 1): (0, 1),
        (0, 2): (1, 0),
        (2, 0): (1, 1),
    }
    # Depth first the nodes of the last tree come as 0, 2, 1.
    data = dataset[3]
    following = data.edge_attr[:, 0] == 1
    forward = following & (data.edge_attr[:, 1] == 0)
    assert sorted(data.edge_index[:, forward].t().tolist()) == [[0, 2], [2, 1]]


def test_blocks_do_not_change_what_is_read(ppa, tmp_path, monkeypatch):
    folder, _ = ppa
    whole = OGB("ogbg-ppa", tmp_path / "one", folder=folder)
    monkeypatch.setattr("fullrank.data.sources.ogb_raw._ROWS_AT_ONCE", 4)
    pieces = OGB("ogbg-ppa", tmp_path / "many", folder=folder)
    for (name, first), (_, second) in zip(
        whole.graphs.batch(range(4)), pieces.graphs.batch(range(4)), strict=True
    ):
        assert torch.equal(first, second), name


@pytest.mark.parametrize(
    ("file", "rows", "message"),
    [
        ("raw/edge", [[0, 1]], r"edge\.csv\.gz .*line 1 .* 7"),
        ("raw/edge", [[0, 9]] * 7, r"edge\.csv\.gz, line 1: .* 3"),
        ("raw/edge", [[0, 1]] * 8, r"edge\.csv\.gz .* 7"),
        (
            "raw/graph-label",
            [1, 2, 3],
            r"graph-label\.csv\.gz, line 4: 3 .* 4",
        ),
        ("raw/num-edge-list", [1], r"num-edge-list\.csv\.gz, line 2: 1 "),
        (
            "raw/num-node-list",
            [3, 2, 0, 2],
            r"num-node-list\.csv\.gz, line 3: 0 ",
        ),
        ("raw/num-edge-list", [2, 1, -3, 1], r"num-edge-list\.csv\.gz, line 3: -3"),
        ("split/species/test", [9], r"test\.csv\.gz, line 1: .* 9 .* 4"),
        ("split/species/test", [3, 2], r"test\.csv\.gz, line 2: graph 2 "),
        ("split/species/train", [0, 2, 0], r"train\.csv\.gz, line 1: graph 0 "),
        ("raw/edge-feat", [[1]] * 7, r"edge-feat\.csv\.gz, line 1: 1 "),
        ("raw/edge-feat", [["x"] * 7], r"edge-feat\.csv\.gz, line 1: 'x'"),
        ("raw/edge-feat", [[1] * 7] * 6 + [["inf"] * 7], r"edge-feat\.csv\.gz, line 7"),
        ("raw/graph-label", [[1, 2]] * 4, r"graph-label\.csv\.gz, line 1: 2 "),
        ("raw/graph-label", [4, 37, 0, 11], r"graph-label\.csv\.gz, line 2: .*37"),
        ("raw/graph-label", [4, "nan", 0, 1], r"graph-label\.csv\.gz, line 2: 'nan'"),
    ],
)
def test_wrong_files_are_named(ppa, tmp_path, file, rows, message):
    folder, _ = ppa
    write_table(folder / f"{file}.csv.gz", rows)
    with pytest.raises(DataError, match=message):
        OGB("ogbg-ppa", tmp_path / "root", folder=folder)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[1, 0], [0, "inf"], [1, 1], [0, 0]], "line 2: 'inf'"),
        ([[1, 0], [0, 1], [1], [0, 0]], "line 3: 1 .* 2 "),
        ([[1, 0], [0, 1], [1, 1], [0, 2]], "line 4: 2 "),
    ],
)
def test_wrong_labels_of_molecules(tmp_path, labels, message):
    folder = write_molecules(tmp_path / "set", labels)
    with pytest.raises(DataError, match=rf"graph-label\.csv\.gz, {message}"):
        OGB("ogbg-molclintox", tmp_path / "root", folder=folder)


def test_every_molecule_needs_its_smiles(tmp_path):
    folder = write_molecules(tmp_path / "set")
    write_table(folder / "mapping" / "mol.csv.gz", ["smiles", "CCO", "C"])
    with pytest.raises(DataError, match=r"mol\.csv\.gz.*2.*4"):
        OGB("ogbg-molesol", tmp_path / "root", folder=folder)
    write_table(folder / "mapping" / "mol.csv.gz", ["mol_id", "0", "1", "2", "3"])
    with pytest.raises(DataError, match=r"mol\.csv\.gz: .*smiles"):
        OGB("ogbg-molesol", tmp_path / "root", folder=folder)


def test_categories_outside_their_range(code, tmp_path):
    write_table(code / "raw" / "node-feat.csv.gz", [[0, 0]] * 4 + [[3, 0]] * 7)
    with pytest.raises(DataError, match=r"node-feat\.csv\.gz, line 5"):
        OGB("ogbg-code2", tmp_path / "root", folder=code)


def test_names():
    wanted = {"ogbg-molhiv", "ogbg-molpcba", "ogbg-ppa", "ogbg-code2", "ogbg-code"}
    assert wanted <= set(OGBSource.known_names())
    with pytest.raises(DataError, match="ogbg-code2"):
        load_dataset("ogbg-code")
    with pytest.raises(DataError, match="'ogbg-nothing'"):
        OGB("ogbg-nothing")
    with pytest.raises(DataError, match="nowhere"):
        OGB("ogbg-ppa", folder="nowhere")
