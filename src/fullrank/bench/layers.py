"""``fullrank bench layers``: one layer, forward and backward, ours and its peers."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor
from torch_geometric.nn import GATConv, GATv2Conv, GINConv
from torch_geometric.utils import coalesce, degree, to_undirected

from fullrank.bench.measure import interleaved_ms, peak_mb
from fullrank.nn import CombConv, ExpandingConv, backend, make_conv


@dataclass(frozen=True)
class Workload:
    """A batch of random graphs and the sizes of the layer that runs on it."""

    name: str
    graphs: int
    nodes: int
    undirected_edges: int
    width: int
    s: int
    hub_degree: int = 0
    edge_dim: int | None = None

    def build(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return ``(x, edge_index, edge_attr)``."""
        generator = torch.Generator().manual_seed(0)
        graphs = [self._graph(generator) + i * self.nodes for i in range(self.graphs)]
        edge_index = torch.cat(graphs, dim=1)
        x = torch.randn(self.graphs * self.nodes, self.width, generator=generator)
        attr = None
        if self.edge_dim is not None:
            attr = torch.randn(edge_index.size(1), self.edge_dim, generator=generator)
        return x, edge_index, attr

    def _graph(self, generator: torch.Generator) -> Tensor:
        """A connected graph: a random tree or a hub, and random edges on top."""
        child = torch.arange(1, self.nodes)
        parent = (torch.rand(self.nodes - 1, generator=generator) * child).long()
        parent[: self.hub_degree] = 0
        edges = torch.stack([parent, child])
        pairs = torch.triu_indices(self.nodes, self.nodes, offset=1)
        order = torch.randperm(pairs.size(1), generator=generator)
        extra = pairs[:, order[: self.undirected_edges - edges.size(1)]]
        return to_undirected(coalesce(torch.cat([edges, extra], dim=1)))


WORKLOADS = [
    Workload("molecules", 64, 18, 19, 256, 4),
    Workload("molecules", 64, 18, 19, 256, 32),
    Workload("molecules+edges", 64, 18, 19, 256, 4, edge_dim=5),
    Workload("dense", 32, 74, 2470, 180, 4),
    Workload("hubs", 64, 430, 500, 256, 4, hub_degree=300),
]

# Seconds for each implementation and rounds at least.
QUICK, THOROUGH = (0.15, 1), (3.0, 5)


@dataclass
class Row:
    """One line of the table. Ratios are within one run; ``times_reference`` above 1
    means faster than the plain formula of the same layer, ``times_floor`` is the time
    in multiples of the layer's unavoidable matrix products."""

    workload: str
    s: int
    implementation: str
    ms: float
    peak_mb: float
    times_reference: float | None = None
    times_floor: float | None = None


@dataclass(frozen=True)
class _Layer:
    """A layer of ours and the products it cannot avoid."""

    conv: type[ExpandingConv] | type[CombConv]
    re_sum: bool

    @property
    def name(self) -> str:
        return f"{self.conv.__name__}{'' if self.re_sum else '*'}"

    def build(self, w: Workload) -> torch.nn.Module:
        arguments: dict[str, Any] = {"re_sum": self.re_sum, "edge_dim": w.edge_dim}
        if self.conv is ExpandingConv:
            arguments["num_aggregators"] = w.s
        return self.conv(w.width, w.width, **arguments)

    def products(self, w: Workload, n: int, pairs: int) -> list[tuple[int, int, int]]:
        rows, d, s = pairs if self.re_sum else n, w.width, w.s
        if self.conv is ExpandingConv:
            return [(n, d, s * d), (rows, d, d), (n, d, s), (n, d, s)]
        return [(rows, d, d), (rows, d, d), (n, d, d), (n, d, d)]


LAYERS = [
    _Layer(conv, re_sum)
    for conv in (ExpandingConv, CombConv)
    for re_sum in (True, False)
]


