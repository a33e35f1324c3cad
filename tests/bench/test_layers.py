import json
import weakref

import pytest
import torch

from fullrank.bench import layers
from fullrank.bench.layers import LAYERS, WORKLOADS, Workload, measure
from fullrank.bench.measure import interleaved_ms, memory_mb, peak_mb, saved_mb
from fullrank.errors import ConfigError
from fullrank.nn import backend
from fullrank.testing import assert_layers_agree, relative_difference
from nn.plain_formula import plain_layer

TINY = Workload("tiny", graphs=3, nodes=6, undirected_edges=8, width=8, s=2)
TINY_EDGES = Workload("tiny+edges", 3, 6, 8, width=8, s=2, edge_dim=3)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
@pytest.mark.parametrize("w", [TINY, TINY_EDGES], ids=lambda w: w.name)
def test_the_reference_computes_what_it_is_compared_with(layer, w):
    ours = layer.build(w).double()
    inputs = [x for x in w.build() if x is not None]
    inputs = [x.double() if x.is_floating_point() else x for x in inputs]

    def plain(*inputs):
        with backend("plain"):
            return ours(*inputs)

    assert_layers_agree(plain, ours, *inputs)
    truth = plain_layer(ours, *inputs, expanding=layer.name.startswith("Exp"))
    assert relative_difference(plain(*inputs), truth) <= 1e-12


@pytest.mark.parametrize(
    ("name", "nodes", "edges_per_graph"),
    [("molecules", 64 * 18, 37), ("dense", 32 * 74, 4850), ("hubs", 64 * 430, 1000)],
)
def test_the_workloads_have_the_stated_sizes(name, nodes, edges_per_graph):
    w = next(w for w in WORKLOADS if w.name == name)
    x, edge_index, _ = w.build()
    assert len(x) == nodes
    assert edge_index.size(1) / w.graphs == pytest.approx(edges_per_graph, rel=0.05)
    if name == "hubs":
        assert torch.bincount(edge_index[1]).view(64, 430).max(dim=1).values.min() > 250


def test_the_rows(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(layers, "WORKLOADS", [TINY])
    file = tmp_path / "rows.json"
    layers.run(quick=True, json_file=file)
    saved = json.loads(file.read_text())
    assert saved["provenance"]["torch"] == torch.__version__
    rows = {row["implementation"]: row for row in saved["rows"]}
    assert {"ExpandingConv", "CombConv", "PNAConv", "GINConv"} <= set(rows)
    ours, plain = rows["ExpandingConv"], rows["ExpandingConv (plain)"]
    assert ours["times_reference"] == pytest.approx(plain["ms"] / ours["ms"])
    assert plain["times_reference"] == 1
    assert rows["PNAConv"]["times_reference"] is None
    assert ours["times_floor"] > 0
    assert rows["ExpandingConv (portable)"]["saved_mb"] < plain["saved_mb"]
    shown = capsys.readouterr().out
    assert "GATv2Conv(heads=2, mean)" in shown


def test_a_choice_of_workloads(monkeypatch):
    monkeypatch.setattr(layers, "WORKLOADS", [TINY, TINY_EDGES])
    rows = layers.run(quick=True, only=["tiny, d=8, s=2"])
    assert {row.workload for row in rows} == {"tiny"}
    with pytest.raises(ConfigError, match=r"tiny, d=9.*tiny\+edges, d=8, s=2"):
        layers.run(quick=True, only=["tiny, d=9"])


@pytest.mark.slow
def test_the_full_table_has_the_layers_without_re_sum(monkeypatch):
    monkeypatch.setattr(layers, "THOROUGH", (0.0, 1))
    names = {row.implementation for row in measure(TINY_EDGES)}
    assert {"ExpandingConv*", "CombConv*", "GATConv(heads=2, concat)"} <= names
    assert "CombConv (compiled)" in names


def test_interleaved_times_are_medians_of_turns():
    calls = []
    steps = {name: (lambda name=name: calls.append(name)) for name in "ab"}
    ms = interleaved_ms(steps, seconds=0, min_rounds=3)
    assert calls == list("ababab")
    assert set(ms) == {"a", "b"}


def test_peak_counts_what_is_held_at_once():
    def step():
        first = torch.empty(250_000)  # 1 MB
        del first
        return torch.empty(500_000), torch.empty(250_000)  # 3 MB

    assert peak_mb(step) == pytest.approx(3, rel=0.01)


def test_memory_that_the_result_holds():
    def step():
        first = torch.empty(250_000)
        return first.square()

    assert memory_mb(step) == pytest.approx((2, 1), rel=0.01)


def test_saved_tensors_are_counted_once():
    x = torch.ones(250_000, requires_grad=True)  # 1 MB
    assert saved_mb(lambda: x.exp()) == pytest.approx(1, rel=0.01)
    assert saved_mb(lambda: x * x[:]) == pytest.approx(1, rel=0.01)
    assert saved_mb(lambda: x + 1) == 0


def test_counting_saved_tensors_frees_them():
    x, made = torch.ones(250_000, requires_grad=True), []

    def forward():
        out = x.exp()
        made.append(weakref.ref(out))
        return out

    saved_mb(forward)
    assert made[0]() is None
