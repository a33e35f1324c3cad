"""A table of the paper, its runs, and what they will cost."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import fmean, median

import numpy as np
import torch

from fullrank.data import GraphDataset, PackedLoader, Split
from fullrank.errors import FullrankError
from fullrank.paper.cells import ONE_SPLIT, PlannedCell
from fullrank.paper.join import JoinedRuns
from fullrank.paper.published import metric_of
from fullrank.paper.record import ResultsRecord
from fullrank.paper.results import validation
from fullrank.train import Config, Model, RunFolder, single_runs
from fullrank.train.estimators import ESTIMATORS
from fullrank.train.fit import make_estimator
from fullrank.train.model import design_model
from fullrank.train.splitting import make_split
from fullrank.train.sweep import FinishedRuns, RunOutcome
from fullrank.train.twins import graphs_for

_STEPS = 5
_GRAPHS = 100
#: Does single runs, here or elsewhere.
Runner = Callable[[Sequence[Config]], list[RunOutcome]]


class Plan:
    """The runs of some cells, and which of them are finished.

    Args:
        cells: Those of `fullrank.paper.cells.cells`.
        join: Results of other machines, whose runs are not done again.
    """

    def __init__(
        self, cells: Sequence[PlannedCell], join: Sequence[ResultsRecord] = ()
    ) -> None:
        self._cells = cells
        self._joined = JoinedRuns(join)
        self._finished: dict[Path, FinishedRuns] = {}

    def refresh(self) -> None:
        """Look again which runs are finished here."""
        self._finished.clear()

    @property
    def cells(self) -> list[PlannedCell]:
        """The cells, where those of the protocol ``gin`` keep only the s that the
        protocol ``fair`` chose, if all its runs are finished."""
        return [
            cell if (s := self._chosen_s(cell)) is None else cell.only(s)
            for cell in self._cells
        ]

    @property
    def runs(self) -> list[Config]:
        """Every single run once."""
        return _runs_once(self.cells)

    def unfinished(self, runs: Sequence[Config]) -> list[Config]:
        """Those of ``runs`` that are finished neither here nor on another machine."""
        return [
            run
            for run in runs
            if self._joined.find(run) is None and self._find(run) is None
        ]

    def _chosen_s(self, cell: PlannedCell) -> int | None:
        """The s that is best on the validation parts of the same runs by ``fair``."""
        if cell.protocol != "gin" or len(cell.candidates) == 1:
            return None
        fair = {
            s: single_runs(config.changed(split={"kind": "fair"}))
            for s, config in cell.candidates.items()
        }
        if any(self.unfinished(runs) for runs in fair.values()):
            return None
        values = {s: list(map(self._validation, runs)) for s, runs in fair.items()}
        if any(None in of_runs for of_runs in values.values()):
            return self._joined.chosen_s(cell)
        best = min if metric_of(cell.column)[1] == "min" else max
        return best(values, key=lambda s: fmean(v for v in values[s] if v is not None))

    def _validation(self, run: Config) -> float | None:
        if (found := self._find(run)) and (result := found.result):
            return validation(result)
        joined = self._joined.find(run)
        return None if joined is None else joined.valid

    def _find(self, run: Config) -> RunFolder | None:
        """A run that is finished here."""
        if run.runs not in self._finished:
            self._finished[run.runs] = FinishedRuns(run.runs)
        return self._finished[run.runs].find(run)


def reproduce(plan: Plan, run: Runner) -> list[RunOutcome]:
    """Do the runs of a plan that are not finished; the protocol fair first, because it
    chooses the s that gin is run with."""
    outcomes: list[RunOutcome] = []
    for protocols in (("fair", ONE_SPLIT), ("gin",)):
        now = [cell for cell in plan.cells if cell.protocol in protocols]
        if todo := plan.unfinished(_runs_once(now)):
            outcomes += run(todo)
            plan.refresh()
    return outcomes


def _runs_once(cells: Sequence[PlannedCell]) -> list[Config]:
    """Every run of these cells once: seed by seed, data set by data set, so that a grid
    that is stopped early leaves whole columns."""
    found = {
        run.digest: run
        for cell in cells
        for experiment in cell.candidates.values()
        for run in single_runs(experiment)
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

    cell: PlannedCell
    runs: int
    done: int
    parameters: list[int]
    seconds: float | None
    problem: str = ""


def estimate(plan: Plan) -> Iterator[Estimate]:
    """Say for each cell what is left to do, from a few measured steps."""
    stopwatch = _Stopwatch()
    for cell in plan.cells:
        runs = [run for c in cell.candidates.values() for run in single_runs(c)]
        left = plan.unfinished(runs)
        done = len(runs) - len(left)
        try:
            parameters = sorted({stopwatch.cost(run)[0] for run in runs})
            seconds = sum(stopwatch.cost(run)[1] for run in left)
        except (FullrankError, OSError) as error:
            yield Estimate(cell, len(runs), done, [], None, str(error))
            continue
        yield Estimate(cell, len(runs), done, parameters, seconds)


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
        graphs = run.data.model_dump_json(exclude={"targets"})
        key = f"{graphs} {size} {run.model!r}"
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
                self._sets[key] = run.data.load()
            except Exception as error:
                self._sets[key] = error
        found = self._sets[key]
        if isinstance(found, Exception):
            raise found
        return found


def _measure(run: Config, dataset: GraphDataset) -> tuple[int, float, float]:
    """Parameters, seconds of a training step, seconds of a forward pass."""
    split = make_split(run, dataset)
    if run.model.name in ESTIMATORS:
        return _measure_estimator(run, dataset, split)
    network = Model(design_model(run, dataset, split))
    optimizer = torch.optim.Adam(network.parameters())
    size = run.training.batch_size
    graphs = graphs_for(network.network, dataset.graphs)
    loader = PackedLoader(graphs, split.train, batch_size=size, shuffle=True)
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


def _measure_estimator(
    run: Config, dataset: GraphDataset, split: Split
) -> tuple[int, float, float]:
    """No parameters, and the seconds that fitting and predicting take for as many
    graphs as are in a batch, from a few graphs: a kernel takes longer with many."""
    every = max(1, len(split.train) // _GRAPHS)
    few = np.asarray(split.train)[::every]
    started = time.perf_counter()
    estimator = make_estimator(run).fit(dataset, few)
    fitted = time.perf_counter()
    estimator.predict(dataset, few)
    share = run.training.batch_size / len(few)
    looked = time.perf_counter() - fitted
    return 0, share * (fitted - started), share * looked
