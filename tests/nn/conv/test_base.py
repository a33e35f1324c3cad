"""What a PyG user expects of a layer, for both of ours."""

import copy
import functools

import pytest
import torch
from torch.nn.utils import prune
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import Explainer, GNNExplainer, GraphMaskExplainer
from torch_geometric.nn import (
    HeteroConv,
    Sequential,
    global_add_pool,
    to_hetero_with_bases,
)
from torch_geometric.utils import scatter, trim_to_layer

from fullrank.nn import (
    CombConv,
    ExpandingConv,
    OneCoefficients,
    Stack,
    TanhCoefficients,
    backend,
)
from fullrank.testing import (
    assert_permutation_equivariant,
    random_graph,
    relative_difference,
)
from nn.both_layers import agrees_with_the_formula, both, graph
from nn.plain_formula import plain_layer


def test_repr():
    assert str(ExpandingConv(5, 4)) == "ExpandingConv(5, 4, num_aggregators=4)"
    assert str(CombConv((5, 3), 4, re_sum=False)) == "CombConv((5, 3), 4, re_sum=False)"
    assert str(CombConv(5, 4, edge_dim=3, aggr="max")) == (
        "CombConv(5, 4, edge_dim=3, aggr=max)"
    )
    stack = Stack(TanhCoefficients(5, 4), OneCoefficients())
    assert str(ExpandingConv(5, 4, coefficients=stack)) == (
        "ExpandingConv(5, 4, num_aggregators=5, "
        "coefficients=Stack(TanhCoefficients(4), OneCoefficients(1)))"
    )


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
@pytest.mark.parametrize("edge_dim", [None, 3, (2, 3)])
def test_a_fresh_lazy_layer_loads_the_weights_of_a_made_one(cls, edge_dim):
    made, lazy = cls(5, 4, edge_dim=edge_dim), cls(-1, 4, edge_dim=edge_dim)
    lazy.load_state_dict(made.state_dict())
    x, edge_index = graph()
    inputs = (x, edge_index)
    if edge_dim is not None:
        columns = 3 if edge_dim == 3 else 2
        inputs += (torch.ones(30, columns, dtype=torch.long),)
    assert torch.equal(lazy(*inputs), made(*inputs))


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
def test_propagate_computes_the_same(cls, re_sum, edge_dim):
    """Message hooks, like explainers, see a message for each edge."""
    conv = cls(5, 4, re_sum=re_sum, edge_dim=edge_dim).double()
    inputs = tuple(t.double() if t.is_floating_point() else t for t in graph(edge_dim))
    inputs[1][:, 7] = 3  # a self-loop, which does not count
    expected = conv(*inputs)
    seen = []
    conv.register_message_forward_hook(lambda module, inputs, out: seen.append(out))
    assert relative_difference(conv(*inputs), expected) <= 1e-12
    (messages,) = seen
    assert messages.shape[0] == inputs[1].size(1)


@both
@pytest.mark.parametrize("stage", ["propagate", "message", "aggregate"])
@pytest.mark.parametrize("when", ["_pre", ""])
def test_hooks_on_any_stage_are_called(cls, stage, when):
    conv, seen = cls(5, 4), []
    register = getattr(conv, f"register_{stage}_forward{when}_hook")
    register(lambda module, *_: seen.append(module))
    conv(*graph())
    assert seen == [conv]


@both
@pytest.mark.parametrize("method", ["message", "aggregate", "update"])
def test_a_subclass_may_change_any_stage(cls, method):
    original = getattr(cls, method)

    @functools.wraps(original)
    def doubled(*args, **kwargs):
        return 2 * original(*args, **kwargs)

    conv, changed = cls(5, 4), type("Changed", (cls,), {method: doubled})(5, 4)
    changed.load_state_dict(conv.state_dict())
    inputs = graph()
    assert relative_difference(changed(*inputs), 2 * conv(*inputs)) <= 1e-6


INSIDE = [name for name, _ in ExpandingConv(5, 4, edge_dim=3).named_modules() if name]


