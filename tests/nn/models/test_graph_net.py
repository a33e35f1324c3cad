import copy

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import (
    coalesce,
    scatter,
    to_torch_coo_tensor,
    to_torch_csr_tensor,
)

from fullrank.errors import ConfigError, DataError
from fullrank.nn import (
    OGB_ATOM_DIMS,
    OGB_BOND_DIMS,
    CategoryEncoder,
    GraphNet,
    conv_names,
)
from fullrank.testing import (
    assert_same_on_isomorphic_graphs,
    random_graph,
    relative_difference,
)
from nn.kernels.sums import needs_compiler

# The others need structural colours as well: see coefficients/test_structural.py.
FEATURE_BASED = [
    name for name in conv_names() if not name.endswith(("-structural", "-continuous"))
]


def batch_of(*sizes, edge_dim=None):
    graphs = []
    for i, n in enumerate(sizes):
        x, edge_index, *attr = random_graph(5, n, 3 * n, edge_dim, seed=i)
        attr = {"edge_attr": attr[0]} if attr else {}
        graphs.append(Data(x=x, edge_index=edge_index, **attr))
    return Batch.from_data_list(graphs)


@pytest.mark.parametrize("conv", FEATURE_BASED)
def test_a_batch_is_its_graphs(conv):
    torch.manual_seed(0)
    arguments = {"deg": [1, 2, 3]} if conv == "pna" else {}
    net = GraphNet(5, 8, 2, 2, conv=conv, conv_args=arguments, edge_dim=3).eval()
    batch = batch_of(4, 6, 1, edge_dim=3)
    out = net(batch)
    assert out.shape == (3, 2)
    for i in range(3):
        alone = net(batch.get_example(i))
        assert relative_difference(out[i], alone[0]) <= 1e-4


@pytest.mark.parametrize("conv", ["expc", "combc", "gin0", "gat"])
def test_same_on_isomorphic_graphs(conv):
    net = GraphNet(5, 8, 2, 3, conv=conv, edge_dim=3, batch_norm=True).eval()
    assert_same_on_isomorphic_graphs(net, *random_graph(5, edge_dim=3), tolerance=1e-4)


@pytest.mark.parametrize("readout", ["sum", "mean", "max"])
@pytest.mark.parametrize("jumping", [True, False])
def test_jumping_knowledge_and_readout(readout, jumping):
    net = GraphNet(5, 8, 2, 3, readout=readout, jumping_knowledge=jumping).double()
    batch = batch_of(4, 6)
    h, layers = net.encoder(batch.x.double()), []
    for conv in net.convs:
        h = conv(h, batch.edge_index).relu()
        layers.append(h)
    # Read out layer by layer and concatenate, as the paper does on QM9.
    layers = layers if jumping else layers[-1:]
    read = [scatter(h, batch.batch, reduce=readout) for h in layers]
    truth = net.head(torch.cat(read, dim=1))
    batch.x = batch.x.double()
    assert relative_difference(net(batch), truth) <= 1e-12


@pytest.mark.parametrize(
    ("head", "layers"),
    [
        ("qm9", ["Linear", "ELU", "Linear", "ELU", "Linear"]),
        ("qm9-paper", ["Linear", "ELU", "Linear", "ELU", "Linear"]),
        ("tu", ["Linear", "ReLU", "Dropout", "Linear"]),
        ("ogb", ["Linear"]),
    ],
)
def test_heads(head, layers):
    net = GraphNet(5, 8, 2, 3, head=head, dropout=0.5)
    assert [type(module).__name__ for module in net.head] == layers
    assert net(batch_of(4, 6)).shape == (2, 2)


def test_the_authors_head_on_qm9():
    """Five layers: 5 d, then 3 d, then d, then the prediction."""
    head = GraphNet(5, 8, 1, 5, head="qm9-paper").head
    widths = [m.in_features for m in head if isinstance(m, torch.nn.Linear)]
    assert widths == [40, 24, 8]


@pytest.mark.parametrize(
    "options",
    [
        {"head": "ogb", "dropout": 0.5},
        {"head": "tu", "dropout": 0.5},
        {"head": "qm9", "layer_dropout": 0.5},
    ],
)
def test_dropout_only_in_training(options):
    net = GraphNet(5, 8, 2, 3, batch_norm=True, **options)
    batch = batch_of(4, 6)
    assert not torch.equal(net(batch), net(batch))
    net.eval()
    assert torch.equal(net(batch), net(batch))


