import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import forward_ad
from torch_geometric.data import Batch, Data
from torch_geometric.utils import from_networkx

from fullrank.nn import (
    AttentionCoefficients,
    ExpandingConv,
    GraphNet,
    MeanCoefficients,
    OneCoefficients,
    Stack,
    SymmetricNormCoefficients,
    backend,
)
from fullrank.nn.merge import EqualNodes, Twins, find_twins
from fullrank.testing import relative_difference

CONVS = ["expc", "combc", "gin0", "gat"]


def graph(edges, labels, num_bonds=0):
    """An undirected graph with one-hot labels, and kinds of edges in turn."""
    one_way = torch.tensor(edges, dtype=torch.long).view(-1, 2).T
    both = torch.cat([one_way, one_way.flip(0)], dim=1)
    kinds = (torch.arange(len(edges)) % max(num_bonds, 1)).repeat(2)[:, None]
    x = torch.nn.functional.one_hot(torch.tensor(labels), 3).double()
    return Data(x=x, edge_index=both, edge_attr=kinds if num_bonds else None)


def social(num_bonds=0):
    """Graphs with many equal nodes: a star, a clique, a path, a loop, lonely ones."""
    star = graph([(0, i) for i in range(1, 9)], [0] * 9, num_bonds)
    clique = graph([(i, j) for i in range(6) for j in range(i)], [1] * 6, num_bonds)
    path = graph([(0, 1), (1, 2), (2, 3), (0, 1)], [0, 1, 1, 0], num_bonds)
    loops = graph([(0, 1), (1, 1)], [0, 0, 2, 2], num_bonds)
    return Batch.from_data_list([star, clique, path, loops, star])


def add_twins(batch):
    twins = find_twins(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
    batch.twin_offset, batch.twin_edge_count = twins.offset, twins.edge_count
    batch.twin_key = twins.key
    return batch


def twins_of(batch):
    return Twins(batch.twin_offset, batch.twin_edge_count, batch.twin_key)


def plainly(net, batch):
    """The network's formula, layer by layer and node by node."""
    h, layers = net.norm_encoder(net.encoder(batch.x)), []
    edges = [batch.edge_index]
    if net.edge_dim is not None:
        one_hot = torch.nn.functional.one_hot(batch.edge_attr[:, 0], net.edge_dim[0])
        edges.append(one_hot.double())
    for conv, norm in zip(net.convs, net.norms, strict=True):
        h = norm(conv(h, *edges).relu())
        layers.append(h)
    return net.head(net.readout(torch.cat(layers, dim=1), batch.batch))


def counted(monkeypatch):
    """A list that grows with each layer that is run once for each class."""
    calls, real = [], EqualNodes.convolve

    def convolve(self, conv, h):
        calls.append(conv)
        return real(self, conv, h)

    monkeypatch.setattr(EqualNodes, "convolve", convolve)
    return calls


@pytest.mark.parametrize("conv", CONVS)
@pytest.mark.parametrize("num_bonds", [0, 2])
@pytest.mark.parametrize("re_sum", [True, False])
@pytest.mark.parametrize("twins", [True, False])
def test_exact_with_all_gradients(conv, num_bonds, re_sum, twins, monkeypatch):
    options = {"re_sum": re_sum} if conv in ("expc", "combc") else {}
    edge_dim = [num_bonds] if num_bonds else None
    net = GraphNet(
        3,
        8,
        2,
        3,
        conv=conv,
        conv_args=options,
        edge_dim=edge_dim,
        batch_norm=True,
        norm_encoder=True,
    ).double()
    batch = social(num_bonds)
    if twins:
        add_twins(batch)
        assert batch.twin_edge_count.max() > 2
    outputs, gradients = [], []
    shared = counted(monkeypatch)
    for run in (net, lambda batch: plainly(net, batch)):
        net.zero_grad()
        outputs.append(run(batch))
        outputs[-1].square().sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in net.parameters()]))
    assert len(shared) == 3  # layers
    assert relative_difference(*outputs) <= 1e-12
    assert relative_difference(*gradients) <= 1e-12


