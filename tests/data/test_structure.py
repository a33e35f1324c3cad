import itertools
import tracemalloc
from collections import Counter, deque

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fullrank.data import structure
from fullrank.data.structure import MARKS, structural_colors
from fullrank.lab.graphs.families import (
    LATIN_SQUARES,
    bicyclopentyl,
    cfi_pair,
    chang_graphs,
    decalin,
    latin_square_graph,
    rook_graph,
    shrikhande_graph,
)
from shared_data import shared_data

HOPS = [0, 1, 2, 3, None]
# The fourth mark goes to the class with the smallest hash, which tuples do not have.
DEFINED_BY_TUPLES = ["center", "pair", "triple"]
without_deadline = settings(deadline=None, max_examples=60)


class SlowColors:
    """The colours as the definition reads: one subgraph at a time, tuples for hashes.

    Tuples are numbered as they come, so that equal numbers mean equal tuples.
    """

    def __init__(self):
        self._number = {}

    def of(self, edges, num_nodes, node_labels, edge_labels, *, hops, rounds, mark):
        self.rounds, self.mark = rounds, mark
        self.label = {}
        for (u, v), name in zip(edges, edge_labels, strict=True):
            self.label.setdefault((v, u), []).append(("in", name))
            self.label.setdefault((u, v), []).append(("out", name))
        self.label = {pair: tuple(sorted(many)) for pair, many in self.label.items()}
        self.near = {v: [] for v in range(num_nodes)}
        for v, u in self.label:
            self.near[v].append(u)
        self.base = {
            v: (name, tuple(sorted(self.label[v, u] for u in self.near[v])))
            for v, name in enumerate(node_labels)
        }
        self.reach = num_nodes if hops is None else hops
        edge = [
            self._id(self._color(v, u), name)
            for (u, v), name in zip(edges, edge_labels, strict=True)
        ]
        return edge, [self._color(v, v, loop=False) for v in range(num_nodes)]

    def _color(self, v, u, loop=True):
        label = self.label.get((v, u)) if loop else None
        ball = self._distances(v)
        marked = {
            "center": [[v]],
            "pair": [[v, u]],
            "triple": [[v, u, y] for y in ball],
        }
        seen = [self._seen(ball, u, marks) for marks in marked[self.mark]]
        return self._id(tuple(sorted(seen)), self.base[u], label)

    def _seen(self, ball, u, marks):
        to = [self._distances(mark) for mark in marks]
        color = {w: self._id(self.base[w], *(far.get(w) for far in to)) for w in ball}
        for _ in range(self.rounds):
            color = {w: self._refined(w, color) for w in ball}
        return self._id(tuple(sorted(color.values())), color.get(u))

    def _refined(self, w, color):
        around = [(self.label[w, x], color[x]) for x in self.near[w] if x in color]
        return self._id(color[w], tuple(sorted(around)))

    def _distances(self, start):
        distance, queue = {start: 0}, deque([start])
        while queue:
            w = queue.popleft()
            for x in self.near[w] if distance[w] < self.reach else ():
                if x not in distance:
                    distance[x] = distance[w] + 1
                    queue.append(x)
        return distance

    def _id(self, *parts):
        return self._number.setdefault(parts, len(self._number))


class SlowHashes:
    """Colours with four marks, one subgraph at a time, in Python's integers.

    The smallest hash says which class is marked, so that hashes must be the same.
    """

    def __init__(self, graph, hops, rounds):
        edges, num_nodes, node_labels, self.edge_labels = graph
        self.source, self.target = np.array(edges, np.int64).reshape(-1, 2).T
        hashed = structure._Graph(
            self.source,
            self.target,
            structure.hash_rows(node_labels, num_nodes),
            structure.hash_rows(self.edge_labels, len(edges)),
        )
        self.base = hashed.base.tolist()
        self.label = {
            (int(v), int(u)): int(label)
            for v, u, label in zip(
                *hashed.adjacency.nonzero(), hashed.adjacency.data, strict=True
            )
        }
        links = nx.Graph([*self.label])
        links.add_nodes_from(range(num_nodes))
        self.far = dict(nx.all_pairs_shortest_path_length(links, cutoff=hops))
        self.rounds = rounds

    def colors(self):
        hashes = structure.hash_rows(self.edge_labels, len(self.source)).tolist()
        edge = [
            mixed((1, self.pair(v, u, self.label[v, u])), (structure._LABEL, label))
            for u, v, label in zip(self.source, self.target, hashes, strict=True)
        ]
        return edge, [self.pair(v, v, 0) for v in range(len(self.base))]

    def pair(self, v, u, label):
        self.ball = [*self.far[v]]
        seen = 0
        for y in self.ball:
            to_y = structure._TO_Y, y
            marks = [(structure._TO_V, v), (structure._TO_U, u), to_y]
            seen += self.seen(u, self.base, marks, fourth=True)
        parts = (structure._BASE_U, self.base[u]), (structure._LABEL, label)
        return mixed((1, seen), *parts)

    def seen(self, u, color, marks, fourth):
        color = {
            w: mixed(
                (1, color[w]),
                *((odd, self.far[mark].get(w, -1) + 1) for odd, mark in marks),
            )
            for w in self.ball
        }
        for _ in range(self.rounds):
            color = {w: self.refined(w, color) for w in self.ball}
        classes = Counter(color.values())
        small = min(((n, name) for name, n in classes.items() if n > 1), default=(9, 0))
        further = 0
        for z in self.ball:
            if fourth and small[0] <= 8 and color[z] == small[1]:
                further += self.seen(u, color, [(structure._TO_Z, z)], fourth=False)
        parts = (structure._AT_U, color.get(u, 0)), (structure._TO_Z, further)
        return mixed((1, sum(color.values())), *parts)

    def refined(self, w, color):
        around = [
            (self.label[w, x], color[x]) for x in self.ball if (w, x) in self.label
        ]
        return mixed((structure._OWN, color[w]), *around)