def _peers(w: Workload, edge_index: Tensor) -> dict[str, torch.nn.Module]:
    d, s, edge_dim = w.width, w.s, w.edge_dim
    peers: dict[str, torch.nn.Module] = {}
    for conv in (GATConv, GATv2Conv):
        for how, width in (("mean", d), ("concat", d // s)):
            peers[f"{conv.__name__}(heads={s}, {how})"] = conv(
                d, width, s, concat=how == "concat", edge_dim=edge_dim
            )
    deg = torch.bincount(degree(edge_index[1], dtype=torch.long))
    peers["PNAConv"] = make_conv("pna", d, d, edge_dim, deg=deg)
    if edge_dim is None:
        mlp = torch.nn.Sequential(
            torch.nn.Linear(d, d), torch.nn.ReLU(), torch.nn.Linear(d, d)
        )
        peers["GINConv"] = GINConv(mlp)
    return peers


def _training_step(
    layer: torch.nn.Module, inputs: tuple, backend_name: str = "auto"
) -> Callable[[], None]:
    x, edge_index, edge_attr = inputs
    x = x.clone().requires_grad_()
    arguments = (x, edge_index) if edge_attr is None else (x, edge_index, edge_attr)

    def step() -> None:
        layer.zero_grad()
        x.grad = None
        with backend(backend_name):
            layer(*arguments).sum().backward()

    return step


def _floor_step(products: list[tuple[int, int, int]]) -> Callable[[], None]:
    """The products alone: forward, and twice backward, into memory at hand."""
    cases = []
    for n, k, m in products:
        a, b, c = torch.randn(n, k), torch.randn(k, m), torch.randn(n, m)
        cases.append((a, b, c, torch.empty(n, m), torch.empty(n, k), torch.empty(k, m)))

    def step() -> None:
        for a, b, grad, out, grad_a, grad_b in cases:
            torch.mm(a, b, out=out)
            torch.mm(grad, b.t(), out=grad_a)
            torch.mm(a.t(), grad, out=grad_b)

    return step


def measure(w: Workload, quick: bool = False) -> Iterator[Row]:
    """Measure the implementations on one workload; the quick way takes half as many
    graphs and leaves out the layers without Re-SUM and the concatenated heads."""
    if quick:
        w = replace(w, graphs=(w.graphs + 1) // 2)
    inputs = w.build()
    n, pairs = len(inputs[0]), inputs[1].size(1) + len(inputs[0])
    steps: dict[str, Callable[[], None]] = {}
    floors: dict[str, Callable[[], None]] = {}
    for layer in LAYERS:
        if quick and layer.name.endswith("*"):
            continue
        torch.manual_seed(0)
        module = layer.build(w)
        steps[_plain(layer.name)] = _training_step(module, inputs, "plain")
        steps[layer.name] = _training_step(module, inputs)
        floors[_floor(layer.name)] = _floor_step(layer.products(w, n, pairs))
    for name, peer in _peers(w, inputs[1]).items():
        if not (quick and "concat" in name):
            steps[name] = _training_step(peer, inputs)

    peaks = {name: peak_mb(step) for name, step in steps.items()}
    for floor in floors.values():
        floor()
    seconds, rounds = QUICK if quick else THOROUGH
    ms = interleaved_ms(steps | floors, seconds, rounds)
    for name in steps:
        row = Row(w.name, w.s, name, ms[name], peaks[name])
        layer_name = name.removesuffix(_plain(""))
        if _floor(layer_name) in floors:
            row.times_reference = ms[_plain(layer_name)] / ms[name]
            row.times_floor = ms[name] / ms[_floor(layer_name)]
        yield row


def _plain(name: str) -> str:
    return f"{name} (plain)"


def _floor(name: str) -> str:
    return f"floor of {name}"


def run(quick: bool = False, json_file: Path | None = None) -> list[Row]:
    """Run the benchmark, print its table, and write its rows as JSON."""
    console = Console()
    rows: list[Row] = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=len(WORKLOADS))
        for w in WORKLOADS:
            progress.update(task, description=f"{w.name}, d={w.width}, s={w.s}")
            rows += measure(w, quick)
            progress.advance(task)
    console.print(_table(rows))
    console.print(
        f"One layer, forward and backward, {torch.get_num_threads()} threads, float32"
        f"{', half the graphs, few repetitions' if quick else ''}. "
        "Faster: how many times faster than the plain formula of the same layer. "
        "× floor: time in multiples of the matrix products that no exact "
        "implementation avoids."
    )
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return rows


def _table(rows: list[Row]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("workload", "implementation"):
        table.add_column(column, no_wrap=True)
    for column in ("ms", "peak MB", "faster", "× floor"):
        table.add_column(column, justify="right")
    previous = None
    for row in rows:
        workload = f"{row.workload}, s={row.s}"
        if previous not in (None, workload):
            table.add_section()
        table.add_row(
            "" if workload == previous else workload,
            row.implementation,
            f"{row.ms:.1f}",
            f"{row.peak_mb:.1f}",
            "" if row.times_reference is None else f"{row.times_reference:.2f}",
            "" if row.times_floor is None else f"{row.times_floor:.2f}",
        )
        previous = workload
    return table
