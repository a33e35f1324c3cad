"""A table of the paper, its runs, and what they will cost."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from statistics import median

import torch

from fullrank.data import GraphDataset
from fullrank.errors import FullrankError
from fullrank.paper.cells import Cell
from fullrank.paper.grid import unfinished
from fullrank.train import Config, runs_of
from fullrank.train.blueprint import draw_blueprint
from fullrank.train.sources import load_dataset, make_split

_STEPS = 5


def single_runs(cells: Iterable[Cell]) -> list[Config]:
    """Every run of these cells once: seed by seed, data set by data set, so that a grid
    that is stopped early leaves whole columns."""
    found = {
        run.id: run
        for cell in cells
        for experiment in cell.candidates.values()
        for run in runs_of(experiment)
    }
    sets = list(dict.fromkeys(run.data.model_dump_json() for run in found.values()))
    return sorted(
        found.values(),
        key=lambda run: (run.seeds[0], sets.index(run.data.model_dump_json())),
    )


@dataclass(frozen=True)
class Estimate:
    """What the runs of one cell will cost on this machine.

    Attributes:
        runs: How many it has.
        done: How many of them are finished.
        parameters: Of each model with another s.
        seconds: Of what is left, one run after another; ``None`` if unknown.
        problem: Why it is unknown.
    """

    cell: Cell
    runs: int
    done: int
    parameters: list[int]
    seconds: float | None
    problem: str = ""


def estimate(
    cells: Iterable[Cell], elsewhere: Mapping[str, int] | None = None
) -> Iterator[Estimate]:
    """Say for each cell what is left to do, from a few measured steps; ``elsewhere``
    is that of `unfinished`."""
    stopwatch = _Stopwatch()
    for cell in cells:
        runs = [run for c in cell.candidates.values() for run in runs_of(c)]
        left = unfinished(runs, elsewhere)
        try:
            costs = {run.id: stopwatch.cost(run) for run in runs}
        except (FullrankError, OSError) as error:
            done = len(runs) - len(left)
            yield Estimate(cell, len(runs), done, [], None, str(error))
            continue
        yield Estimate(
            cell,
            len(runs),
            len(runs) - len(left),
            sorted({parameters for parameters, _ in costs.values()}),
            sum(costs[run.id][1] for run in left),
        )


class _Stopwatch:
    """Measures each network once, whatever its seed, fold or target."""

    def __init__(self) -> None:
        self._sets: dict[str, GraphDataset | Exception] = {}
        self._measured: dict[str, tuple[int, float, float]] = {}

    def cost(self, run: Config) -> tuple[int, float]:
        """The parameters of a run's network and its seconds."""
        dataset = self._dataset(run)
        split = make_split(run, dataset)
        size = run.training.batch_size
        key = f"{run.data.name} {run.data.limit} {size} {run.model!r}"
        if key not in self._measured:
            self._measured[key] = _measure(run, dataset)
        parameters, step, look = self._measured[key]
        watched = split.test if run.split.kind == "gin" else split.valid
        epoch = (len(split.train) * step + len(watched) * look) / size
        return parameters, run.training.epochs * epoch

    def _dataset(self, run: Config) -> GraphDataset:
        key = run.data.model_dump_json()
        if key not in self._sets:
            try:
                self._sets[key] = load_dataset(run.data)
            except Exception as error:
                self._sets[key] = error
        found = self._sets[key]
        if isinstance(found, Exception):
            raise found
        return found


def _measure(run: Config, dataset: GraphDataset) -> tuple[int, float, float]:
    """Parameters, seconds of a training step, seconds of a forward pass."""
    split = make_split(run, dataset)
    network = draw_blueprint(run, dataset, split).build()
    optimizer = torch.optim.Adam(network.parameters())
    size = run.training.batch_size
    loader = dataset.loader(split.train, batch_size=size, shuffle=True, seed=0)
    steps, looks = [], []
    for batch in islice(cycle(loader), _STEPS):
        network(batch)  # gives lazy parameters their sizes
        started = time.perf_counter()
        optimizer.zero_grad()
        network(batch).square().mean().backward()
        optimizer.step()
        trained = time.perf_counter()
        with torch.no_grad():
            network(batch)
        steps.append(trained - started)
        looks.append(time.perf_counter() - trained)
    parameters = sum(p.numel() for p in network.parameters())
    return parameters, median(steps), median(looks)