def mixed(*parts):
    total = sum(int(odd) * int(part) for odd, part in parts)
    return int(structure._mix(np.array([total % 2**64], np.uint64))[0])


@st.composite
def graphs(draw, max_nodes=7):
    """Directed or not, with loops, parallel edges, isolated nodes and labels."""
    num_nodes = draw(st.integers(1, max_nodes))
    node = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=2 * max_nodes))
    if draw(st.booleans()):
        edges = edges + [(v, u) for u, v in edges]
    kinds = st.integers(0, draw(st.integers(0, 1)))
    labels = [
        draw(st.lists(kinds, min_size=count, max_size=count))
        for count in (num_nodes, len(edges))
    ]
    return edges, num_nodes, *labels


def levels(marks=MARKS):
    return st.fixed_dictionaries(
        {
            "hops": st.sampled_from(HOPS),
            "rounds": st.integers(0, 3),
            "mark": st.sampled_from(marks),
        }
    )


def fast(graph, **level):
    edges, num_nodes, node_labels, edge_labels = graph
    index = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    return structural_colors(
        index, num_nodes, node_labels=node_labels, edge_labels=edge_labels, **level
    )


def union(graph, other):
    edges, num_nodes, node_labels, edge_labels = graph
    shifted = [(u + num_nodes, v + num_nodes) for u, v in other[0]]
    both = edges + shifted, num_nodes + other[1]
    return *both, node_labels + other[2], edge_labels + other[3]


def same_partition(left, right):
    pairs = set(zip(left, right, strict=True))
    return len(pairs) == len(set(left)) == len(set(right))


def refines(fine, coarse):
    return len(set(zip(fine, coarse, strict=True))) == len(set(fine))


def from_networkx(graph):
    index = np.array(graph.edges, dtype=np.int64).reshape(-1, 2).T
    return np.concatenate([index, index[::-1]], axis=1), len(graph)


@without_deadline
@given(graphs(), graphs(), levels(DEFINED_BY_TUPLES))
def test_agrees_with_the_slow_definition(graph, other, level):
    both = union(graph, other)
    edge, node = SlowColors().of(*both, **level)
    colors = fast(both, **level)
    assert same_partition(colors.edge.tolist(), edge)
    assert same_partition(colors.node.tolist(), node)


@settings(deadline=None, max_examples=25)
@given(graphs(), st.sampled_from(HOPS), st.integers(0, 2))
def test_the_fourth_mark_agrees_with_a_slow_implementation(graph, hops, rounds):
    edge, node = SlowHashes(graph, hops, rounds).colors()
    colors = fast(graph, hops=hops, rounds=rounds, mark="quadruple")
    assert colors.edge.view(np.uint64).tolist() == edge
    assert colors.node.view(np.uint64).tolist() == node


@pytest.mark.parametrize(
    "graph",
    [
        decalin(),
        shrikhande_graph(),
        nx.circular_ladder_graph(9),
        nx.disjoint_union(nx.cycle_graph(12), nx.star_graph(9)),
        *cfi_pair(nx.diamond_graph()),
    ],
)
@pytest.mark.parametrize("mark", ["triple", "quadruple"])
def test_relabeled_copies_of_symmetric_graphs_have_the_same_colors(graph, mark):
    """Large symmetric graphs have classes of every size, and ties between them."""
    index, n = from_networkx(graph)
    colors = structural_colors(index, n, hops=None, mark=mark)
    place = np.random.default_rng(0).permutation(n)
    moved = structural_colors(place[index], n, hops=None, mark=mark)
    assert moved.edge.tolist() == colors.edge.tolist()
    assert moved.node[place].tolist() == colors.node.tolist()