@both
@pytest.mark.parametrize("re_sum", [True, False])
@pytest.mark.parametrize("name", INSIDE)
def test_a_hooked_module_is_called(cls, re_sum, name):
    conv, seen = cls(5, 4, re_sum=re_sum, edge_dim=3), []
    module, inputs = conv.get_submodule(name), graph(edge_dim=3)
    with module.register_forward_hook(lambda module, *_: seen.append(module)):
        output = conv(*inputs)
    assert seen == [module]
    assert relative_difference(output, conv(*inputs)) <= 1e-5


@both
@pytest.mark.parametrize("name", ["mlp.0", "mlp.2", "coefficients.lin", "edge_lin"])
@pytest.mark.parametrize(
    "change",
    [
        lambda module: prune.random_unstructured(module, "weight", 0.5),
        torch.nn.utils.spectral_norm,
    ],
    ids=["pruned", "spectral norm"],
)
def test_weights_made_by_hooks_are_trained_and_used(cls, name, change):
    torch.manual_seed(0)
    conv, inputs = cls(5, 4, edge_dim=3), graph(edge_dim=3)
    module = change(conv.get_submodule(name))
    before = module.weight_orig.clone()
    optimizer = torch.optim.SGD(conv.parameters(), lr=0.1, maximize=True)
    conv(*inputs).sum().backward()
    optimizer.step()
    assert not torch.equal(module.weight_orig, before)
    assert agrees_with_the_formula(conv.eval(), *inputs)


@both
def test_parametrised_weights_keep_the_fast_path(cls):
    conv, inputs = cls(5, 4), graph()
    for linear in (conv.mlp[0], conv.mlp[2]):
        torch.nn.utils.parametrizations.spectral_norm(linear)
    assert conv.eval().paper_mlp() is not None
    assert agrees_with_the_formula(conv, *inputs)


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
def test_meta_device(cls, re_sum):
    conv = cls(5, 4, re_sum=re_sum, edge_dim=3).to("meta")
    x, edge_index, edge_attr = (t.to("meta") for t in graph(edge_dim=3))
    out = conv(x.requires_grad_(), edge_index, edge_attr)
    assert out.shape == (9, 4)
    assert out.device.type == "meta"
    (grad,) = torch.autograd.grad(out.sum(), x)
    assert grad.shape == x.shape


@both
@pytest.mark.parametrize("re_sum", [True, False])
@pytest.mark.parametrize("name", ["plain", "cpu", "portable"])
def test_nan_is_let_through(cls, re_sum, name):
    conv = cls(5, 4, re_sum=re_sum)
    x = torch.ones(4, 5)
    x[1, 0] = float("nan")
    with backend(name):
        out = conv(x.requires_grad_(), torch.tensor([[1, 2], [0, 3]]))
        (grad,) = torch.autograd.grad(out.sum(), x)
    assert out.isnan().any(dim=1).tolist() == [True, True, False, False]
    # Node 0 is the neighbour of itself and of node 1, nodes 2 and 3 of neither.
    assert grad.isnan().any(dim=1).tolist() == [True, True, False, False]


@both
def test_graph_mask_explainer(cls):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = cls(5, 8), cls(8, 3)

        def forward(self, x, edge_index):
            h = self.first(x, edge_index).relu()
            return self.second(h, edge_index).log_softmax(dim=-1)

    explainer = Explainer(
        Model(),
        GraphMaskExplainer(2, epochs=2, log=False),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config={
            "mode": "multiclass_classification",
            "task_level": "node",
            "return_type": "log_probs",
        },
    )
    x, edge_index = graph()
    explanation = explainer(x, edge_index, index=2)
    assert explanation.edge_mask.shape == (30,)
    assert explanation.node_mask.shape == x.shape


@both
@pytest.mark.parametrize("re_sum", [True, False])
def test_jit_trace_with_other_sizes(cls, re_sum):
    conv = cls(5, 4, re_sum=re_sum, edge_dim=3)
    x, edge_index, edge_attr = graph(edge_dim=3)
    edge_index[1] = (edge_index[0] + 1) % 9  # no self-loop, as far as the trace sees
    traced = torch.jit.trace(conv, (x, edge_index, edge_attr))
    other = random_graph(5, 14, 33, edge_dim=3, seed=1)
    other[1][:, 0] = 3
    assert relative_difference(traced(*other), conv(*other)) <= 1e-5


