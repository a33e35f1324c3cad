"""``fullrank bench scale``: time and memory of a layer against the number of edges."""

import gc
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch_geometric.nn import GATv2Conv

from fullrank.bench.layers import training_step
from fullrank.bench.line_chart import line_chart
from fullrank.bench.measure import memory_mb, saved_mb
from fullrank.bench.provenance import Provenance, provenance
from fullrank.nn import ExpandingConv, backend, make_conv

WIDTH, S, DEGREE = 64, 4, 10
EDGES = (100_000, 1_000_000, 10_000_000)
QUICK_EDGES = (10_000, 100_000)
SECONDS = 2.0  # of repetitions for each point
GATHER = "index_select of the rows"

Step = Callable[[], object]


@dataclass
class Row:
    """One point: one layer, forward and backward, on a random graph. ``growth`` is the
    time divided by that of the previous size. Memory excludes the inputs; ``None``
    where the graph would not fit."""

    implementation: str
    edges: int
    seconds: float | None = None
    growth: float | None = None
    peak_gib: float | None = None
    saved_gib: float | None = None


@dataclass
class Scale:
    """All points, and their provenance."""

    provenance: Provenance
    threads: int
    width: int
    s: int
    rows: list[Row]


def steps_of(edges: int) -> Iterator[tuple[str, Callable[[], tuple[Step, Step]]]]:
    """Yield implementations by name, each as a function that returns its training step
    and its forward pass."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator().manual_seed(0)
    nodes = edges // DEGREE
    edge_index = torch.randint(nodes, (2, edges), generator=generator).to(device)
    x = torch.randn(nodes, WIDTH, generator=generator).to(device)
    degrees = torch.bincount(torch.bincount(edge_index[1], minlength=nodes))

    def layer(make: Callable[[], torch.nn.Module], name: str = "auto"):
        def build() -> tuple[Step, Step]:
            module = make().to(device)
            rows = x.clone().requires_grad_()

            def forward() -> Tensor:
                with backend(name):
                    return module(rows, edge_index)

            return training_step(module, (x, edge_index), name), forward

        return build

    def gather() -> tuple[Step, Step]:
        def step() -> None:
            for block in edge_index[0].split(1 << 15):
                x.index_select(0, block)

        return step, step

    def ours() -> torch.nn.Module:
        return ExpandingConv(WIDTH, WIDTH, S)

    yield "ExpC-4", layer(ours)
    yield "ExpC-4, portable", layer(ours, "portable")
    yield "ExpC-4, plain formula", layer(ours, "plain")
    yield f"GATv2, {S} heads", layer(lambda: GATv2Conv(WIDTH, WIDTH, S, concat=False))
    yield "PNA", layer(lambda: make_conv("pna", WIDTH, WIDTH, None, deg=degrees))
    yield GATHER, gather


def measure(sizes: tuple[int, ...]) -> Iterator[Row]:
    """Measure every implementation up to the largest graph that fits in memory."""
    peaks: dict[str, float] = {}
    last: dict[str, float] = {}
    for edges in sizes:
        for name, build in steps_of(edges):
            row = Row(name, edges)
            # The next size has ten times the edges, and needs ten times the memory.
            if name not in peaks or peaks[name] < _available_gib() / 2:
                step, forward = build()
                row.saved_gib = saved_mb(forward) * 1e6 / 2**30
                row.peak_gib = memory_mb(step)[0] * 1e6 / 2**30
                row.seconds = _seconds(step)
                row.growth = row.seconds / last[name] if name in last else None
                last[name], peaks[name] = row.seconds, row.peak_gib * 10
                del step, forward
                gc.collect()
            yield row


def _available_gib() -> float:
    if torch.cuda.is_available():
        return torch.cuda.mem_get_info()[0] / 2**30
    # Memory that the allocator has cached is available to this process.
    kept = psutil.Process().memory_info().rss
    return (psutil.virtual_memory().available + kept) / 2**30


def _seconds(step: Step) -> float:
    """The median of three to nine repetitions."""
    times: list[float] = []
    while len(times) < 3 or (sum(times) < SECONDS and len(times) < 9):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def run(quick: bool, json_file: Path | None, picture: Path | None) -> Scale:
    """Measure, print, and write the points as JSON and as a picture (SVG)."""
    rows = list(measure(QUICK_EDGES if quick else EDGES))
    found = Scale(provenance(), torch.get_num_threads(), WIDTH, S, rows)
    Console().print(_table(rows))
    if json_file is not None:
        json_file.write_text(json.dumps(asdict(found), indent=1) + "\n")
    if picture is not None:
        picture.write_text(draw(rows))
    return found


def draw(rows: list[Row]) -> str:
    """Draw time and memory against the number of edges, as SVG."""
    shown = [row for row in rows if row.implementation != GATHER]
    return line_chart(
        "edges",
        {
            "seconds, forward and backward": _lines(shown, "seconds"),
            "peak memory above the inputs, GiB": _lines(shown, "peak_gib"),
        },
    )


def _lines(rows: list[Row], value: str) -> dict[str, list[tuple[float, float]]]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        points = lines.setdefault(row.implementation, [])
        if getattr(row, value):
            points.append((row.edges, getattr(row, value)))
    return lines


def _table(rows: list[Row]) -> Table:
    table = Table(
        "implementation",
        title=f"One layer on random graphs, d={WIDTH}, s={S}, degree {DEGREE}",
        caption="Growth: time in multiples of the previous size. That of index_select, "
        "which only reads the rows of the edges, is due to the processor's caches.",
    )
    for column in ("edges", "seconds", "growth", "peak GiB", "saved GiB"):
        table.add_column(column, justify="right")
    for row in sorted(rows, key=lambda row: row.implementation):
        growth = "" if row.growth is None else f"{row.growth:.1f}"
        numbers = (row.seconds, row.peak_gib, row.saved_gib)
        seconds, peak, saved = ("—" if x is None else f"{x:.3f}" for x in numbers)
        table.add_row(
            row.implementation, f"{row.edges:,}", seconds, growth, peak, saved
        )
    return table