def test_real_valued_edges_leave_equal_inputs_of_the_first_layer(monkeypatch):
    net, batch = GraphNet(3, 8, 2, 3, edge_dim=2).double(), social()
    batch.edge_attr = torch.randn(batch.num_edges, 2, dtype=torch.double)
    sizes, real = [], ExpandingConv.sum_by_kernel

    def sum_by_kernel(self, local):
        sizes.append((len(local.x_src), len(local.x_dst)))
        return real(self, local)

    monkeypatch.setattr(ExpandingConv, "sum_by_kernel", sum_by_kernel)
    outputs, gradients = [], []
    for net.merge_equal_nodes in (True, False):
        net.zero_grad()
        outputs.append(net(batch))
        outputs[-1].square().sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in net.parameters()]))
    n = batch.num_nodes
    assert sizes == [(3, n), (n, n), (n, n)] + [(n, n)] * 3  # three labels
    assert relative_difference(*outputs) <= 1e-12
    assert relative_difference(*gradients) <= 1e-12


@st.composite
def labelled_graphs(draw):
    n = draw(st.integers(1, 12))
    labels = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    pairs = [(i, j) for i in range(n) for j in range(i)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return chosen, labels


@given(labelled_graphs(), st.integers(1, 3))
@settings(deadline=None, max_examples=50)
def test_classes_are_those_of_weisfeiler_and_leman(given_graph, rounds):
    edges, labels = given_graph
    theirs = nx.Graph()
    theirs.add_nodes_from((i, {"label": str(c)}) for i, c in enumerate(labels))
    theirs.add_edges_from(edges)
    hashes = nx.weisfeiler_lehman_subgraph_hashes(
        theirs, node_attr="label", iterations=rounds
    )
    data = graph(edges, labels)
    nodes = EqualNodes(data.x, data.edge_index, None)
    for _ in range(rounds):
        nodes.classes = nodes.refine()
    ours = nodes.classes.class_of.tolist()
    last = [hashes[node][-1] for node in range(len(labels))]
    assert len(set(zip(ours, last, strict=True))) == len(set(ours)) == len(set(last))


@pytest.mark.parametrize(
    "mlp", [None, torch.nn.Sequential(torch.nn.Linear(32, 8), torch.nn.ReLU())]
)
@pytest.mark.parametrize("re_sum", [True, False])
def test_coefficients_of_a_neighbourhood_count_every_neighbour(mlp, re_sum):
    stacked = Stack(AttentionCoefficients(8, 2), OneCoefficients(), MeanCoefficients())
    net = GraphNet(3, 8, 2, 1, conv_args={"coefficients": stacked, "re_sum": re_sum})
    if mlp is not None:
        net.convs[0].mlp = mlp
    net, batch = net.double(), add_twins(social())
    nodes = EqualNodes.find(batch.x, batch.edge_index, None, twins=twins_of(batch))
    h = net.encoder(batch.x)
    found = nodes.convolve(net.convs[0], h)
    with backend("plain"):
        expected = net.convs[0](h, batch.edge_index)
    assert relative_difference(found, expected) <= 1e-12


@given(labelled_graphs(), labelled_graphs())
@settings(deadline=None, max_examples=50)
def test_twins_are_the_stable_classes_of_each_graph(one, other):
    batch = add_twins(Batch.from_data_list([graph(*one), graph(*other)]))
    twin = (torch.arange(batch.num_nodes) + batch.twin_offset).tolist()
    for index, (edges, labels) in enumerate((one, other)):
        first = int(batch.ptr[index])
        theirs = nx.Graph()
        theirs.add_nodes_from((i, {"label": str(c)}) for i, c in enumerate(labels))
        theirs.add_edges_from(edges)
        hashes = nx.weisfeiler_lehman_subgraph_hashes(
            theirs, node_attr="label", iterations=len(labels)
        )
        stable = [hashes[node][-1] for node in range(len(labels))]
        ours = twin[first : first + len(labels)]
        assert ours == [first + stable.index(h) for h in stable]
        neighbours = torch.zeros(batch.num_nodes, dtype=torch.long).index_add_(
            0, batch.edge_index[1], batch.twin_edge_count
        )
        for node in set(ours):
            assert neighbours[node] == theirs.degree(node - first)


@given(st.lists(labelled_graphs(), min_size=1, max_size=4), st.sampled_from(CONVS))
@settings(deadline=None, max_examples=100)
def test_batches_with_twins_are_exact(given_graphs, conv):
    batch = Batch.from_data_list([graph(*g) for g in given_graphs])
    net = GraphNet(3, 4, 2, 3, conv=conv).double()
    found = net(add_twins(batch))
    with backend("plain"):
        expected = net(batch)
    assert relative_difference(found, expected) <= 1e-10


def test_a_few_twins_among_nodes_that_one_layer_makes_different():
    theirs = nx.gnp_random_graph(14, 0.4, seed=1)
    theirs.add_edges_from([(0, 14), (0, 15)])
    batch = Batch.from_data_list([graph(list(theirs.edges()), [0] * 16)])
    nodes = EqualNodes(
        batch.x, batch.edge_index, None, twins=twins_of(add_twins(batch))
    )
    numbers = []
    for _ in range(3):
        numbers.append(len(nodes.classes.representative))
        nodes.classes = nodes.refine()
    assert numbers == [1, 8, 14]  # of 16: from less than a half to nearly all
    net = GraphNet(3, 8, 2, 3).double()
    with backend("plain"):
        expected = net(batch)
    assert relative_difference(net(batch), expected) <= 1e-12


def test_a_star_is_a_centre_and_a_leaf():
    data = from_networkx(nx.star_graph(50))
    net = GraphNet(3, 8, 2, 1).double()
    x = torch.ones(51, 3, dtype=torch.double)
    nodes = EqualNodes(x, data.edge_index, None)
    h = net.encoder(x)
    out = nodes.convolve(net.convs[0], h)
    assert len(nodes.classes.representative) == 2
    assert relative_difference(out, net.convs[0](h, data.edge_index)) <= 1e-12


def test_a_hook_sees_every_node():
    net, batch = GraphNet(3, 8, 2, 2).double(), social()
    seen = []
    net.convs[1].register_forward_hook(lambda conv, args, out: seen.append(len(out)))
    net(batch)
    assert seen == [batch.num_nodes]


def test_gradients_by_the_input_are_those_of_every_node():
    torch.manual_seed(0)  # with other weights, all ReLUs of the head may be off
    net, batch = GraphNet(3, 8, 2, 2).double(), social()
    found = []
    for run in (net, lambda batch: plainly(net, batch)):
        batch.x = batch.x.detach().requires_grad_()
        found.append(torch.autograd.grad(run(batch).square().sum(), batch.x)[0])
    assert relative_difference(*found) <= 1e-12
    assert found[0].abs().sum(1).min() > 0


@pytest.mark.parametrize(
    "options",
    [
        {"layer_dropout": 0.5},
        {"edge_dim": 1, "conv": "combc"},
        {"edge_dim": 1, "conv_args": {"re_sum": False}},
        {"conv": "gcn"},
        {"conv": "combc", "conv_args": {"mlp": torch.nn.Dropout(0.5)}},
        {"conv_args": {"aggr": "std"}},
        {"conv_args": {"add_self_loops": False}},
        {"conv_args": {"bipartite_self_loops": True}},
        {"conv_args": {"flow": "target_to_source"}},
        {"conv_args": {"coefficients": SymmetricNormCoefficients(), "re_sum": False}},
    ],
    ids=str,
)
def test_layers_that_may_tell_equal_nodes_apart_compute_all_of_them(
    options, monkeypatch
):
    net, batch = GraphNet(3, 3, 2, 2, **options).double(), social()
    batch.edge_attr = torch.ones(batch.num_edges, 1, dtype=torch.double)
    shared = counted(monkeypatch)
    net(batch)
    assert not shared


class Doubled(ExpandingConv):
    def read_coefficients(self, local):
        return 2 * super().read_coefficients(local)


def hook(module):
    return module.register_forward_hook(lambda *_: None)


@pytest.mark.parametrize(
    "change",
    [
        lambda net: hook(net.convs[0]),
        lambda net: hook(net.convs[0].mlp[2]),
        lambda net: hook(net.convs[0].coefficients.lin),
        lambda net: hook(net.norms[1]),
        lambda net: hook(net.encoder),
        lambda net: net.convs[0].register_message_forward_hook(lambda *_: None),
        lambda net: setattr(net, "encoder", torch.nn.Sequential(net.encoder)),
        lambda net: setattr(net.convs, "0", Doubled(8, 8).double()),
    ],
)
def test_nothing_is_merged_in_a_changed_network(change, monkeypatch):
    net, batch = GraphNet(3, 8, 2, 2, batch_norm=True).double(), social()
    shared = counted(monkeypatch)
    net(batch)
    assert len(shared) == 2
    change(net)
    net(batch)
    assert len(shared) == 2


def test_merging_can_be_switched_off(monkeypatch):
    net, batch = GraphNet(3, 8, 2, 2, merge_equal_nodes=False).double(), social()
    shared = counted(monkeypatch)
    expected = net(batch)
    assert not shared
    net.merge_equal_nodes = True
    assert relative_difference(net(batch), expected) <= 1e-12
    assert len(shared) == 2
    with backend("plain"):  # the definition computes every node
        assert relative_difference(net(batch), expected) <= 1e-12
    assert len(shared) == 2


def test_torch_func_by_the_weights_and_by_the_input():
    net, batch = GraphNet(3, 8, 2, 2).double(), social()
    weights = dict(net.named_parameters())

    def loss(weights, x):
        inputs = (x, batch.edge_index, None, batch.batch)
        return torch.func.functional_call(net, weights, inputs).square().sum()

    found = torch.func.grad(loss)(weights, batch.x)
    truth = torch.autograd.grad(loss(weights, batch.x), list(weights.values()))
    for ours, expected in zip(found.values(), truth, strict=True):
        assert relative_difference(ours, expected) <= 1e-12
    many = torch.stack([batch.x, batch.x.flip(0)])
    found = torch.vmap(lambda x: loss(weights, x))(many)
    truth = torch.stack([loss(weights, x) for x in many])
    assert relative_difference(found, truth) <= 1e-12


def test_forward_derivatives_by_the_input():
    torch.manual_seed(0)  # with other weights, all ReLUs of the head may be off
    net, batch = GraphNet(3, 8, 2, 2).double(), social()
    found = []
    for run in (net, lambda batch: plainly(net, batch)):
        with forward_ad.dual_level():
            direction = torch.arange(batch.x.numel()).view_as(batch.x).double()
            dual = batch.clone()
            dual.x = forward_ad.make_dual(batch.x, direction)
            found.append(forward_ad.unpack_dual(run(dual)).tangent)
    assert relative_difference(*found) <= 1e-12


@pytest.mark.parametrize(
    ("edge_index", "why"),
    [
        (torch.zeros(3, 4, dtype=torch.long), r"\[3, 4\]"),
        (torch.empty(2, 0), "float32"),
        (torch.tensor([[0], [3]]), "destination.* 3"),
    ],
)
def test_wrong_edges(edge_index, why):
    with pytest.raises(ValueError, match=why):
        GraphNet(2, 8, 1, 1)(torch.ones(3, 2), edge_index)


def test_no_nodes():
    net = GraphNet(2, 8, 1, 1).eval()
    nothing = torch.zeros(2, 0, dtype=torch.long)
    assert net(torch.ones(0, 2), nothing).shape == (1, 1)
