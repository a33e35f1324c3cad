"""What a PyG user expects of a layer, for both of ours."""

import copy

import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.nn import HeteroConv, Sequential, global_add_pool
from torch_geometric.utils import (
    to_torch_coo_tensor,
    to_torch_csr_tensor,
    trim_to_layer,
)

from fullrank.nn import CombConv, ExpandingConv, OneCoefficients
from fullrank.testing import (
    assert_permutation_equivariant,
    random_graph,
    relative_difference,
)
from nn.plain_formula import plain_layer

LAYERS = [ExpandingConv, CombConv]
both = pytest.mark.parametrize("cls", LAYERS)


def graph(edge_dim=None, num_edges=30):
    return random_graph(5, num_nodes=9, num_edges=num_edges, edge_dim=edge_dim)


def agrees_with_the_formula(conv, *inputs):
    truth = plain_layer(conv, *inputs, expanding=isinstance(conv, ExpandingConv))
    return relative_difference(conv(*inputs), truth) <= 1e-5


def test_repr():
    assert str(ExpandingConv(5, 4)) == "ExpandingConv(5, 4, num_aggregators=4)"
    assert str(CombConv((5, 3), 4, re_sum=False)) == "CombConv((5, 3), 4, re_sum=False)"


@both
def test_public_sublayers(cls):
    conv = cls(5, 4, edge_dim=3)
    s = 4 if cls is ExpandingConv else 1
    width = 4 if cls is ExpandingConv else 5
    assert conv.coefficients.lin.weight.shape == (width, 10)
    assert [type(m).__name__ for m in conv.mlp] == ["Linear", "ReLU", "Linear", "ReLU"]
    assert conv.mlp[0].weight.shape == (4, s * 5)
    assert conv.mlp[2].weight.shape == (4, 4)
    assert conv.edge_lin.weight.shape == (5, 3)


@both
def test_reset_parameters_draws_every_weight_anew(cls):
    conv = cls(5, 4, edge_dim=3)
    before = copy.deepcopy(conv.state_dict())
    conv.reset_parameters()
    assert all(not torch.equal(before[k], v) for k, v in conv.state_dict().items())


@both
def test_permutation_equivariance(cls):
    assert_permutation_equivariant(cls(5, 4, edge_dim=3), *graph(edge_dim=3))


@both
@pytest.mark.parametrize("in_channels", [-1, (-1, -1)])
@pytest.mark.parametrize("edge_dim", [None, 3])
def test_lazy_sizes(cls, in_channels, edge_dim):
    conv = cls(in_channels, 4, edge_dim=edge_dim)
    x, edge_index, *edge_attr = graph(edge_dim)
    inputs = (x if in_channels == -1 else (x, x), edge_index, *edge_attr)
    assert conv(*inputs).shape == (9, 4)
    assert agrees_with_the_formula(conv, *inputs)


@both
def test_a_lazy_layer_loads_the_weights_of_a_made_one(cls):
    made, lazy = cls(5, 4), cls(-1, 4)
    x, edge_index = graph()
    lazy(x, edge_index)
    lazy.load_state_dict(made.state_dict())
    assert torch.equal(lazy(x, edge_index), made(x, edge_index))


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


@both
def test_hetero_conv(cls):
    data = HeteroData()
    data["a"].x, data["b"].x = torch.randn(6, 5), torch.randn(4, 3)
    edges = torch.stack([torch.randint(6, (8,)), torch.randint(4, (8,))])
    data["a", "to", "b"].edge_index = edges
    data["b", "to", "a"].edge_index = edges.flip(0)
    conv = HeteroConv(
        {("a", "to", "b"): cls((5, 3), 4), ("b", "to", "a"): cls((-1, -1), 4)}
    )
    out = conv(data.x_dict, data.edge_index_dict)
    assert {k: tuple(v.shape) for k, v in out.items()} == {"a": (6, 4), "b": (4, 4)}
    single = conv.convs[("a", "to", "b")]
    truth = plain_layer(
        single,
        (data["a"].x, data["b"].x),
        edges,
        expanding=cls is ExpandingConv,
    )
    assert relative_difference(out["b"], truth) <= 1e-5


@both
def test_pyg_sequential(cls):
    first, second = cls(5, 4), cls(4, 2)
    model = Sequential(
        "x, edge_index",
        [(first, "x, edge_index -> x"), (second, "x, edge_index -> x")],
    )
    x, edge_index = graph()
    expected = second(first(x, edge_index), edge_index)
    assert torch.equal(model(x, edge_index), expected)


