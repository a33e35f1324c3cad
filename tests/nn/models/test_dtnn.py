import pytest
import torch

from fullrank.errors import DataError
from fullrank.nn.models import DTNN
from nn.models.graphs import random_graph


def test_two_atoms_by_hand():
    torch.manual_seed(0)
    net = DTNN(3, 8, 1, num_layers=1).double()
    graph = random_graph(2, 0)
    h = net.encoder(graph.x)
    distance = (graph.pos[0] - graph.pos[1]).norm()
    centres = torch.linspace(-1, 18, 100, dtype=torch.double)
    gaussians = (-0.5 * ((distance - centres) / (centres[1] - centres[0])) ** 2).exp()
    by_distance = net.from_distance(gaussians)
    moved = [
        h[v] + net.combine(net.from_atom(h[u]) * by_distance).tanh()
        for v, u in ((0, 1), (1, 0))
    ]
    expected = net.head(moved[0]) + net.head(moved[1])
    assert torch.allclose(net(graph)[0], expected, atol=1e-10)


def test_turning_a_molecule_changes_nothing():
    net = DTNN(3, 8, 1).double()
    graph = random_graph(7, 0)
    turn, _ = torch.linalg.qr(torch.randn(3, 3).double())
    turned = graph.clone()
    turned.pos = graph.pos @ turn + 5
    assert torch.allclose(net(graph), net(turned), atol=1e-10)


def test_coordinates_are_needed():
    graph = random_graph(4, 0)
    graph.pos = None
    with pytest.raises(DataError, match="pos"):
        DTNN(3, 8, 1).double()(graph)
