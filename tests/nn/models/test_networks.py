"""What holds for every network by name."""

import pytest
import torch
from torch_geometric.data import Batch

from fullrank.errors import ConfigError, DataError
from fullrank.nn import make_network, network_names
from fullrank.nn.models import NETWORKS
from nn.models.graphs import (
    HEXAGON,
    TWO_TRIANGLES,
    random_batch,
    random_graph,
    relabeled,
    undirected,
)

# Which of several junction trees HIMP reads depends on the order of atoms.
INVARIANT = [name for name in network_names() if name != "himp"]
BEYOND_1WL = {"ppgn", "k-gnn", "patchy-san"}


def made(name, edge_dim=2, **options):
    torch.manual_seed(0)
    sizes = {"in_channels": 3, "hidden_channels": 16, "out_channels": 2}
    return make_network(
        name, num_layers=2, edge_dim=edge_dim, **{**sizes, **options}
    ).double()


@pytest.mark.parametrize("edge_dim", [2, None])
@pytest.mark.parametrize("name", network_names())
def test_a_batch_is_its_graphs(name, edge_dim):
    net, batch = made(name, edge_dim).eval(), random_batch(7, 3, 12, 1, 7)
    out = net(batch)
    alone = torch.cat([net(batch.get_example(i)) for i in range(5)])
    assert out.shape == (5, 2)
    assert torch.allclose(out, alone, atol=1e-12)
    assert out.std(dim=0).min() > 1e-6  # graphs are distinguished


@pytest.mark.parametrize("name", INVARIANT)
def test_same_on_isomorphic_graphs(name):
    net = made(name).eval()
    for seed in range(5):
        graph = random_graph(11, seed)
        assert torch.allclose(net(graph), net(relabeled(graph, seed)), atol=1e-11)


@pytest.mark.parametrize("name", sorted(set(network_names()) - {"dtnn"}))
def test_a_hexagon_and_two_triangles(name):
    net = made(name, edge_dim=None, hidden_channels=32).eval()
    one, other = undirected(6, HEXAGON), undirected(6, TWO_TRIANGLES)
    gap = (net(one) - net(other)).abs().max()
    assert gap > 1e-6 if name in BEYOND_1WL else gap < 1e-12


@pytest.mark.parametrize("name", network_names())
def test_all_weights_are_trained(name):
    net, batch = made(name).train(), random_batch(7, 3, 12, 5)
    net(batch).square().sum().backward()
    unused = [n for n, p in net.named_parameters() if p.grad is None]
    assert not unused
    assert all(p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.parametrize("name", network_names())
def test_reset(name):
    net = made(name)
    before = {n: p.clone() for n, p in net.named_parameters()}
    torch.manual_seed(0)
    net.reset_parameters()
    changed = [n for n, p in net.named_parameters() if not torch.equal(p, before[n])]
    assert changed


@pytest.mark.parametrize("name", sorted(set(NETWORKS) - {"graph-net"}))
def test_categories(name):
    net = made(name, edge_dim=(3, 2), in_channels=(4, 2)).eval()
    graph = random_graph(6, 0)
    graph.x = torch.randint(2, (6, 2))
    graph.edge_attr = torch.randint(2, (graph.num_edges, 2))
    assert net(Batch.from_data_list([graph])).isfinite().all()


def test_unknown_name_and_missing_parts():
    with pytest.raises(ConfigError, match="'pgn'.*'ppgn'"):
        make_network("pgn")
    graph = random_graph(6, 0)
    graph.edge_attr = None
    with pytest.raises(DataError, match="edge_attr"):
        made("ppgn")(graph)
    graph.x = None
    with pytest.raises(DataError, match=r"\bx\b"):
        made("mpnn", edge_dim=None)(graph)
    with pytest.raises(ConfigError, match="0"):
        make_network(
            "mpnn", in_channels=3, hidden_channels=4, out_channels=1, num_layers=0
        )