@both
def test_trimmed_layers_agree_with_the_whole(cls):
    """What NeighborLoader training with trim_to_layer does, hop by hop."""
    # Node 0 is the seed, 1-2 its neighbours, 3-5 theirs.
    edge_index = torch.tensor([[1, 2, 3, 4, 5, 4], [0, 0, 1, 1, 2, 2]])
    nodes_per_hop, edges_per_hop = [1, 2, 3], [2, 4]
    x = torch.randn(6, 5)
    convs = [cls(5, 5), cls(5, 4)]
    whole = trimmed = x
    edges = edge_index
    for layer, conv in enumerate(convs):
        trimmed, edges, _ = trim_to_layer(
            layer, nodes_per_hop, edges_per_hop, trimmed, edges
        )
        trimmed = conv(trimmed, edges)
        whole = conv(whole, edge_index)
    assert relative_difference(trimmed[0], whole[0]) <= 1e-5


@both
def test_neighbor_loader(cls):
    pytest.importorskip("pyg_lib")
    from torch_geometric.loader import NeighborLoader

    x, edge_index = graph()
    loader = NeighborLoader(Data(x=x, edge_index=edge_index), [-1], batch_size=4)
    conv = cls(5, 4)
    expected = conv(x, edge_index)
    for batch in loader:
        out = conv(batch.x, batch.edge_index)[: batch.batch_size]
        assert relative_difference(out, expected[batch.n_id[: batch.batch_size]]) < 1e-5


@both
@pytest.mark.parametrize("re_sum", [True, False])
def test_gnn_explainer_finds_the_edge_that_matters(cls, re_sum):
    """One source has features, all others have none: the edge from it must win."""
    torch.manual_seed(0)
    conv = cls(5, 4, re_sum=re_sum)
    for lin in (conv.mlp[0], conv.mlp[2]):
        torch.nn.init.zeros_(lin.bias)  # so that no features mean no message
    x = torch.zeros(6, 5)
    x[3] = 3.0
    edge_index = torch.tensor([[1, 2, 3, 4, 5, 0], [0, 0, 0, 0, 0, 0]])

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = conv

        def forward(self, x, edge_index):
            return global_add_pool(conv(x, edge_index)[:1], None)

    explainer = Explainer(
        Model(),
        GNNExplainer(epochs=60),
        explanation_type="model",
        edge_mask_type="object",
        model_config={"mode": "regression", "task_level": "graph"},
    )
    mask = explainer(x, edge_index).edge_mask
    assert mask.argmax() == 2
    assert not conv.explain


@both
@pytest.mark.parametrize("re_sum", [True, False])
@pytest.mark.parametrize("edge_dim", [None, 3])
def test_the_watched_path_computes_the_same(cls, re_sum, edge_dim):
    """Message hooks, like explainers, see messages by PyG's propagate."""
    conv = cls(5, 4, re_sum=re_sum, edge_dim=edge_dim).double()
    inputs = tuple(t.double() if t.is_floating_point() else t for t in graph(edge_dim))
    expected = conv(*inputs)
    seen = []
    conv.register_message_forward_hook(lambda module, inputs, out: seen.append(out))
    assert relative_difference(conv(*inputs), expected) <= 1e-12
    (messages,) = seen
    assert messages.shape[0] == conv.neighborhoods(*inputs).src.numel()


@both
@pytest.mark.parametrize("re_sum", [True, False])
@pytest.mark.parametrize("edge_dim", [None, 3])
def test_compile_without_breaks_and_with_any_size(cls, re_sum, edge_dim):
    torch._dynamo.reset()
    conv = cls(5, 4, re_sum=re_sum, edge_dim=edge_dim)
    compiled = torch.compile(conv, fullgraph=True, dynamic=True, backend="aot_eager")
    for num_nodes, num_edges in ((9, 30), (13, 41), (5, 7)):
        x, edge_index, *attr = random_graph(5, num_nodes, num_edges, edge_dim)
        edge_index[:, 0] = 2  # a self-loop to be removed
        x.requires_grad_()
        ours, eager = compiled(x, edge_index, *attr), conv(x, edge_index, *attr)
        assert relative_difference(ours, eager) <= 1e-5
        gradients = [torch.autograd.grad(o.square().sum(), x)[0] for o in (ours, eager)]
        assert relative_difference(*gradients) <= 1e-5


@both
def test_export_with_any_size(cls):
    conv = cls(5, 4, edge_dim=3)
    auto = torch.export.Dim.AUTO
    exported = torch.export.export(
        conv,
        graph(edge_dim=3),
        dynamic_shapes={
            "x": {0: auto},
            "edge_index": {1: auto},
            "edge_attr": {0: auto},
        },
    ).module()
    other = random_graph(5, 14, 33, edge_dim=3, seed=1)
    assert relative_difference(exported(*other), conv(*other)) <= 1e-5


