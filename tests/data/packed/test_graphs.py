"""PackedGraphs against PyG's own batching of the same graphs."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

from fullrank.data import DataError, Field, Graph, PackedGraphs, Part


def random_graph(rng: np.random.Generator, num_nodes: int, num_edges: int) -> Graph:
    return Graph(
        num_nodes,
        rng.integers(0, num_nodes, (2, num_edges)),
        {
            "node.x": rng.normal(size=(num_nodes, 3)),
            "edge.edge_attr": rng.integers(0, 5, (num_edges, 2)),
            "graph.y": rng.normal(size=4),
        },
    )


def as_data(graph: Graph) -> Data:
    """The same graph for PyG, its edges sorted by destination."""
    order = np.argsort(graph.edge_index[1], kind="stable")
    return Data(
        x=torch.tensor(graph.arrays["node.x"], dtype=torch.float32),
        edge_index=torch.tensor(graph.edge_index[:, order]),
        edge_attr=torch.tensor(graph.arrays["edge.edge_attr"][order]),
        y=torch.tensor(graph.arrays["graph.y"], dtype=torch.float32)[None],
    )


def make(seed: int, sizes: list[tuple[int, int]]) -> list[Graph]:
    rng = np.random.default_rng(seed)
    return [random_graph(rng, nodes, edges) for nodes, edges in sizes]


SIZES = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 9)), min_size=1, max_size=8
)


@settings(max_examples=50)
@given(sizes=SIZES, seed=st.integers(0, 99), data=st.data())
def test_batch_equals_pygs(sizes, seed, data):
    graphs = make(seed, sizes)
    chosen = data.draw(
        st.lists(st.integers(0, len(graphs) - 1), min_size=1, max_size=9)
    )
    batch = PackedGraphs.from_graphs(graphs).batch(chosen)
    truth = Batch.from_data_list([as_data(graphs[i]) for i in chosen])

    assert isinstance(batch, Batch)
    for name in ("x", "edge_index", "edge_attr", "y", "batch", "ptr"):
        assert torch.equal(batch[name], truth[name]), name
        assert batch[name].dtype == truth[name].dtype
    assert batch.num_graphs == truth.num_graphs
    assert batch.graph_id.tolist() == chosen
    assert bool((batch.edge_index[1].diff() >= 0).all())


def test_batch_comes_apart_again():
    graphs = make(0, [(3, 4), (1, 0), (5, 7)])
    batch = PackedGraphs.from_graphs(graphs).batch([2, 1, 0])
    for example, index in zip(batch.to_data_list(), [2, 1, 0], strict=True):
        truth = as_data(graphs[index])
        for name in ("x", "edge_index", "edge_attr", "y"):
            assert torch.equal(example[name], truth[name])
    assert torch.equal(batch.to("cpu").clone()[0].x, batch.get_example(0).x)


def test_a_batch_shares_no_memory_with_what_it_came_from():
    packed, chosen = PackedGraphs.from_graphs(make(0, [(2, 2)] * 3)), np.array([2, 0])
    batch = packed.batch(chosen)
    for value in batch.to_dict().values():
        value.zero_()
    assert chosen.tolist() == [2, 0]
    assert packed.batch([2]).x.abs().sum() > 0


def test_single_graph_and_negative_index():
    packed = PackedGraphs.from_graphs(make(1, [(2, 2), (4, 3)]))
    assert torch.equal(packed[-1].x, packed[1].x)
    assert packed[1].num_nodes == 4
    with pytest.raises(IndexError, match="graph 2"):
        packed[2]
    with pytest.raises(IndexError, match="graph 7"):
        packed.batch([0, 7])


def test_graphs_without_any_features_know_their_size():
    packed = PackedGraphs.from_graphs([Graph(4, np.zeros((2, 0), int), {})])
    assert packed[0].num_nodes == 4
    assert packed.batch([0, 0]).num_nodes == 8


def test_parts_stand_side_by_side_and_one_hot_of_outside_is_zero():
    graph = Graph(
        2,
        np.array([[0, 1, 0], [1, 0, 0]]),
        {"edge.kind": np.array([0, 2, 1]), "edge.length": np.array([0.5, 1.5, 2.5])},
    )
    parts = (Part("edge.kind", one_hot=2), Part("edge.length"))
    packed = PackedGraphs.from_graphs([graph], fields={"edge_attr": Field(parts)})
    # Sorted by destination: (1, 0), (0, 0), (0, 1).
    expected = [[0, 0, 1.5], [0, 1, 2.5], [1, 0, 0.5]]
    assert packed[0].edge_attr.tolist() == expected


def test_arrays_can_be_added_later():
    packed = PackedGraphs.from_graphs(make(2, [(2, 3), (3, 2)]))
    colours = np.arange(5, dtype=np.int64) * 10
    batch = packed.with_array("edge", "colour", colours).batch([1, 0])
    assert batch.colour.tolist() == [30, 40, 0, 10, 20]
    with pytest.raises(DataError, match="5.*2"):
        packed.with_array("graph", "colour", colours)


def test_texts_belong_to_their_graphs():
    from fullrank.data.packed.graphs import text_arrays

    words = ["C", "", "naïve", "N#N"]
    packed = PackedGraphs.from_graphs(
        make(3, [(1, 0)] * 4), arrays=text_arrays("name", words)
    )
    assert list(packed.texts("name")) == words
    assert packed.texts("name")[-1] == "N#N"
    with pytest.raises(IndexError, match="4"):
        packed.texts("name")[4]
    with pytest.raises(DataError, match="'smiles'"):
        packed.texts("smiles")


def test_wrong_graphs_are_named():
    none = np.zeros((2, 0), int)
    with pytest.raises(DataError, match="graph 1"):
        PackedGraphs.from_graphs([Graph(2, none, {}), Graph(0, none, {})])
    with pytest.raises(DataError, match=r"edge 1 .*\(0, 2\).*graph 1"):
        PackedGraphs.from_graphs(
            [Graph(2, np.array([[0], [1]]), {}), Graph(2, np.array([[0], [2]]), {})]
        )
    with pytest.raises(DataError, match="edge 0 .*graph 0.*graph 1"):
        PackedGraphs.pack(np.array([2, 2]), np.array([[0], [2]]))
    with pytest.raises(DataError, match="-1"):
        PackedGraphs.pack(np.array([2]), np.array([[0], [-1]]))
    with pytest.raises(DataError, match=r"'node\.x'.*3.*2"):
        PackedGraphs.pack(np.array([2]), none, {"node.x": np.zeros(3)})


def test_edges_of_all_graphs_may_come_in_any_order():
    edges = np.array([[3, 0, 2, 1], [2, 1, 3, 0]])
    weights = np.array([32.0, 1.0, 23.0, 10.0])
    packed = PackedGraphs.pack(np.array([2, 2]), edges, {"edge.weight": weights})
    assert packed[0].edge_index.tolist() == [[1, 0], [0, 1]]
    assert packed[0].weight.tolist() == [10, 1]
    assert packed[1].edge_index.tolist() == [[1, 0], [0, 1]]
    assert packed[1].weight.tolist() == [32, 23]
