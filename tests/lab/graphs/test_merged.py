from collections import Counter

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

from fullrank.errors import ConfigError, DataError
from fullrank.lab import cfi_pair, merged
from fullrank.lab.graphs.merged import BY_MODEL, BY_WL, SAME, group_rows
from fullrank.lab.graphs.pairs import as_data, relabel
from fullrank.lab.precision import double
from fullrank.nn import GraphNet


@pytest.fixture
def graphs():
    """A path twice, two that 1-WL merges, two that differ far from each other."""
    path = as_data(nx.path_graph(5))
    triangles, hexagon = map(as_data, cfi_pair(nx.cycle_graph(3)))
    # Trees that colour refinement tells apart in the third round only.
    far = nx.disjoint_union(nx.path_graph(13), nx.path_graph(9))
    near = nx.disjoint_union(nx.path_graph(12), nx.path_graph(10))
    return [path, triangles, as_data(far), hexagon, relabel(path), as_data(near)]


@pytest.fixture
def model():
    torch.manual_seed(0)
    return GraphNet(1, 16, 2, 3, conv="expc")


def test_groups_and_their_kinds(model, graphs):
    merging = merged(model, graphs)
    assert {(group.kind, group.members) for group in merging.groups} == {
        (SAME, (0, 4)),
        (BY_WL, (1, 3)),
        (BY_MODEL, (2, 5)),
    }
    assert merging.counts() == {SAME: (1, 2), BY_WL: (1, 2), BY_MODEL: (1, 2)}
    assert merging.count == merging.coarser == 3
    assert len(merging) == 6
    for group in merging.groups:
        first, second = (double(merging.graphs[place]) for place in group.pair)
        outputs = [model.double().eval()(graph) for graph in (first, second)]
        assert torch.allclose(*outputs, rtol=1e-9)


def test_batches_and_graphs_give_the_same(model, graphs):
    whole = merged(model, graphs)
    parts = [Batch.from_data_list(graphs[:2]), Batch.from_data_list(graphs[2:])]
    done = []
    in_parts = merged(model, iter(parts), progress=done.append)
    assert torch.equal(whole.group, in_parts.group)
    assert done == [2, 6]


def test_what_merging_costs(model, graphs):
    merging = merged(model, graphs)
    assert merging.best_accuracy(torch.tensor([0, 1, 1, 0, 0, 1])) == 5 / 6
    # A function of the graph can still tell the four that only the model merges.
    assert merging.best_accuracy(torch.tensor([0, 1, 1, 0, 0, 1]), "same") == 1
    assert merging.best_accuracy(torch.tensor([0, 1, 1, 0, 1, 1]), "same") == 5 / 6
    values = torch.tensor([1.0, 2.0, 5.0, 4.0, 1.0, 5.0])
    assert merging.least_squared_error(values) == pytest.approx(2 / 6)
    missing = torch.tensor([0, 1, float("nan"), 0, 0, 1])
    assert merging.best_accuracy(missing) == 4 / 5
    with pytest.raises(DataError, match="5 .* 6"):
        merging.best_accuracy(torch.zeros(5))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1))
def test_the_bounds_are_those_of_the_best_table(pairs):
    """Against the best function from groups to labels, group by group."""
    rows = torch.tensor([[float(group)] for group, _ in pairs])
    labels = torch.tensor([label for _, label in pairs])

    class Table(torch.nn.Module):
        def forward(self, batch):
            return batch.row[:, None]

    graphs = [
        Data(x=torch.ones(1, 1), edge_index=torch.empty(2, 0).long(), row=row)
        for row in rows
    ]
    merging = merged(Table(), graphs)
    right, error = 0, 0.0
    for group in {group for group, _ in pairs}:
        inside = [label for other, label in pairs if other == group]
        right += Counter(inside).most_common(1)[0][1]
        mean = sum(inside) / len(inside)
        error += sum((label - mean) ** 2 for label in inside)
    assert merging.best_accuracy(labels) == right / len(pairs)
    assert merging.least_squared_error(labels) == pytest.approx(error / len(pairs))


@given(st.integers(0, 1000), st.integers(1, 5))
def test_rows_are_grouped_as_by_comparing_all(seed, width):
    generator = torch.Generator().manual_seed(seed)
    few = torch.randn(6, width, generator=generator, dtype=torch.double)
    scale = 10.0 ** torch.randint(-6, 6, (6, 1), generator=generator)
    chosen = torch.randint(6, (40,), generator=generator)
    noise = torch.rand(40, width, generator=generator, dtype=torch.double) * 1e-14
    rows = (few * scale)[chosen] * (1 + noise)
    group = group_rows(rows, 1e-9)
    assert torch.equal(group[:, None] == group, chosen[:, None] == chosen)


def test_a_chain_of_near_rows_is_cut():
    """No row is further than the tolerance from the first of its group."""
    rows = 1 + 0.8e-3 * torch.arange(50, dtype=torch.double)[:, None]
    group = group_rows(rows, 1e-3)
    for number in group.unique():
        inside = rows[group == number]
        assert float((inside - inside[0]).abs().max()) <= 1e-3 * float(inside.max())


def test_embeddings_are_read_before_the_head(model, graphs):
    """A head that gives one number for all merges all predictions."""
    torch.nn.init.zeros_(model.head[-1].weight)
    assert merged(model, graphs).count == 3
    assert merged(model, graphs, of="prediction").count == 1


def test_a_model_is_run_as_the_caller_says(graphs):
    class Unusual(torch.nn.Module):
        def forward(self, edge_index, batch, count):
            size = torch.bincount(batch, minlength=count)
            edges = torch.bincount(batch[edge_index[0]], minlength=count)
            return torch.stack([size, edges], dim=1).double()

    def call(model, data):
        return model(data.edge_index, data.batch, data.num_graphs)

    merging = merged(Unusual(), graphs, call=call)
    assert [group.members for group in merging.groups] == [(0, 4), (1, 3), (2, 5)]


def test_what_cannot_be_merged_is_refused(model, graphs):
    with pytest.raises(ConfigError, match="'nodes'"):
        merged(model, graphs, of="nodes")
    with pytest.raises(DataError):
        merged(model, [])
    with pytest.raises(ConfigError, match=" 6 "):
        merged(torch.nn.Identity(), graphs, call=lambda model, data: data.x)