@both
@pytest.mark.parametrize("re_sum", [True, False])
def test_autocast(cls, re_sum):
    conv = cls(5, 4, re_sum=re_sum, edge_dim=3)
    inputs = graph(edge_dim=3)
    expected = conv(*inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = conv(*inputs)
    out.float().sum().backward()
    assert relative_difference(out.float(), expected) <= 0.05
    assert all(
        p.grad is not None and p.grad.isfinite().all() for p in conv.parameters()
    )


@both
@pytest.mark.parametrize("re_sum", [True, False])
def test_deterministic_algorithms(cls, re_sum):
    conv = cls(5, 4, re_sum=re_sum, edge_dim=3)
    inputs = graph(edge_dim=3, num_edges=500)
    torch.use_deterministic_algorithms(True)
    try:
        results = []
        for _ in range(2):
            conv.zero_grad()
            out = conv(*inputs)
            out.sum().backward()
            results.append([out, *(p.grad for p in conv.parameters())])
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@both
def test_meta_device(cls):
    conv = cls(5, 4).to("meta")
    x, edge_index = (t.to("meta") for t in graph())
    assert cls(5, 4, add_self_loops=False).to("meta")(x, edge_index).shape == (9, 4)
    assert conv.mlp[0].weight.device.type == "meta"


@both
@pytest.mark.parametrize("re_sum", [True, False])
def test_nan_is_let_through(cls, re_sum):
    conv = cls(5, 4, re_sum=re_sum)
    x = torch.ones(4, 5)
    x[1, 0] = float("nan")
    out = conv(x, torch.tensor([[1, 2], [0, 3]]))
    assert out.isnan().any(dim=1).tolist() == [True, True, False, False]


@both
class TestErrors:
    def test_widths(self, cls):
        with pytest.raises(ValueError, match=r"\[num_nodes, 5\], got \[9, 7\]"):
            cls(5, 4)(torch.randn(9, 7), graph()[1])
        with pytest.raises(
            ValueError, match="in_channels must be positive or -1, got 0"
        ):
            cls(0, 4)
        with pytest.raises(ValueError, match="out_channels must be at least 1, got 0"):
            cls(5, 0)
        with pytest.raises(ValueError, match=r"\(x, None\)"):
            cls(5, 4)((torch.randn(9, 5), None), graph()[1])
        conv = cls((5, 3), 4, bipartite_self_loops=True)
        with pytest.raises(ValueError, match="one width on both sides, got 5 and 3"):
            conv((torch.randn(9, 5), torch.randn(9, 3)), graph()[1])

    def test_edge_features(self, cls):
        x, edge_index, edge_attr = graph(edge_dim=3)
        with pytest.raises(ValueError, match="edge_attr is missing.*edge_dim=3"):
            cls(5, 4, edge_dim=3)(x, edge_index)
        with pytest.raises(ValueError, match="made without edge_dim"):
            cls(5, 4)(x, edge_index, edge_attr)
        with pytest.raises(ValueError, match=r"2 columns.*got shape \[30, 3\]"):
            cls(5, 4, edge_dim=2)(x, edge_index, edge_attr)
        with pytest.raises(ValueError, match="29 rows for 30 edges"):
            cls(5, 4, edge_dim=3)(x, edge_index, edge_attr[1:])
        with pytest.raises(ValueError, match="edge_dim must be at least 1, got 0"):
            cls(5, 4, edge_dim=0)

    def test_categories(self, cls):
        x, edge_index = graph()
        conv = cls(5, 4, edge_dim=(5, 2))
        categories = torch.zeros(30, 2, dtype=torch.long)
        categories[4, 1] = 2
        with pytest.raises(ValueError, match=r"edge_attr\[4, 1\] is 2.*has 2 values"):
            conv(x, edge_index, categories)
        with pytest.raises(ValueError, match="must hold integers.*float32"):
            conv(x, edge_index, categories.float())

    def test_indices(self, cls):
        x, edge_index = graph()
        edge_index[0, 3] = 9
        with pytest.raises(ValueError, match="source node 9.*only 9 of them"):
            cls(5, 4)(x, edge_index)
        edge_index[0, 3] = 0
        edge_index[1, 3] = -1
        with pytest.raises(ValueError, match="destination node -1"):
            cls(5, 4)(x, edge_index)

    def test_shape_of_edge_index(self, cls):
        with pytest.raises(ValueError, match=r"\[2, num_edges\], got \[30, 2\]"):
            cls(5, 4)(graph()[0], graph()[1].t())
        with pytest.raises(ValueError, match="must hold integers, got torch.float32"):
            cls(5, 4)(graph()[0], graph()[1].float())

    def test_colors_need_each_other(self, cls):
        x, edge_index = graph()
        with pytest.raises(ValueError, match="edge_color was given without node_color"):
            cls(5, 4)(x, edge_index, edge_color=torch.zeros(30, dtype=torch.long))


def test_number_of_aggregators():
    with pytest.raises(ValueError, match="num_aggregators must be at least 1, got 0"):
        ExpandingConv(5, 4, 0)
    with pytest.raises(ValueError, match=r"each of the 5 source features.*with 3"):
        CombConv(5, 4, coefficients=OneCoefficients(3))
