import networkx as nx
import pytest
import torch
from torch_geometric.data import Data

from fullrank.data import DataError, GraphDataset, PackedGraphs, from_graphs


def graph(**changes) -> Data:
    content = {
        "x": torch.tensor([[0.5], [1.5]]),
        "edge_index": torch.tensor([[0, 1], [1, 0]]),
        "edge_attr": torch.tensor([[2, 0], [0, 1]]),
        "y": 1,
    }
    return Data(**(content | changes))


def test_pyg_graphs():
    dataset = from_graphs([graph(), graph(y=0)], name="mine")
    assert dataset.task == "multiclass"
    assert dataset.num_classes == 2
    assert dataset.graphs.batch([1, 0]).y.tolist() == [0, 1]
    assert dataset.node_features.kind == "float"
    assert dataset.edge_features.cardinalities == (3, 2)
    assert dataset[0].edge_attr.tolist() == [[0, 1], [2, 0]]


def test_regression_and_binary():
    several = [graph(y=torch.tensor([[0.5, float("nan")]])), graph(y=torch.ones(1, 2))]
    regression = from_graphs(several)
    assert regression.task == "regression"
    assert len(regression.targets) == 2
    binary = from_graphs([graph(), graph(y=0)], task="binary")
    assert binary.labels.tolist() == [[1], [0]]
    assert binary.metric == "rocauc"


def test_networkx_graphs_without_features_get_degrees():
    star, path = nx.star_graph(3), nx.path_graph(2)
    star.graph["y"], path.graph["y"] = 0.5, 1.5
    dataset = from_graphs([star, path])
    assert dataset[0].x.tolist() == [[0, 0, 0, 1]] + [[0, 1, 0, 0]] * 3
    assert dataset[1].edge_index.tolist() == [[1, 0], [0, 1]]
    assert dataset.labels.tolist() == [[0.5], [1.5]]


def test_networkx_attributes():
    graph = nx.Graph(y=2)
    graph.add_nodes_from([("a", {"x": [1.0, 2.0]}), ("b", {"x": [3.0, 4.0]})])
    graph.add_edge("a", "b", edge_attr=0.25)
    dataset = from_graphs([graph])
    assert dataset[0].x.tolist() == [[1, 2], [3, 4]]
    assert dataset[0].edge_attr.tolist() == [[0.25], [0.25]]
    assert dataset.labels.tolist() == [2]


def test_packed_own_graphs_can_be_saved(tmp_path):
    dataset = from_graphs([graph(), graph(y=0)])
    dataset.graphs.save(tmp_path / "mine")
    graphs = PackedGraphs.open(tmp_path / "mine")
    again = GraphDataset.described(graphs)
    assert again.fingerprint == dataset.fingerprint
    assert again.node_features == dataset.node_features
    assert torch.equal(again[1].edge_attr, dataset[1].edge_attr)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (graph(y=None), r"graph 1 .*\by\b"),
        (Data(y=0, num_nodes=0), "graph 1"),
        (graph(x=torch.zeros(2, 3)), "graph 1 .* 3 .*'x'.*graph 0 .*1"),
        (graph(x=None), "graph 1 .*'x'.*graph 0 .*1"),
        (graph(edge_index=torch.tensor([[0, 5], [1, 0]])), r"\(5, 0\).* 1 .* 2"),
        (graph(y=-1), "-1"),
        (graph(x=torch.tensor([[1.0], [float("nan")]])), "graph 1 .*nan.*'x'"),
        (
            graph(edge_attr=torch.full((2, 2), 1e300, dtype=torch.double)),
            r"1e\+300.*'edge_attr'",
        ),
        (graph(y=float("inf")), "graph 1 .*inf.*'y'"),
        (
            graph(edge_attr=torch.zeros(3, 2, dtype=int)),
            "graph 1.*edge_attr.* 3 ",
        ),
        (graph(num_nodes=3), "graph 1.*'node.x'.* 2 .* 3 "),
    ],
)
def test_wrong_graphs_are_named(wrong, message):
    with pytest.raises(DataError, match=message):
        from_graphs([graph(), wrong])


def test_rows_of_one_graph_are_not_taken_for_those_of_another():
    longer, shorter = (graph(edge_attr=torch.zeros(n, 2, dtype=int)) for n in (3, 1))
    with pytest.raises(DataError, match="graph 0: .*3"):
        from_graphs([longer, shorter])


@pytest.mark.parametrize("wrong", [-1, 2, 0.5])
def test_binary_targets_are_0_or_1(wrong):
    with pytest.raises(DataError, match=str(wrong)):
        from_graphs([graph(), graph(y=wrong)], task="binary")


def test_categories_of_a_small_data_type():
    largest = graph(x=torch.tensor([[255], [0]], dtype=torch.uint8))
    assert from_graphs([largest]).node_features.cardinalities == (256,)


def test_no_graphs():
    with pytest.raises(DataError):
        from_graphs([])