def test_dropout_of_the_head_leaves_the_layers_alone():
    net = GraphNet(5, 8, 2, 3, dropout=0.9, head="ogb")
    seen = []
    net.convs[2].register_forward_hook(lambda module, inputs, out: seen.append(out))
    for _ in range(2):
        net(batch_of(4, 6))
    assert torch.equal(*seen)


def test_norms_of_encoder_and_readout():
    net = GraphNet(5, 8, 2, 2, norm_encoder=True, norm_readout=True).double().train()
    batch = batch_of(4, 6, 5, 7)
    batch.x = batch.x.double()
    seen = {}

    def note(module, name):
        module.register_forward_pre_hook(
            lambda _, inputs: seen.update({name: inputs[0]})
        )

    note(net.norm_encoder, "encoded")
    note(net.convs[0], "first")
    note(net.norm_readout, "read")
    note(net.head, "last")
    net(batch)
    for before, after, width in (("encoded", "first", 8), ("read", "last", 16)):
        x = seen[before]
        assert x.shape[1] == width
        scale = (x.var(dim=0, unbiased=False) + 1e-5).sqrt()
        assert torch.allclose(seen[after], (x - x.mean(dim=0)) / scale, atol=1e-8)
        assert seen[after].abs().max() > 1


def test_batch_norm_comes_after_the_activation():
    net = GraphNet(5, 8, 2, 1, conv="gcn", batch_norm=True)
    seen = []
    net.norms[0].register_forward_pre_hook(lambda module, inputs: seen.extend(inputs))
    net(batch_of(4, 6))
    assert seen[0].min() == 0


def test_encoders_are_ogbs():
    ogb = pytest.importorskip("ogb.utils.features")
    assert list(OGB_ATOM_DIMS) == ogb.get_atom_feature_dims()
    assert list(OGB_BOND_DIMS) == ogb.get_bond_feature_dims()
    from ogb.graphproppred.mol_encoder import AtomEncoder

    theirs, ours = AtomEncoder(8), CategoryEncoder(OGB_ATOM_DIMS, 8)
    weights = [e.weight for e in theirs.atom_embedding_list]
    ours.load_state_dict(
        {f"embeddings.{i}.weight": weight for i, weight in enumerate(weights)}
    )
    x = torch.stack([torch.randint(n, (20,)) for n in OGB_ATOM_DIMS], dim=1)
    assert torch.allclose(ours(x), theirs(x), atol=1e-6)


def test_categories_in_and_out():
    net = GraphNet(OGB_ATOM_DIMS, 8, 2, 2, edge_dim=OGB_BOND_DIMS)
    edge_index = random_graph(1)[1]
    x = torch.zeros(8, 9, dtype=torch.long)
    edge_attr = torch.zeros(20, 3, dtype=torch.long)
    out = net(x, edge_index, edge_attr)
    edge_attr[:, 0] = 3
    assert not torch.allclose(out, net(x, edge_index, edge_attr))


@pytest.mark.parametrize("conv", ["expc", "sage", "gatv2"])
@pytest.mark.parametrize("edge_dim", [None, 1])
@pytest.mark.parametrize("convert", [to_torch_csr_tensor, to_torch_coo_tensor])
def test_sparse_adjacency(conv, edge_dim, convert):
    x, edge_index = random_graph(5)
    edge_index = coalesce(edge_index, sort_by_row=False)
    edge_attr = torch.randn(edge_index.size(1))
    adj_t = convert(edge_index.flip(0), edge_attr, size=(8, 8))
    net = GraphNet(5, 8, 2, 2, conv=conv, edge_dim=edge_dim)
    truth = net(x, edge_index, edge_attr if edge_dim else None)
    assert relative_difference(net(x, adj_t), truth) <= 1e-5
    assert relative_difference(net(Data(x=x, adj_t=adj_t)), truth) <= 1e-5


