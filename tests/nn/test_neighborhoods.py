"""Which pairs the layers aggregate over: formats, directions, loops, categories."""

import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.utils import to_torch_coo_tensor, to_torch_csr_tensor

from fullrank.nn import CombConv, ExpandingConv
from fullrank.testing import relative_difference
from nn.both_layers import LAYERS, both, graph
from nn.plain_formula import plain_layer
from nn.strategies import features


@both
@pytest.mark.parametrize(
    "convert",
    [
        lambda edges: EdgeIndex(edges.contiguous()),
        lambda edges: to_torch_csr_tensor(edges.flip(0), size=(9, 9)),
        lambda edges: to_torch_coo_tensor(edges.flip(0), size=(9, 9)),
    ],
    ids=["EdgeIndex", "CSR", "COO"],
)
def test_adjacency_formats(cls, convert):
    conv = cls(5, 4)
    x, edge_index = graph()
    edge_index = torch.unique(edge_index, dim=1)
    expected = conv(x, edge_index)
    assert relative_difference(conv(x, convert(edge_index)), expected) <= 1e-6


@both
def test_sparse_tensor(cls):
    torch_sparse = pytest.importorskip("torch_sparse")
    conv = cls(5, 4)
    x, edge_index = graph()
    adjacency = torch_sparse.SparseTensor.from_edge_index(edge_index).t()
    expected = conv(x, edge_index)
    assert relative_difference(conv(x, adjacency), expected) <= 1e-6


@both
def test_flow(cls):
    x, edge_index = graph()
    torch.manual_seed(0)
    forth = cls(5, 4)
    torch.manual_seed(0)
    back = cls(5, 4, flow="target_to_source")
    assert torch.equal(forth(x, edge_index), back(x, edge_index.flip(0)))


@both
def test_without_self_loops_added_the_graph_is_taken_as_it_is(cls):
    conv = cls(5, 4, add_self_loops=False)
    x, edge_index = graph()
    edge_index[:, 0] = 3  # a loop that counts
    truth = plain_layer(
        conv, x, edge_index, expanding=cls is ExpandingConv, add_self_loops=False
    )
    assert relative_difference(conv(x, edge_index), truth) <= 1e-5


@pytest.mark.parametrize("re_sum", [True, False])
@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_bipartite_graphs(name, re_sum, loops):
    widths = (5, 5) if loops else (5, 3)
    cls = {"ExpC": ExpandingConv, "CombC": CombConv}[name]
    conv = cls(widths, 4, re_sum=re_sum, bipartite_self_loops=loops).double()
    x_src, x_dst = features(6, widths[0], 0), features(4, widths[1], 1)
    edge_index = torch.tensor([[0, 1, 2, 3, 0, 5], [0, 1, 2, 3, 1, 0]])
    output = conv((x_src, x_dst), edge_index)
    if loops:
        # A destination that is its own neighbour is one more source.
        added = torch.stack([torch.arange(4) + 6, torch.arange(4)])
        edge_index = torch.cat([edge_index, added], dim=1)
        x_src = torch.cat([x_src, x_dst])
    truth = plain_layer(conv, (x_src, x_dst), edge_index, expanding=name == "ExpC")
    assert output.shape == (4, 4)
    assert relative_difference(output, truth) <= 1e-12


@pytest.mark.parametrize("name", LAYERS)
def test_categorical_edges_are_sums_of_embeddings(name):
    conv = LAYERS[name](edge_dim=(5, 6, 2)).double()
    x, edge_index = features(7, 5, 0), torch.randint(7, (2, 20))
    categories = torch.stack([torch.randint(n, (20,)) for n in (5, 6, 2)], dim=1)
    tables = conv.edge_lin.weight.t().split([5, 6, 2])
    embedded = sum(table[categories[:, i]] for i, table in enumerate(tables))
    # The plain formula with the embeddings themselves as features.
    same = LAYERS[name](edge_dim=5).double()
    same.load_state_dict(conv.state_dict() | {"edge_lin.weight": torch.eye(5)})
    truth = plain_layer(same, x, edge_index, embedded, expanding=name == "ExpC")
    assert relative_difference(conv(x, edge_index, categories), truth) <= 1e-12


@both
class TestErrors:
    def test_categories(self, cls):
        x, edge_index = graph()
        conv = cls(5, 4, edge_dim=(5, 2))
        categories = torch.zeros(30, 2, dtype=torch.long)
        categories[4, 1] = 2
        with pytest.raises(ValueError, match=r"\[4, 1\].*2.*2"):
            conv(x, edge_index, categories)
        with pytest.raises(ValueError, match="float32"):
            conv(x, edge_index, categories.float())

    def test_indices(self, cls):
        x, edge_index = graph()
        edge_index[0, 3] = 9
        with pytest.raises(ValueError, match="source.* 9"):
            cls(5, 4)(x, edge_index)
        edge_index[0, 3] = 0
        edge_index[1, 3] = -1
        with pytest.raises(ValueError, match="destination.*-1"):
            cls(5, 4)(x, edge_index)

    def test_shape_of_edge_index(self, cls):
        with pytest.raises(ValueError, match=r"\[30, 2\]"):
            cls(5, 4)(graph()[0], graph()[1].t())
        with pytest.raises(ValueError, match="float32"):
            cls(5, 4)(graph()[0], graph()[1].float())

    def test_colors_need_each_other(self, cls):
        x, edge_index = graph()
        with pytest.raises(ValueError, match="node_color"):
            cls(5, 4)(x, edge_index, edge_color=torch.zeros(30, dtype=torch.long))

    def test_lengths_of_colors(self, cls):
        x, edge_index = graph()
        edge_color, node_color = torch.zeros(30).long(), torch.zeros(9).long()
        with pytest.raises(ValueError, match="edge_color.*29.*30"):
            cls(5, 4)(x, edge_index, edge_color=edge_color[1:], node_color=node_color)
        with pytest.raises(ValueError, match="node_color.*8.*9"):
            cls(5, 4)(x, edge_index, edge_color=edge_color, node_color=node_color[1:])
