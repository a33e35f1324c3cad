import pytest
import torch
from torch.testing import assert_close
from torch_geometric.nn import GATConv, SAGEConv

from fullrank.lab.probe.hooks import aggregates, hooked

EDGES = torch.tensor([[1, 2, 0], [0, 0, 1]])


def test_what_is_aggregated_is_seen():
    x = torch.randn(3, 2)
    conv = SAGEConv(2, 4)
    (seen,) = aggregates(conv, lambda: conv(x, EDGES))
    assert_close(seen, torch.stack([(x[1] + x[2]) / 2, x[0], torch.zeros(2)]))


def test_hooks_see_attention_and_are_gone_afterwards_even_after_an_error():
    conv, x, seen = GATConv(2, 4), torch.randn(3, 2), []
    with hooked(conv, "edge_update", lambda part, inputs, out: seen.append(out)):
        conv(x, EDGES)
    assert [tuple(out.shape) for out in seen] == [(6, 1)]  # three edges, three loops
    with pytest.raises(RuntimeError), hooked(conv, "aggregate", print):
        conv(torch.randn(3, 5), EDGES)
    conv(x, EDGES)
    assert len(seen) == 1
