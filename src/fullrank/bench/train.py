"""``fullrank bench train``: epochs of one model, with the plain formula and with ours.

Each side runs in a separate process, because the allocator is configured per process.
They take turns, so that noise affects both.
"""

import contextlib
import json
import signal
import statistics
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from itertools import chain, islice, repeat
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from fullrank.allocator import keep_memory
from fullrank.data import QM9, GraphDataset, from_graphs
from fullrank.nn import GraphNet, backend

AGREEMENT = 1e-8
STEPS_COMPARED = 20
GRAPHS_COMPARED = 2  # in each of these steps
SIDES = ("plain", "ours")

T = TypeVar("T")


@dataclass
class Workload:
    """A model and a data set."""

    title: str
    hidden: int
    layers: int
    batch_size: int
    graphs: int
    graphs_if_quick: int


WORKLOADS = {
    "molecules": Workload("QM9, d=256, s=4, 4 layers", 256, 4, 64, 640, 320),
    "dense": Workload("COLLAB-like, d=180, s=4, 3 layers", 180, 3, 32, 64, 32),
}


@dataclass
class Row:
    """One line of the table, with the difference of the first losses in float64."""

    workload: str
    plain_seconds: float
    our_seconds: float
    times_faster: float
    largest_difference: float


def run(quick: bool, json_file: Path | None) -> list[Row]:
    """Measure, print, and write the rows as JSON if a file is given."""
    rows = [measure(name, quick) for name in WORKLOADS]
    table = Table("training", title="One epoch: plain formula and DataLoader, and ours")
    for column in ("plain", "ours", "faster by", "losses differ by"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            WORKLOADS[row.workload].title,
            f"{row.plain_seconds:.2f} s",
            f"{row.our_seconds:.2f} s",
            f"{row.times_faster:.1f} times",
            f"{row.largest_difference:.0e}",
        )
    Console().print(table)
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return rows


def measure(name: str, quick: bool) -> Row:
    """Check that both sides compute the same losses, then train in turns."""
    with contextlib.ExitStack() as stack:
        sides = {side: stack.enter_context(_process(side)) for side in SIDES}

        def ask(function: Callable[[str, str, bool], T], side: str) -> T:
            return sides[side].submit(function, side, name, quick).result()

        plain, ours = (ask(first_losses, side) for side in SIDES)
        difference = max(
            abs(one - other) / abs(one) for one, other in zip(plain, ours, strict=True)
        )
        if difference > AGREEMENT:
            raise ValueError(f"{name}: the losses differ by {difference:.1e}")
        rounds = range(2 if quick else 3)
        seconds = [
            [ask(seconds_per_epoch, side) for side in SIDES]
            for _ in track(rounds, name, console=Console(stderr=True))
        ]
    plain_median, our_median = map(statistics.median, zip(*seconds, strict=True))
    faster = plain_median / our_median
    return Row(name, plain_median, our_median, faster, difference)


def _process(side: str) -> ProcessPoolExecutor:
    """The process of one side; its errors are raised here."""
    return ProcessPoolExecutor(1, get_context("spawn"), _begin, (side,))


def _begin(side: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    if side == "ours":
        keep_memory()


class Trainer:
    """One side's model, optimiser and batches."""

    def __init__(self, side: str, name: str, quick: bool, dtype: torch.dtype) -> None:
        load = WORKLOADS[name]
        count = load.graphs_if_quick if quick else load.graphs
        dataset = _molecules(count) if name == "molecules" else dense_graphs(count)
        size = GRAPHS_COMPARED if dtype == torch.float64 else load.batch_size
        self.batches: Iterable = dataset.loader(batch_size=size)
        if side == "plain":
            graphs = [dataset[index] for index in range(count)]
            self.batches = DataLoader(graphs, batch_size=size)
        torch.manual_seed(0)
        self.network = GraphNet(
            dataset.node_features.dim,
            load.hidden,
            1,
            load.layers,
            conv_args={"num_aggregators": 4},
            edge_dim=dataset.edge_features.dim or None,
        ).to(dtype)
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=1e-4, fused=side == "ours" or None
        )
        self.dtype = dtype
        self.backend = "plain" if side == "plain" else "auto"

    def step(self, batch) -> Tensor:
        batch = batch.apply(lambda t: t.to(self.dtype) if t.is_floating_point() else t)
        with backend(self.backend):
            loss = (self.network(batch) - batch.y.view(-1, 1)).abs().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def epoch(self) -> float:
        """Duration of one epoch, in seconds."""
        start = time.perf_counter()
        for batch in self.batches:
            self.step(batch)
        return time.perf_counter() - start


def first_losses(side: str, name: str, quick: bool) -> list[float]:
    """The losses of the first steps, in float64."""
    trainer = Trainer(side, name, quick, torch.float64)
    epochs = chain.from_iterable(repeat(trainer.batches))
    return [float(trainer.step(batch)) for batch in islice(epochs, STEPS_COMPARED)]


def seconds_per_epoch(side: str, name: str, quick: bool) -> float:
    """Duration of one more epoch, in float32: the median of three without a pause."""
    trainer = _warm_trainer(side, name, quick)
    return statistics.median(trainer.epoch() for _ in range(3))


@cache
def _warm_trainer(side: str, name: str, quick: bool) -> Trainer:
    trainer = Trainer(side, name, quick, torch.float32)
    trainer.epoch()
    return trainer


def _molecules(count: int) -> GraphDataset:
    return QM9(limit=count, progress=False).select_targets(["gap"])


def dense_graphs(count: int, seed: int = 0) -> GraphDataset:
    """Unions of three cliques, similar in size and density to COLLAB's graphs."""
    generator = torch.Generator().manual_seed(seed)
    graphs = []
    for _ in range(count):
        size = int(torch.randint(50, 100, (), generator=generator))
        adjacency = torch.zeros(size, size, dtype=torch.bool)
        for _ in range(3):
            members = torch.rand(size, generator=generator) < 0.7
            adjacency |= members[:, None] & members
        edges = adjacency.fill_diagonal_(False).nonzero().T
        x = torch.randn(size, 32, generator=generator)
        graphs.append(Data(x, edges, y=torch.rand(1, generator=generator)))
    return from_graphs(graphs, task="regression")
