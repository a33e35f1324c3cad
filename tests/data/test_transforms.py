import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import Compose

from fullrank.data.packed.graphs import Graph, PackedGraphs
from fullrank.data.pair_structure import continuous_structure
from fullrank.data.structure import structural_colors
from fullrank.data.transforms import AddContinuousStructure, AddStructuralColors
from fullrank.errors import DataError

TRIANGLE = [[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]]
PATH = [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]


@pytest.fixture
def graphs():
    """Two graphs whose edges come sorted by destination, as a packed set keeps them."""
    return [
        Data(
            x=torch.arange(max(edges[0]) + 1).view(-1, 1) % 2,
            edge_index=sorted_by_destination(torch.tensor(edges)),
            edge_attr=torch.tensor([0.0, 0.0, 1.0, 1.0, 0.0, 0.0]),
        )
        for edges in (TRIANGLE, PATH)
    ]


def sorted_by_destination(edge_index):
    return edge_index[:, edge_index[1].argsort(stable=True)]


def packed(graphs):
    return PackedGraphs.from_graphs(
        [
            Graph(
                graph.num_nodes,
                graph.edge_index.numpy(),
                {
                    "node.x": graph.x.numpy(),
                    "edge.edge_attr": graph.edge_attr.numpy(),
                },
            )
            for graph in graphs
        ]
    )


@pytest.mark.parametrize(
    "labels", [{}, {"node_labels": "x"}, {"edge_labels": "edge_attr"}]
)
def test_colors_one_graph_a_batch_and_a_packed_set_alike(graphs, labels):
    transform = AddStructuralColors(hops=1, **labels)
    alone = [transform(graph) for graph in graphs]
    batch = transform(Batch.from_data_list(graphs))
    stored = transform.pack(packed(graphs)).batch([0, 1])
    for name in ("edge_color", "node_color"):
        expected = torch.cat([graph[name] for graph in alone])
        assert expected.dtype == torch.int64
        assert torch.equal(batch[name], expected)
        assert torch.equal(stored[name], expected)


def test_a_saved_set_keeps_its_colors(graphs, tmp_path):
    colored = AddStructuralColors().pack(packed(graphs))
    colored.save(tmp_path / "set")
    batch = PackedGraphs.open(tmp_path / "set").batch([1, 0])
    assert torch.equal(batch.edge_color, colored.batch([1, 0]).edge_color)
    assert torch.equal(batch.node_color, colored.batch([1, 0]).node_color)


def test_passes_its_settings_on(graphs):
    graph = graphs[1]
    settings = {"hops": None, "rounds": 1, "mark": "center"}
    colors = structural_colors(
        graph.edge_index.numpy(),
        graph.num_nodes,
        node_labels=graph.x.numpy(),
        edge_labels=graph.edge_attr.numpy(),
        **settings,
    )
    names = {"node_labels": "x", "edge_labels": "edge_attr"}
    colored = AddStructuralColors(**settings, **names)(graph)
    assert colored.edge_color.tolist() == colors.edge.tolist()
    assert colored.node_color.tolist() == colors.node.tolist()


def test_leaves_the_given_graph_as_it_was(graphs):
    Compose([AddStructuralColors()])(graphs[0])
    assert "edge_color" not in graphs[0]


def test_labels_may_be_an_array_that_batches_do_not_carry(graphs):
    bare = packed(graphs)
    hidden = PackedGraphs(
        bare.node_ptr, bare.edge_ptr, bare.src, bare.dst, bare.arrays, fields={}
    )
    transform = AddStructuralColors(node_labels="x")
    colored = transform.pack(hidden)
    assert list(colored.fields) == ["edge_color", "node_color"]
    assert torch.equal(
        colored.batch([0, 1]).node_color, transform.pack(bare).batch([0, 1]).node_color
    )


def test_missing_labels_are_named(graphs):
    transform = AddStructuralColors(node_labels="z")
    with pytest.raises(DataError, match="'z'"):
        transform(graphs[0])
    with pytest.raises(DataError, match="'z'"):
        transform.pack(packed(graphs))
    with pytest.raises(DataError, match="'edge_attr'"):
        AddStructuralColors(node_labels="edge_attr").pack(packed(graphs))


def test_memory_limit_is_passed_on(graphs):
    with pytest.raises(ValueError, match="memory_limit"):
        AddStructuralColors(memory_limit=10)(graphs[0])


def test_repr():
    assert repr(AddStructuralColors(1)) == "AddStructuralColors(hops=1, mark='pair')"
    assert repr(AddContinuousStructure()) == "AddContinuousStructure(walk_length=8)"


def test_describes_one_graph_a_batch_and_a_packed_set_alike(graphs, tmp_path):
    transform = AddContinuousStructure(walk_length=3, max_ring=3)
    alone = [transform(graph) for graph in graphs]
    batch = transform(Batch.from_data_list(graphs))
    transform.pack(packed(graphs)).save(tmp_path / "set")
    stored = PackedGraphs.open(tmp_path / "set").batch([0, 1])
    for name in ("edge_color", "node_color"):
        expected = torch.cat([graph[name] for graph in alone])
        torch.testing.assert_close(batch[name], expected)
        torch.testing.assert_close(stored[name], expected.float())
    triangle = continuous_structure(
        graphs[0].edge_index.numpy(), 3, walk_length=3, max_ring=3
    )
    assert alone[0].edge_color.tolist() == triangle.edge.tolist()
