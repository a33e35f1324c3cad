import pytest
import torch

from fullrank.errors import ConfigError
from fullrank.nn.models.caps_gnn import CapsGNN, Routing, squash


def test_squash_keeps_the_direction_and_shortens():
    x = torch.randn(5, 4).double()
    out, length = squash(x), x.norm(dim=1)
    assert torch.allclose(out.norm(dim=1), length**2 / (1 + length**2))
    assert torch.allclose(out / out.norm(dim=1, keepdim=True), x / length[:, None])


def test_routing_by_hand():
    torch.manual_seed(0)
    routing = Routing(2, 3, 4, iterations=2).double()
    capsules = torch.randn(5, 2, 4).double()
    rows = [0, 1, 1, 0, 1]
    found = routing(capsules, torch.tensor(rows), 2)
    for graph in range(2):
        votes = {
            (n, i, j): capsules[n, i] @ routing.weight[i, j]
            for n in range(5)
            if rows[n] == graph
            for i in range(2)
            for j in range(3)
        }
        agreement = dict.fromkeys(votes, torch.zeros(()).double())
        for _ in range(2):
            share = {}
            for n, i, j in votes:
                logits = torch.stack([agreement[n, i, k] for k in range(3)])
                share[n, i, j] = logits.softmax(0)[j]
            total = [
                sum(share[key] * vote for key, vote in votes.items() if key[2] == j)
                for j in range(3)
            ]
            agreement = {
                key: agreement[key] + vote @ squash(total[key[2]])
                for key, vote in votes.items()
            }
        assert torch.allclose(found[graph], torch.stack(total), atol=1e-12)


def test_capsules_fill_the_width():
    with pytest.raises(ConfigError, match="20"):
        CapsGNN(3, 20, 2)