@pytest.mark.parametrize("conv", ["expc", "combc"])
@pytest.mark.parametrize(
    "compiler",
    [
        "aot_eager",
        pytest.param("inductor", marks=[pytest.mark.slow, needs_compiler]),
    ],
)
def test_compiled_training_steps_equal_eager_ones(conv, compiler):
    torch._dynamo.reset()
    torch.manual_seed(0)
    arguments = {"edge_dim": 3, "batch_norm": True, "merge_equal_nodes": False}
    eager = GraphNet(5, 8, 2, 2, conv=conv, **arguments).double()
    compiled = copy.deepcopy(eager)

    def loss_of(net, y, *inputs):
        return (net(*inputs) - y).square().mean()

    def train(net, loss_of):
        optimizer = torch.optim.Adam(net.parameters())
        losses = []
        for sizes in ((4, 6, 3), (7, 5), (2, 9, 4, 3)):
            batch = batch_of(*sizes, edge_dim=3)
            y = torch.arange(2.0 * len(sizes)).view(-1, 2)
            inputs = (batch.x.double(), batch.edge_index, batch.edge_attr.double())
            loss = loss_of(net, y, *inputs, batch.batch, len(sizes))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses)

    fast = torch.compile(loss_of, dynamic=True, fullgraph=True, backend=compiler)
    losses = train(eager, loss_of), train(compiled, fast)
    assert relative_difference(*losses) <= 1e-10
    for one, other in zip(eager.parameters(), compiled.parameters(), strict=True):
        assert relative_difference(one, other) <= 1e-8


def test_errors():
    with pytest.raises(ConfigError, match="num_layers.*-1"):
        GraphNet(5, 8, 2, -1)
    with pytest.raises(ConfigError, match="dropout.*1"):
        GraphNet(5, 8, 2, 1, dropout=1)
    with pytest.raises(ConfigError, match="layer_dropout.*2"):
        GraphNet(5, 8, 2, 1, layer_dropout=2)
    with pytest.raises(ConfigError, match="'median'.*sum, mean, max"):
        GraphNet(5, 8, 2, 1, readout="median")
    with pytest.raises(ConfigError, match="'big'.*qm9, qm9-paper, tu, ogb"):
        GraphNet(5, 8, 2, 1, head="big")
    with pytest.raises(ConfigError, match="'expcc'.*'expc'"):
        GraphNet(5, 8, 2, 1, conv="expcc")
    with pytest.raises(DataError, match="edge_attr.*edge_dim=3"):
        GraphNet(5, 8, 2, 1, edge_dim=3)(*random_graph(5))
    with pytest.raises(DataError, match=r"\bx\b"):
        GraphNet(5, 8, 2, 1)(Data(edge_index=random_graph(5)[1], num_nodes=8))
    with pytest.raises(DataError, match="edge_index"):
        GraphNet(5, 8, 2, 1)(Data(x=torch.randn(8, 5)))
    with pytest.raises(DataError, match="9 .* 5"):
        GraphNet(OGB_ATOM_DIMS, 8, 2, 1)(torch.zeros(8, 5).long(), random_graph(5)[1])


def test_reset_parameters():
    net = GraphNet(5, 8, 2, 2, edge_dim=3)
    before = [p.clone() for p in net.parameters()]
    net.reset_parameters()
    for old, new in zip(before, net.parameters(), strict=True):
        assert not torch.equal(old, new)


def test_descriptors_are_standardised_and_read_by_the_head():
    torch.manual_seed(0)
    net = GraphNet(3, 8, 2, 1, conv="gin0", num_descriptors=3).double().eval()
    net.standardize.mean.copy_(torch.tensor([1.0, 2.0, 5.0]))
    net.standardize.std.copy_(torch.tensor([2.0, 0.5, 0.0]))
    graph = two_graphs()
    descriptors = torch.tensor([[3.0, 2.0, 7.0], [1.0, 1e9, 5.0]], dtype=torch.float64)
    read = net.embed(graph.x, graph.edge_index, batch=graph.batch)
    weight, bias = net.head[0].weight, net.head[0].bias
    scaled = torch.tensor([[1.0, 0.0, 0.0], [0.0, 6.0, 0.0]], dtype=torch.float64)
    expected = torch.cat([read, scaled], dim=1) @ weight.T + bias
    graph.descriptors = descriptors
    assert torch.allclose(net(graph), expected, atol=1e-12)
    given = net(graph.x, graph.edge_index, batch=graph.batch, descriptors=descriptors)
    assert torch.equal(net(graph), given)
    del graph.descriptors
    with pytest.raises(DataError, match="3"):
        net(graph)


def test_without_layers_the_encoded_nodes_are_read_out():
    net = GraphNet(3, 8, 2, 0).double()
    graph = two_graphs()
    summed = torch.zeros(2, 8, dtype=torch.float64)
    summed.index_add_(0, graph.batch, net.encoder(graph.x))
    assert torch.allclose(net(graph), net.head(summed), atol=1e-12)


def two_graphs():
    graph = Data(
        x=torch.randn(5, 3, dtype=torch.float64),
        edge_index=torch.tensor([[0, 1], [1, 0]]),
    )
    return Batch.from_data_list([graph, graph])
