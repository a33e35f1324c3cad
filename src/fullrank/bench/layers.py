"""``fullrank bench layers``: one layer, forward and backward, and its baselines."""

import json
from collections.abc import Callable, Iterator, Sequence
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

from fullrank.bench.measure import interleaved_ms, peak_mb, saved_mb
from fullrank.bench.provenance import Provenance, provenance
from fullrank.errors import ConfigError
from fullrank.nn import CombConv, ExpandingConv, backend, make_conv
from fullrank.nn.kernels.loops import is_built


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

    @property
    def title(self) -> str:
        return f"{self.name}, d={self.width}, s={self.s}"

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
    Workload("molecules", 256, 18, 19, 64, 32),
    Workload("molecules+edges", 64, 18, 19, 256, 4, edge_dim=5),
    Workload("dense", 32, 74, 2470, 180, 4),
    Workload("hubs", 64, 430, 500, 256, 4, hub_degree=300),
    Workload("2,000 nodes", 1, 2000, 4000, 64, 4),
    Workload("20,000 nodes", 20, 1000, 5000, 64, 4),
]

_COMPILED, _PLAIN, _FLOOR = " (compiled)", " (plain)", "floor of "

# Minimum seconds per implementation, and minimum number of rounds.
QUICK, THOROUGH = (0.15, 1), (1.5, 5)


@dataclass
class Row:
    """One line of the table. Ratios are within one run; ``times_reference`` above 1
    means faster than the plain formula of the same layer, ``times_floor`` is the time
    in multiples of the layer's unavoidable matrix products. ``saved_mb`` is the memory
    that autograd keeps between the forward and the backward pass, including inputs."""

    workload: str
    width: int
    s: int
    implementation: str
    ms: float
    peak_mb: float
    saved_mb: float
    times_reference: float | None = None
    times_floor: float | None = None


@dataclass
class Layers:
    """All rows, and their provenance."""

    provenance: Provenance
    device: str
    rows: list[Row]


@dataclass(frozen=True)
class _Layer:
    """A layer and its unavoidable matrix products."""

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


def training_step(
    layer: torch.nn.Module, inputs: Sequence[Tensor], backend_name: str = "auto"
) -> Callable[[], None]:
    """Return a function that runs a layer forward and backward once."""
    x, *edges = inputs
    x = x.clone().requires_grad_()

    def step() -> None:
        layer.zero_grad()
        x.grad = None
        with backend(backend_name):
            layer(x, *edges).sum().backward()
        if x.is_cuda:
            torch.cuda.synchronize()

    return step


def _floor_step(
    products: list[tuple[int, int, int]], device: str = "cpu"
) -> Callable[[], None]:
    """Only the matrix products: one forward and two backward, into allocated memory."""
    cases = []
    for n, k, m in products:
        shapes = (n, k), (k, m), (n, m), (n, m), (n, k), (k, m)
        cases.append([torch.randn(shape, device=device) for shape in shapes])

    def step() -> None:
        for a, b, grad, out, grad_a, grad_b in cases:
            torch.mm(a, b, out=out)
            torch.mm(grad, b.t(), out=grad_a)
            torch.mm(a.t(), grad, out=grad_b)
        if device == "cuda":
            torch.cuda.synchronize()

    return step


def paths(device: str, quick: bool) -> dict[str, str]:
    """Return the implementations of a layer, as suffixes of its name, with their
    backends. The first is the default, the last is the plain formula."""
    found = {"": "auto", " (portable)": "portable"}
    if device == "cpu" and is_built():
        found |= {" (cpu)": "cpu"}
    if not quick:
        found |= {_COMPILED: "auto"}
    return found | {_PLAIN: "plain"}