@without_deadline
@given(graphs(), levels(), st.randoms())
def test_relabeling_moves_the_colors_along(graph, level, random):
    edges, num_nodes, node_labels, edge_labels = graph
    place = random.sample(range(num_nodes), num_nodes)
    order = random.sample(range(len(edges)), len(edges))
    relabeled = (
        [(place[edges[e][0]], place[edges[e][1]]) for e in order],
        num_nodes,
        [label for _, label in sorted(zip(place, node_labels, strict=True))],
        [edge_labels[e] for e in order],
    )
    colors, moved = fast(graph, **level), fast(relabeled, **level)
    assert moved.edge.tolist() == colors.edge[order].tolist()
    assert moved.node[place].tolist() == colors.node.tolist()


@without_deadline
@given(graphs(), graphs(), levels())
def test_a_graph_is_colored_alike_alone_and_in_company(graph, other, level):
    alone, company = fast(graph, **level), fast(union(graph, other), **level)
    assert company.edge[: len(alone.edge)].tolist() == alone.edge.tolist()
    assert company.node[: len(alone.node)].tolist() == alone.node.tolist()


@without_deadline
@given(graphs(), graphs(), st.integers(0, 3), st.sampled_from(DEFINED_BY_TUPLES))
def test_more_hops_never_tell_less_apart(graph, other, rounds, mark):
    colors = [
        fast(union(graph, other), hops=hops, rounds=rounds, mark=mark) for hops in HOPS
    ]
    for coarse, fine in itertools.pairwise(colors):
        assert refines(fine.edge.tolist(), coarse.edge.tolist())
        assert refines(fine.node.tolist(), coarse.node.tolist())


@without_deadline
@given(graphs(), graphs(), levels(DEFINED_BY_TUPLES))
def test_more_rounds_never_tell_less_apart(graph, other, level):
    both = union(graph, other)
    longer = level | {"rounds": level["rounds"] + 1}
    assert refines(
        fast(both, **longer).edge.tolist(), fast(both, **level).edge.tolist()
    )


@without_deadline
@given(graphs(), graphs(), levels())
def test_more_marks_never_tell_less_apart(graph, other, level):
    both = union(graph, other)
    colors = [fast(both, **(level | {"mark": mark})) for mark in MARKS]
    for coarse, fine in itertools.pairwise(colors):
        assert refines(fine.edge.tolist(), coarse.edge.tolist())
        assert refines(fine.node.tolist(), coarse.node.tolist())


def test_colors_are_the_same_on_every_machine_and_in_every_process():
    kite = np.array([[0, 1, 1, 2, 2, 0, 2, 3], [1, 0, 2, 1, 0, 2, 3, 2]])
    colors = structural_colors(kite, 4, hops=1, node_labels=[6, 6, 6, 1])
    assert colors.edge.tolist() == [
        7198966928486311343,
        7198966928486311343,
        3385136608480585183,
        -9106569858201501285,
        -9106569858201501285,
        3385136608480585183,
        -5914782684826351247,
        29718917620323438,
    ]
    assert colors.node.tolist() == [
        5218084273294053142,
        5218084273294053142,
        6602673441738766696,
        -7260258470021581207,
    ]


@pytest.mark.parametrize("num_nodes", [0, 1, 3])
def test_graphs_without_edges(num_nodes):
    colors = structural_colors(np.empty((2, 0), np.int64), num_nodes)
    assert colors.edge.shape == (0,)
    assert len(colors.node) == num_nodes
    assert len(set(colors.node.tolist())) <= 1


def test_degrees_decide_at_zero_hops():
    path, n = from_networkx(nx.path_graph(5))
    by_degrees = structural_colors(path, n, hops=0).edge
    degree = np.bincount(path[1])
    ends = [(degree[v], degree[u]) for u, v in path.T]
    assert same_partition(by_degrees.tolist(), ends)


def test_labels_are_compared_by_value():
    ring, n = from_networkx(nx.cycle_graph(4))
    atoms = np.array([[6, 0.0], [6, -0.0], [7, 0.0], [7, 0.0]])
    colors = structural_colors(ring, n, hops=0, node_labels=atoms).node
    assert same_partition(colors.tolist(), [6, 6, 7, 7])
    narrow = structural_colors(ring, n, hops=0, node_labels=atoms.astype(np.float32))
    assert narrow.node.tolist() == colors.tolist()


def test_blocks_do_not_change_the_colors(monkeypatch):
    graph = from_networkx(nx.gnm_random_graph(60, 120, seed=0))
    whole = structural_colors(*graph)
    monkeypatch.setattr(structure, "_BLOCK_BYTES", 1)
    single = structural_colors(*graph)
    assert single.edge.tolist() == whole.edge.tolist()
    assert single.node.tolist() == whole.node.tolist()


