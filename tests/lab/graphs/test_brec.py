import networkx as nx
import numpy as np
import pytest
import torch
from scipy.stats import f as f_distribution
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv, global_add_pool

from fullrank.errors import ConfigError
from fullrank.lab import RPC, PairedComparisons, PairNet, PairSuite, brec, separates
from fullrank.lab.graphs import families
from fullrank.nn import GraphNet


@pytest.fixture(scope="module")
def suite():
    """Two pairs that 2-FWL tells apart, one that it does not, one that 1-WL does."""
    pairs = [
        ("cycles", families.cfi_pair(nx.cycle_graph(5))),
        ("molecules", (families.decalin(), families.bicyclopentyl())),
        ("srg", (families.rook_graph(4), families.shrikhande_graph())),
        ("trees", (nx.star_graph(5), nx.path_graph(6))),
    ]
    return PairSuite.from_classes("small", pairs)


def gin():
    return GraphNet(1, 16, 16, 4, conv="gin0", merge_equal_nodes=False)


def test_rpc_tells_apart_what_the_model_can_and_nothing_else(suite):
    # With 3 epochs it depends on the machine whether Hotelling's test sees the trees.
    few = RPC(epochs=10)
    by_gin = brec(gin, suite=suite, settings=few)
    assert by_gin.hotelling.tolist() == [False, False, False, True]
    assert by_gin.dim == 16
    by_pairs = brec(lambda: PairNet(1), suite=suite, settings=few)
    told = by_pairs.released & ~by_pairs.released_failures
    assert told.tolist() == [True, True, False, True]
    assert by_pairs.by_group()["molecules"] == (1, 1, 1)
    assert by_pairs.count == 3


def test_the_same_seed_gives_the_same_numbers(suite):
    small = PairSuite("one", suite.graphs[:2], suite.pairs[:1], suite.groups[:1])
    settings, done = RPC(epochs=2), []
    one = brec(gin, suite=small, settings=settings, progress=done.append)
    other = brec(gin, suite=small, settings=settings)
    assert torch.equal(one.statistic, other.statistic)
    assert torch.equal(one.reliability, other.reliability)
    assert done == [1]


def test_the_exact_protocol_is_that_of_separates(suite):
    torch.manual_seed(7)
    expected = separates(gin(), suite, seed=7)
    found = brec(gin, "exact", suite=suite, seed=7)
    assert torch.equal(found.gap, expected.gap)
    assert found.separated.tolist() == [False, False, False, True]


class Noisy(torch.nn.Module):
    """The number of edges in a random direction, with noise of known size."""

    def __init__(self, dim=3, noise=1.0):
        super().__init__()
        self.direction = torch.nn.Parameter(torch.ones(dim))
        self.noise = noise

    def forward(self, batch):
        ones = torch.ones(batch.num_edges, 1)
        edges = global_add_pool(ones, batch.batch[batch.edge_index[0]])
        return edges * self.direction + self.noise * torch.randn(len(edges), 3)


def test_the_statistic_is_that_of_hotelling_over_q():
    """Against the formula in numpy, on what the model gave."""
    seen = []

    class Recorded(Noisy):
        def forward(self, batch):
            out = super().forward(batch)
            if not self.training:
                seen.append(out.detach().clone())
            return out

    graphs = [nx.path_graph(5), nx.path_graph(5)]
    suite = PairSuite.from_classes("one", [("one", graphs)])
    found = brec(Recorded, suite=suite, settings=RPC(epochs=1))
    out = torch.cat(seen[:4]).double().numpy()
    difference = out[0::2] - out[1::2]
    mean, spread = difference.mean(axis=0), np.cov(difference.T)
    expected = mean @ np.linalg.inv(spread) @ mean
    assert float(found.statistic[0]) == pytest.approx(expected, rel=1e-3)
    limit = RPC().hotelling_threshold(3)
    assert limit == pytest.approx(31 * 3 / 29 * f_distribution.ppf(0.95, 3, 29))
    assert found.hotelling.tolist() == [32 * expected > limit]


def test_the_released_threshold_is_that_of_hotelling_for_16_outputs():
    assert RPC().hotelling_threshold(16) == pytest.approx(72.34, abs=0.005)
    with pytest.raises(ConfigError, match="32"):
        RPC().hotelling_threshold(32)


def comparisons(statistic, reliability):
    graph = Data(x=torch.ones(1, 1), edge_index=torch.empty(2, 0).long())
    count = len(statistic)
    pairs = torch.zeros(count, 2, dtype=torch.long)
    suite = PairSuite("made", [graph], pairs, ("all",) * count)
    constant = torch.zeros(count, dtype=torch.bool)
    values = (torch.tensor(v, dtype=torch.double) for v in (statistic, reliability))
    return PairedComparisons(suite, *values, constant, dim=16)


def test_where_the_two_rules_differ():
    """Far apart; between the rules; unreliable to Hotelling; unreliable to both."""
    found = comparisons([100.0, 10.0, 100.0, 100.0], [0.1, 0.1, 10.0, 90.0])
    assert found.released.tolist() == [True, False, True, True]
    assert found.released_failures.tolist() == [False, False, False, True]
    assert found.hotelling.tolist() == [True, True, False, False]
    assert found.hotelling_failures.tolist() == [False, False, True, True]
    assert found.count == 2
    equal = comparisons([100.0], [100.0])
    assert equal.released.tolist() == [False]


def test_embeddings_that_do_not_vary_are_reported():
    suite = PairSuite.from_classes(
        "one", [("one", [nx.path_graph(5), nx.star_graph(3)])]
    )

    def call(model, batch):
        edges = torch.bincount(batch.batch[batch.edge_index[0]])[:, None]
        return edges * model.weight.T

    found = brec(
        lambda: torch.nn.Linear(1, 4), suite=suite, settings=RPC(epochs=0), call=call
    )
    assert found.constant.tolist() == [True]
    assert "1 without variation" in str(found)


def test_a_layer_is_compared_by_the_mean_of_its_rows(suite):
    torch.manual_seed(0)
    assert separates(SAGEConv(1, 4), suite).count == 0
    with pytest.raises(ConfigError, match="'cosine'"):
        brec(gin, "cosine", suite=suite)