def measure(w: Workload, quick: bool = False) -> Iterator[Row]:
    """Measure the implementations on one workload. ``quick`` uses half of the graphs
    and skips compiled layers, layers without Re-SUM and concatenated heads."""
    if quick:
        w = replace(w, graphs=(w.graphs + 1) // 2)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    # Layers compiled for another workload count towards the limit of recompilations.
    torch.compiler.reset()
    x, edge_index, edge_attr = w.build()
    given = [t.to(device) for t in (x, edge_index, edge_attr) if t is not None]
    n, pairs = len(x), edge_index.size(1) + len(x)
    steps: dict[str, Callable[[], None]] = {}
    floors: dict[str, Callable[[], None]] = {}
    saved: dict[str, float] = {}

    def add(name: str, module: torch.nn.Module, backend_name: str = "auto") -> None:
        steps[name] = training_step(module, given, backend_name)
        with backend(backend_name):
            saved[name] = saved_mb(lambda: module(*given))

    for layer in LAYERS:
        if quick and not layer.re_sum:
            continue
        module = layer.build(w).to(device)
        for suffix, backend_name in paths(device, quick).items():
            chosen: Any = module
            if suffix == _COMPILED:
                chosen = torch.compile(module, dynamic=True, fullgraph=True)
            add(f"{layer.name}{suffix}", chosen, backend_name)
        floors[layer.name] = _floor_step(layer.products(w, n, pairs), device)
    for name, peer in _peers(w, edge_index).items():
        if not (quick and "concat" in name):
            add(name, peer.to(device))

    peaks = {name: peak_mb(step) for name, step in steps.items()}
    for floor in floors.values():
        floor()
    seconds, rounds = QUICK if quick else THOROUGH
    named = {f"{_FLOOR}{name}": floor for name, floor in floors.items()}
    ms = interleaved_ms(steps | named, seconds, rounds)
    for name in steps:
        row = Row(w.name, w.width, w.s, name, ms[name], peaks[name], saved[name])
        layer_name = name.partition(" ")[0]
        if layer_name in floors:
            row.times_reference = ms[f"{layer_name}{_PLAIN}"] / ms[name]
            row.times_floor = ms[name] / ms[f"{_FLOOR}{layer_name}"]
        yield row


def run(
    quick: bool = False, json_file: Path | None = None, only: Sequence[str] = ()
) -> list[Row]:
    """Run the benchmark, print its table, and write its rows as JSON; ``only`` selects
    workloads by their titles."""
    console = Console()
    rows: list[Row] = []
    chosen = [w for w in WORKLOADS if not only or w.title in only]
    unknown = set(only) - {w.title for w in chosen}
    if unknown:
        known = "; ".join(w.title for w in WORKLOADS)
        raise ConfigError(f"there is no workload {min(unknown)!r} (known: {known})")
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=len(chosen))
        for w in chosen:
            progress.update(task, description=w.title)
            found = list(measure(w, quick))
            console.print(_table(w.title, found), "")
            rows += found
            progress.advance(task)
    console.print(
        f"One layer, forward and backward, float32, {_device()}"
        f"{', half the graphs, few repetitions' if quick else ''}. "
        "Faster: how many times faster than the plain formula of the same layer. "
        "× floor: time in multiples of the unavoidable matrix products."
    )
    if json_file is not None:
        result = Layers(provenance(), _device(), rows)
        json_file.write_text(json.dumps(asdict(result), indent=1) + "\n")
    return rows


def _device() -> str:
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    loops = "with" if is_built() else "without"
    return f"{torch.get_num_threads()} threads, {loops} compiled loops"


def _table(title: str, rows: list[Row]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("implementation", no_wrap=True)
    for column in ("ms", "peak MB", "saved MB", "faster", "× floor"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row.implementation,
            f"{row.ms:.1f}",
            f"{row.peak_mb:.1f}",
            f"{row.saved_mb:.1f}",
            "" if row.times_reference is None else f"{row.times_reference:.2f}",
            "" if row.times_floor is None else f"{row.times_floor:.2f}",
        )
    return table