@pytest.mark.parametrize(
    ("graph", "marks"),
    [
        (nx.star_graph(900), MARKS[:2]),
        (nx.star_graph(90), MARKS),
        (nx.complete_graph(30), MARKS),
    ],
)
def test_memory_stays_within_the_limit(graph, marks):
    index, n = from_networkx(graph)
    for mark in marks:
        limit = 64 * 2**20
        tracemalloc.start()
        structural_colors(index, n, hops=2, mark=mark, memory_limit=limit)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < limit


def test_a_hub_is_refused_with_the_estimate():
    star, n = from_networkx(nx.star_graph(20_000))
    with pytest.raises(ValueError, match=r" 0 .* 20000 .* 2\d GiB .* 20001"):
        structural_colors(star, n, hops=2)


def test_colors_can_be_computed_where_pairs_are_refused():
    star, n = from_networkx(nx.star_graph(3000))
    with pytest.raises(ValueError, match="memory_limit"):
        structural_colors(star, n, hops=1, memory_limit=2**24)
    colors = structural_colors(star, n, hops=1, mark="center", memory_limit=2**24)
    assert Counter(Counter(colors.node.tolist()).values()) == {1: 1, 3000: 1}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hops": -1}, "hops.*-1"),
        ({"rounds": -2}, "rounds.*-2"),
        ({"mark": "both"}, "mark.*'both'"),
        ({"node_labels": [1]}, "labels.* 3 .* 1"),
    ],
)
def test_wrong_arguments_are_named(wrong, message):
    path, n = from_networkx(nx.path_graph(3))
    with pytest.raises(ValueError, match=message):
        structural_colors(path, n, **wrong)


def told_apart(parts, **level):
    """Which graphs, two by two, differ after aggregating their colours four times."""
    index, n = from_networkx(nx.disjoint_union_all(parts))
    color = aggregated(index, structural_colors(index, n, **level), rounds=4)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    graph = [Counter(part.tolist()) for part in np.split(color, ends)]
    return [*map(Counter.__ne__, graph[::2], graph[1::2])]


@pytest.mark.parametrize("mark", ["center", "pair"])
def test_cycles_are_told_apart_by_subgraphs_that_reach_around(mark):
    lengths = range(3, 10)
    parts = [part for n in lengths for part in cfi_pair(nx.cycle_graph(n))]
    for hops in HOPS:
        reach = max(lengths) if hops is None else 2 * hops + 1
        expected = [n <= reach for n in lengths]
        assert told_apart(parts, hops=hops, mark=mark) == expected


def test_strongly_regular_graphs_are_told_apart_by_two_marks_only():
    latin = [*map(latin_square_graph, LATIN_SQUARES)]
    parts = [rook_graph(4), shrikhande_graph(), *latin, *chang_graphs()]
    for hops in HOPS[1:]:
        assert told_apart(parts, hops=hops, mark="pair") == [True] * 4
        assert told_apart(parts, hops=hops, mark="center") == [False] * 4


def test_marks_are_bounded_by_the_treewidth_of_cfi_bases():
    """k marks are bounded by (k + 1)-FWL, which tells the graphs over a base apart if
    its treewidth is at most k + 1: the diamond has 2, K₄ 3 and K₅ 4."""
    bases = [nx.diamond_graph(), *map(nx.complete_graph, (4, 5))]
    parts = [part for base in bases for part in cfi_pair(base)]
    told = [told_apart(parts, hops=None, mark=mark) for mark in MARKS]
    assert told == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
        [True, True, True],
    ]


def test_decalin_and_bicyclopentyl_differ_at_two_hops():
    parts = [decalin(), bicyclopentyl()]
    told = [told_apart(parts, hops=hops) for hops in HOPS]
    assert told == [[False], [False], [True], [True], [True]]


@pytest.mark.slow
def test_brec_pairs_told_apart():
    files = sorted((shared_data() / "expressiveness" / "brec").glob("*.g6"))
    parts = [
        nx.from_graph6_bytes(g) for file in files for g in file.read_bytes().split()
    ]
    told = [sum(told_apart(parts, hops=hops)) for hops in (0, 1, 2, None)]
    assert told == [0, 246, 280, 324]


def aggregated(index, colors, rounds):
    """Exact colours of nodes after aggregating (neighbour, edge colour) multisets."""
    node = colors.node
    for _ in range(rounds):
        around = [[] for _ in node]
        for v, *message in np.stack(
            [index[1], node[index[0]], colors.edge], 1
        ).tolist():
            around[v].append(tuple(message))
        number = {}
        node = np.array(
            [
                number.setdefault((own, *sorted(many)), len(number))
                for own, many in zip(node.tolist(), around, strict=True)
            ]
        )
    return node
