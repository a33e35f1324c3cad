"""``fullrank bench loading``: shuffled batches of molecules, compared with PyG."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.loader import DataLoader

from fullrank.bench.measure import interleaved_ms
from fullrank.data import QM9, GraphDataset

BATCH_SIZE = 64
_BATCHES = 20  # in one measured step


@dataclass
class Row:
    """One line of the table; ``times_faster`` is the speedup of our loader over it."""

    loader: str
    graphs: int
    ms_per_batch: float
    times_faster: float


class _InMemory(InMemoryDataset):
    """A data set stored as PyG stores QM9."""

    def __init__(self, graphs: list[Data]) -> None:
        super().__init__()
        self.data, self.slices = self.collate(graphs)


def run(quick: bool, json_file: Path | None) -> list[Row]:
    """Measure, print, and write the rows as JSON if a file is given."""
    console = Console()
    dataset = QM9(limit=2_000 if quick else 20_000)
    rows = measure(dataset, seconds=1 if quick else 10)
    table = Table("loader", title=f"Shuffled batches of {BATCH_SIZE} QM9 molecules")
    table.add_column("ms per batch", justify="right")
    table.add_column("our speedup", justify="right")
    for row in rows:
        faster = f"{row.times_faster:.1f} times"
        table.add_row(row.loader, f"{row.ms_per_batch:.3f}", faster)
    console.print(table)
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return rows


def measure(dataset: GraphDataset, seconds: float) -> list[Row]:
    """Time the loaders in turns; their batches have the same content."""
    graphs = [dataset[i] for i in range(len(dataset))]
    options: dict[str, Any] = {"batch_size": BATCH_SIZE, "shuffle": True}
    torch.manual_seed(0)
    loaders: dict[str, Iterable[object]] = {
        "fullrank PackedLoader": dataset.loader(**options),
        "PyG DataLoader, InMemoryDataset": DataLoader(_InMemory(graphs), **options),
        "PyG DataLoader, list of Data": DataLoader(graphs, **options),
    }
    steps = {name: _step(_forever(loader)) for name, loader in loaders.items()}
    times = interleaved_ms(steps, seconds)
    ours = next(iter(times.values()))
    return [
        Row(name, len(dataset), ms / _BATCHES, ms / ours) for name, ms in times.items()
    ]


def _forever(loader: Iterable[object]) -> Iterator[object]:
    while True:
        yield from loader


def _step(batches: Iterator[object]) -> Callable[[], None]:
    def step() -> None:
        for _ in range(_BATCHES):
            next(batches)

    return step
