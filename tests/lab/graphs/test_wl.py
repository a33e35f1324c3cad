from collections import Counter

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from networkx.generators.atlas import graph_atlas_g

from fullrank.lab import wl_classes, wl_colors


def disjoint_union(graphs):
    union = nx.disjoint_union_all(graphs)
    edges = torch.tensor(list(union.to_directed().edges)).view(-1, 2).T
    sizes = torch.tensor([len(graph) for graph in graphs])
    return edges, torch.arange(len(graphs)).repeat_interleave(sizes)


def same_partition(one, other):
    return len(set(one)) == len(set(other)) == len(set(zip(one, other, strict=True)))


def test_agrees_with_networkx_on_the_whole_atlas():
    graphs = graph_atlas_g()
    edges, batch = disjoint_union(graphs)
    ours = wl_classes(wl_colors(edges, batch.numel()), batch, len(graphs))
    theirs = [
        (len(g), nx.weisfeiler_lehman_graph_hash(g, iterations=max(len(g), 1)))
        for g in graphs
    ]
    assert same_partition(ours.tolist(), theirs)
    assert len(set(theirs)) < len(graphs)


def plain_refinement(edges, labels):
    colors = list(labels)
    for _ in labels:
        colors = [
            (
                colors[v],
                tuple(sorted(Counter(colors[a] for a, b in edges if b == v).items())),
            )
            for v in range(len(labels))
        ]
        names = {color: i for i, color in enumerate(sorted(set(colors)))}
        colors = [names[color] for color in colors]
    return colors


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=8).flatmap(
        lambda labels: st.tuples(
            st.just(labels),
            st.lists(st.tuples(*[st.integers(0, len(labels) - 1)] * 2), max_size=20),
        )
    )
)
def test_labelled_directed_multigraphs_agree_with_a_plain_refinement(case):
    labels, edges = case
    edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).T
    ours = wl_colors(edge_index, len(labels), labels=torch.tensor(labels))
    assert same_partition(ours.tolist(), plain_refinement(edges, labels))


def test_rounds_bound_how_far_a_node_sees():
    path = torch.tensor(
        [[0, 1, 2, 3, 4, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0, 1, 2, 3, 4]]
    )
    assert wl_colors(path, 6, rounds=1).unique().numel() == 2
    assert wl_colors(path, 6).unique().numel() == 3


@pytest.mark.parametrize("count", [0, 2])
def test_graphs_without_nodes_are_alike(count):
    empty = torch.empty(0, dtype=torch.long)
    color = wl_colors(torch.empty(2, 0, dtype=torch.long), num_nodes=0)
    assert wl_classes(color, empty, count).tolist() == [0] * count