@both
def test_size(cls):
    x, edge_index = graph()
    conv = cls(5, 4)
    assert torch.equal(conv(x, edge_index, size=(9, 9)), conv(x, edge_index))
    with pytest.raises(ValueError, match=r"\(9, 8\)"):
        conv(x, edge_index, size=(9, 8))
    ends = torch.stack([edge_index[0], edge_index[1] % 4])
    assert conv((x, x[:4]), ends, size=(9, 4)).shape == (4, 4)


@both
@pytest.mark.parametrize("in_channels", [5, -1])
def test_lazy_edge_features(cls, in_channels):
    conv = cls(in_channels, 4, edge_dim=-1)
    inputs = graph(edge_dim=3)
    assert agrees_with_the_formula(conv, *inputs)
    assert conv.edge_lin.weight.shape == (5, 3)
    with pytest.raises(ValueError, match=r"\[30, 2\]"):
        conv(*inputs[:2], inputs[2][:, :2])


@both
def test_a_subclass_without_aggr(cls):
    class Own(cls):
        def aggregate(self, inputs, index, ptr=None, dim_size=None):
            return scatter(inputs, index, dim_size=dim_size)

    own, conv = Own(5, 4, aggr=None), cls(5, 4)
    own.load_state_dict(conv.state_dict())
    assert relative_difference(own(*graph()), conv(*graph())) <= 1e-6
    with pytest.raises(ValueError, match="aggr.*None"):
        cls(5, 4, aggr=None)


@both
def test_hetero_with_bases_and_own_terms(cls):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = cls(5, 4)

        def forward(self, x, edge_index):
            return self.conv(x, edge_index)

    forth, back = ("a", "to", "b"), ("b", "to", "a")
    model = to_hetero_with_bases(Model(), (["a", "b"], [forth, back]), num_bases=2)
    x = {"a": torch.randn(6, 5), "b": torch.randn(4, 5)}
    ends = torch.stack([torch.randint(6, (8,)), torch.randint(4, (8,))])
    out = model(x, {forth: ends, back: ends.flip(0)})
    none = ends[:, :0]
    alone = model(x, {forth: none, back: none})
    assert {k: v.shape for k, v in out.items()} == {"a": (6, 4), "b": (4, 4)}
    assert any(not torch.equal(out[k], alone[k]) for k in out)
    assert any(v.abs().sum() > 0 for v in alone.values())


@both
def test_onnx_export(cls):
    pytest.importorskip("onnxscript")
    program = torch.onnx.export(cls(5, 4), graph(), dynamo=True, verbose=False)
    assert {node.domain for node in program.model.graph} <= {
        "",
        "pkg.onnxscript.torch_lib",
    }


@both
class TestErrors:
    def test_widths(self, cls):
        with pytest.raises(ValueError, match=r"\[9, 7\]"):
            cls(5, 4)(torch.randn(9, 7), graph()[1])
        with pytest.raises(ValueError, match="in_channels.*0"):
            cls(0, 4)
        with pytest.raises(ValueError, match="out_channels.*0"):
            cls(5, 0)
        with pytest.raises(ValueError, match=r"\(x, None\)"):
            cls(5, 4)((torch.randn(9, 5), None), graph()[1])
        conv = cls((5, 3), 4, bipartite_self_loops=True)
        with pytest.raises(ValueError, match="5.*3"):
            conv((torch.randn(9, 5), torch.randn(9, 3)), graph()[1])

    def test_edge_features(self, cls):
        x, edge_index, edge_attr = graph(edge_dim=3)
        with pytest.raises(ValueError, match="edge_attr.*edge_dim=3"):
            cls(5, 4, edge_dim=3)(x, edge_index)
        with pytest.raises(ValueError, match="edge_dim"):
            cls(5, 4)(x, edge_index, edge_attr)
        with pytest.raises(ValueError, match=r"\[30, 3\]"):
            cls(5, 4, edge_dim=2)(x, edge_index, edge_attr)
        with pytest.raises(ValueError, match="29.*30"):
            cls(5, 4, edge_dim=3)(x, edge_index, edge_attr[1:])
        with pytest.raises(ValueError, match="edge_dim.*0"):
            cls(5, 4, edge_dim=0)
