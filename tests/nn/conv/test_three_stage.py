"""The three-stage forms are PyG's own layers, weight by weight (Proposition 4)."""

import pytest
import torch
from torch_geometric.nn import GATConv, GCNConv, GINConv

from fullrank.nn import ThreeStageGAT, ThreeStageGCN, ThreeStageGIN0
from fullrank.testing import assert_permutation_equivariant, relative_difference
from nn.strategies import features


def graph(loops):
    torch.manual_seed(0)
    edge_index = torch.randint(12, (2, 50))
    return edge_index if loops else edge_index[:, edge_index[0] != edge_index[1]]


def gcn():
    theirs = GCNConv(5, 4)
    ours = ThreeStageGCN(5, 4)
    return ours, theirs, {"mlp.weight": "lin.weight", "mlp.bias": "bias"}


def gin():
    ours = ThreeStageGIN0(5, 4)
    theirs = GINConv(
        torch.nn.Sequential(
            torch.nn.Linear(5, 4),
            torch.nn.ReLU(),
            torch.nn.Linear(4, 4),
            torch.nn.ReLU(),
        ),
        eps=0,
    )
    names = {f"mlp.{i}.{p}": f"nn.{i}.{p}" for i in (0, 2) for p in ("weight", "bias")}
    return ours, theirs, names


def gat(heads):
    theirs = GATConv(5, 4, heads=heads, concat=False)
    names = {f"coefficients.{p}": p for p in ("lin.weight", "att_src", "att_dst")}
    return ThreeStageGAT(5, 4, heads), theirs, names | {"mlp.bias": "bias"}


@pytest.mark.parametrize(
    ("make", "loops"),
    [
        (gcn, True),
        (gin, False),
        (lambda: gat(1), True),
        (lambda: gat(5), True),
    ],
    ids=["GCN", "GIN-0", "GAT", "multi-head GAT"],
)
def test_equals_pyg(make, loops):
    ours, theirs, names = make()
    ours, theirs = ours.double(), theirs.double()
    for bias in (p for n, p in theirs.named_parameters() if n.endswith("bias")):
        torch.nn.init.normal_(bias)
    weights = dict(theirs.named_parameters())
    assert set(names) == set(dict(ours.named_parameters()))
    ours.load_state_dict({name: weights[of] for name, of in names.items()})

    edge_index, results = graph(loops), []
    for layer, order in ((ours, list(names)), (theirs, list(names.values()))):
        x = features(12, 5, 0).requires_grad_()
        out = layer(x, edge_index)
        loss = (out * torch.arange(48.0).view(12, 4).cos()).sum()
        parameters = dict(layer.named_parameters())
        wanted = [x, *(parameters[name] for name in order)]
        results.append((out, *torch.autograd.grad(loss, wanted)))
    for a, b in zip(*results, strict=True):
        assert relative_difference(a, b) <= 1e-10


@pytest.mark.parametrize("cls", [ThreeStageGCN, ThreeStageGIN0, ThreeStageGAT])
def test_edge_features_join_the_neighbours_features(cls):
    conv = cls(5, 4, edge_dim=2).double()
    x, edge_index = features(12, 5, 0), graph(loops=False)
    edge_attr = features(edge_index.size(1), 2, 1)
    local = conv.neighborhoods(x, edge_index, edge_attr)
    own = torch.zeros(12, 2, dtype=torch.double)
    encoded = torch.cat([edge_attr, own]) @ conv.edge_lin.weight.t()
    h_u = x[local.src] + encoded
    m = conv.coefficients(local)
    vec = torch.einsum("ek,ei->eki", m, h_u).flatten(1)
    summed = torch.zeros(12, vec.size(1), dtype=torch.double)
    truth = conv.mlp(summed.index_add(0, local.dst, vec))
    assert relative_difference(conv(x, edge_index, edge_attr), truth) <= 1e-12
    assert_permutation_equivariant(conv, x, edge_index, edge_attr)


@pytest.mark.parametrize("cls", [ThreeStageGCN, ThreeStageGIN0, ThreeStageGAT])
def test_lazy_sizes(cls):
    conv = cls(-1, 4)
    assert conv(torch.randn(12, 5), graph(loops=True)).shape == (12, 4)


@pytest.mark.parametrize("cls", [ThreeStageGCN, ThreeStageGIN0, ThreeStageGAT])
def test_reset_parameters(cls):
    conv = cls(5, 4)
    before = {name: p.clone() for name, p in conv.named_parameters()}
    conv.reset_parameters()
    for name, p in conv.named_parameters():
        starts_at_zero = name == "mlp.bias" and cls is not ThreeStageGCN
        assert torch.equal(before[name], p) == starts_at_zero, name
