"""From run folders to the cells of the paper's tables."""

import math
import os
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, reduce
from pathlib import Path

from fullrank.errors import FullrankError, RunError
from fullrank.paper.cells import (
    ON_FOLDS,
    SCALES,
    PlannedCell,
    Protocol,
    all_cells,
    figures,
    load_table,
)
from fullrank.paper.claims import RULE, claims, judge
from fullrank.paper.join import JoinedCells
from fullrank.paper.published import metric_of, published
from fullrank.paper.ready import table_names
from fullrank.paper.record import (
    ZHANG,
    CellResult,
    MissingCell,
    PublishedCell,
    ResultsRecord,
    RunCounts,
    RunRecord,
    TableColumn,
    TableResult,
    TableRow,
    Values,
    in_order,
    rounded,
)
from fullrank.train import Config, Result, RunFolder, summarize
from fullrank.train.config import digest_of
from fullrank.train.environment import Environment
from fullrank.train.metrics import LOWER_IS_BETTER
from fullrank.train.run_folder import Curve, Identity, Measures
from fullrank.version import __version__

#: Row, column and protocol.
Place = tuple[str, str, Protocol]


@dataclass(frozen=True)
class FinishedRun:
    """What is in the folder of a finished run."""

    folder: RunFolder
    identity: Identity
    config: Config
    result: Result
    environment: Environment
    curve: Curve

    @classmethod
    def read(cls, folder: RunFolder) -> "FinishedRun | None":
        """Read a run, unless it is not finished."""
        identity, config, result = folder.identity, folder.config, folder.result
        if result is None:
            return None
        if result.epochs < config.training.epochs and not result.stopped_early:
            return None  # a finished run that is being trained for longer
        run = cls(folder, identity, config, result, folder.environment, folder.curve)
        if run.is_of_a_table:
            run._check()
        return run

    @property
    def is_of_a_table(self) -> bool:
        return self.config.experiment_digest in _experiments_of_the_tables()

    @property
    def watched(self) -> tuple[str, str]:
        """The parts that have a curve."""
        return "train", "test" if self.config.split.kind == "gin" else "valid"

    def _check(self) -> None:
        """Refuse a run without the numbers that a table shows of it."""
        metric = self.result.metric
        test = summarize(self.config, [self.folder]).test.get(metric)
        measured = {"test": test.mean if test else None}
        if self.config.split.kind != "gin":
            measured["validation"] = self.result.valid.get(metric)
        for part, value in measured.items():
            if value is None or not math.isfinite(value):
                raise RunError(f"{metric} of its {part} part is not a number")
        if len(self.curve) < self.result.epochs:
            raise RunError(f"it has the metrics of {len(self.curve)} epochs only")
        for part in self.watched:
            self.curve.column(f"{part}_{metric}")


def validation(result: Result) -> float | None:
    """The metric on validation in the units of the paper's tables; by the protocol gin
    there is none."""
    return _in_units(result, result.valid)


def _in_units(result: Result, measured: Measures) -> float | None:
    value = measured.get(result.metric)
    return None if value is None else _factor(result.metric) * value


@dataclass(frozen=True)
class FoundRuns:
    """What a folder of runs holds.

    Attributes:
        runs: The finished ones of the paper's experiments by `experiment_digest`.
        counts: Of all runs.
    """

    runs: Mapping[str, Sequence[FinishedRun]]
    counts: RunCounts


def make_record(folder: Path, join: Sequence[ResultsRecord] = ()) -> ResultsRecord:
    """Read a folder of runs and set them beside the published numbers.

    Args:
        folder: Of run folders.
        join: Documents of other runs, whose seeds are added.
    """
    found = read_runs(folder)
    tables = collect(found, join)
    return ResultsRecord(
        fullrank=__version__,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        runs=found.counts,
        rule=RULE,
        claims=[judge(claim, tables) for claim in claims()],
        tables=tables,
        figures=figures(),
    )


def read_runs(folder: Path) -> FoundRuns:
    """Read every run in ``folder``."""
    if not folder.is_dir():
        raise RunError(
            f"there is no folder {str(folder)!r}; `fullrank reproduce` makes one, or "
            f"give the name of another"
        )
    finished: list[FinishedRun] = []
    unfinished, unread = [], {}
    for run_folder in RunFolder.all_in(folder):
        try:
            run = FinishedRun.read(run_folder)
        except (FullrankError, OSError) as error:
            # Without where it lies: the reason goes into pages that are passed on.
            unread[run_folder.id] = str(error).replace(f"{folder}{os.sep}", "")
            continue
        if run is None:
            unfinished.append(run_folder.id)
        else:
            finished.append(run)
    ours = [run for run in finished if run.is_of_a_table]
    other_data = _on_other_data(ours)
    runs: dict[str, list[FinishedRun]] = defaultdict(list)
    for run in ours:
        if run.folder.id not in other_data:
            runs[run.config.experiment_digest].append(run)
    counts = RunCounts(
        finished=len(finished) - len(other_data),
        unfinished=unfinished,
        unread=dict(sorted({**unread, **other_data}.items())),
    )
    return FoundRuns(runs, counts)


def _on_other_data(runs: Sequence[FinishedRun]) -> dict[str, str]:
    """The runs on a data set whose content is not what it is for most runs, and why
    they cannot be compared."""
    sets: dict[tuple[str, str], list[FinishedRun]] = defaultdict(list)
    for run in runs:
        options = digest_of(run.config.data.determining())
        sets[run.identity.dataset, options].append(run)
    found = {}
    for (dataset, _), on_set in sets.items():
        usual, count = Counter(r.identity.data for r in on_set).most_common(1)[0]
        for run in on_set:
            if run.identity.data != usual:
                found[run.folder.id] = (
                    f"its data differ in content from those of {count} other runs on "
                    f"{dataset}; move the runs on one of the two to another folder"
                )
    return found


@cache
def _experiments_of_the_tables() -> frozenset[str]:
    return frozenset(
        config.experiment_digest
        for name in table_names()
        for scale in SCALES
        for cell in all_cells(name, scale)
        for config in cell.candidates.values()
    )


def collect(found: FoundRuns, join: Sequence[ResultsRecord] = ()) -> list[TableResult]:
    """Every table at every scale that has at least one finished run.

    Args:
        found: Run folders.
        join: Documents of other runs, whose cells are joined with ours.
    """
    others = [JoinedCells(record) for record in join]
    tables = [
        _table(name, scale, found, others) for name in table_names() for scale in SCALES
    ]
    return [table for table in tables if table.cells]


def _table(
    name: str, scale: str, found: FoundRuns, others: Sequence[JoinedCells]
) -> TableResult:
    table = load_table(name)
    numbers = published(name)
    planned = all_cells(name, scale)
    results: dict[Place, CellResult] = {}
    # The protocol fair first: its validation parts choose s for gin.
    in_turn = sorted(planned, key=lambda cell: cell.protocol != "fair")
    for column, protocol in dict.fromkeys((c.column, c.protocol) for c in in_turn):
        alternatives = {
            cell.place: [
                _cell(cell, found, results.get((cell.row, column, "fair"))),
                *(other for joined in others for other in joined.find(cell)),
            ]
            for cell in in_turn
            if (cell.column, cell.protocol) == (column, protocol)
        }
        results |= _on_common_folds(alternatives)
    named = _with_folds_named([results[cell.place] for cell in in_turn])
    columns = dict.fromkeys((cell.column, cell.protocol) for cell in planned)
    rows = dict.fromkeys([*(row for row, _ in numbers), *table.rows])
    return TableResult(
        name=name,
        title=table.title,
        scale=scale,
        about=table.scales[scale].about,
        rows=[TableRow(name=row, cited=row not in table.rows) for row in rows],
        columns=[_column(column, protocol) for column, protocol in columns],
        cells=[cell for cell in named if cell.done],
        missing=[
            MissingCell(row=c.row, column=c.column, protocol=c.protocol, runs=c.wanted)
            for c in named
            if not c.done
        ],
        published=[
            PublishedCell(row=row, column=column, mean=number.mean, std=number.std)
            for (row, column), number in numbers.items()
        ],
    )


def _column(name: str, protocol: Protocol) -> TableColumn:
    metric, better = metric_of(name)
    return TableColumn(name=name, protocol=protocol, metric=metric, better=better)


def _on_common_folds(
    alternatives: Mapping[Place, Sequence[CellResult]],
) -> dict[Place, CellResult]:
    """Join the numbers of each cell of a column: those on the folds that most cells
    were completely run on, and of equally many on those of Zhang et al."""
    kinds = Counter(
        kind
        for cells in alternatives.values()
        for kind in {cell.folds for cell in cells if cell.by_seed and not cell.untried}
    )
    common = max(kinds, key=lambda k: (kinds[k], k.endswith(ZHANG)), default="")
    chosen = {
        place: [c for c in cells if c.by_seed and c.folds == common] or cells
        for place, cells in alternatives.items()
    }
    return {place: reduce(CellResult.joined, cells) for place, cells in chosen.items()}


def _with_folds_named(results: Sequence[CellResult]) -> list[CellResult]:
    """Say whose folds a number is from, where a column has both kinds."""
    kinds = defaultdict(set)
    for result in results:
        kinds[result.column].add(result.folds)
    return [
        result.model_copy(update={"note": _notes(result.note, result.folds)})
        if len(kinds[result.column] - {""}) > 1 and result.folds not in result.note
        else result
        for result in results
    ]


def _notes(*notes: str) -> str:
    return "; ".join(filter(None, notes))


def _cell(cell: PlannedCell, found: FoundRuns, fair: CellResult | None) -> CellResult:
    """A cell's result; ``fair`` is that of the same row and column by the protocol
    fair, which chooses s."""
    note = ""
    if cell.protocol == "gin" and fair is not None and fair.s in cell.candidates:
        note = _not_run(fair.untried)
        candidates = {fair.s: cell.candidates[fair.s]}
    else:
        candidates = dict(cell.candidates)
    wanted = sum(_folds_of(c) * len(c.seeds) for c in candidates.values())
    complete: dict[int | None, dict[int, list[FinishedRun]]] = {}
    done = 0
    for s, config in candidates.items():
        runs = _runs_of_cell(config, found)
        done += len(runs)
        if seeds := _complete_seeds(config, runs):
            complete[s] = seeds
    empty = CellResult(
        row=cell.row,
        column=cell.column,
        protocol=cell.protocol,
        wanted=wanted,
        done=done,
    )
    if not complete:
        return empty
    if len(candidates) > 1 and cell.protocol == "gin":
        note = "s is chosen on validation: the protocol fair is not run yet"
        return empty.model_copy(update={"note": note})
    if len(candidates) > 1:
        note = _not_run([s for s in candidates if s not in complete])
    shared = sorted(set.intersection(*map(set, complete.values())))
    if not shared:
        note = "no seed is run with every s yet"
        return empty.model_copy(update={"note": note})
    comparable = {
        s: [run for seed in shared for run in seeds[seed]]
        for s, seeds in complete.items()
    }
    return _measured(empty, cell, comparable, note)


def _not_run(untried: Sequence[int | None]) -> str:
    return f"s = {', '.join(map(str, untried))} not run yet" if untried else ""


def _runs_of_cell(config: Config, found: FoundRuns) -> list[FinishedRun]:
    """The runs that are as long as the table's or longer: of one length, and on the
    folds of Zhang et al. or on our own, whichever has the most of them."""
    alike = defaultdict(list)
    for run in found.runs.get(config.experiment_digest, ()):
        if (epochs := run.config.training.epochs) >= config.training.epochs:
            alike[run.identity.folds or "", epochs].append(run)
    # Of equally many, those of Zhang et al. come first.
    in_turn = (alike[kind] for kind in sorted(alike, reverse=True))
    return max(in_turn, key=len, default=[])


def _complete_seeds(
    config: Config, runs: Sequence[FinishedRun]
) -> dict[int, list[FinishedRun]]:
    """The runs of the seeds of which every fold is done, in the order of the folds."""
    seeds = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.result.fold or 0):
        seeds[run.result.seed].append(run)
    return {
        seed: seeds[seed]
        for seed in sorted(seeds)
        if len(seeds[seed]) == _folds_of(config)
    }


def _folds_of(config: Config) -> int:
    return config.split.folds if config.split.kind in ON_FOLDS else 1


def _best(complete: Mapping[int | None, Sequence[FinishedRun]]) -> int | None:
    """The s that is best on validation."""
    if len(complete) == 1:
        return next(iter(complete))
    metric = next(iter(complete.values()))[0].result.metric
    better = min if metric in LOWER_IS_BETTER else max

    def score(s: int | None) -> float:
        return statistics.fmean(_known(validation(run.result)) for run in complete[s])

    return better(complete, key=score)


def _known(value: float | None) -> float:
    """A number, as `FinishedRun.read` has checked."""
    assert value is not None
    return value


def _factor(metric: str) -> float:
    return 1.0 if metric in LOWER_IS_BETTER else 100.0


def _measured(
    empty: CellResult,
    cell: PlannedCell,
    complete: Mapping[int | None, Sequence[FinishedRun]],
    note: str,
) -> CellResult:
    """The cell of the best s."""
    s = _best(complete)
    runs = complete[s]
    first = runs[0].config
    planned = cell.candidates[s].training.epochs
    longer = first.training.epochs - planned
    if longer:
        note = _notes(note, f"{first.training.epochs} epochs instead of {planned}")
    summary = summarize(first, [run.folder for run in runs])
    factor = _factor(summary.metric)
    test = summary.test[summary.metric]
    by_seed: dict[int, list[float]] = defaultdict(list)
    for run, value in zip(runs, test.values, strict=True):
        by_seed[run.result.seed].append(factor * _known(value))
    return empty.model_copy(
        update={
            "mean": factor * _known(test.mean),
            "std": None if test.std is None else factor * test.std,
            "by_seed": {seed: statistics.fmean(v) for seed, v in by_seed.items()},
            "s": s,
            "tried": [candidate for candidate in cell.candidates if candidate],
            "note": note,
            "epochs": first.training.epochs,
            "longer": longer,
            "parameters": summary.parameters,
            "seconds_per_epoch": summary.seconds_per_epoch,
            "peak_memory": summary.peak_memory,
            "folds": _folds(runs[0]),
            "curves": _curves(runs, summary.metric, factor),
            "runs": in_order(list(map(_provenance, runs))),
            "other_runs": [
                _provenance(run)
                for other, others in complete.items()
                if other != s
                for run in others
            ],
        }
    )


def _folds(run: FinishedRun) -> str:
    if run.config.split.kind not in ON_FOLDS:
        return ""
    kind = "stratified folds" if run.identity.folds is None else ZHANG
    return f"{run.config.split.folds} {kind}"


def _curves(
    runs: Sequence[FinishedRun], metric: str, factor: float
) -> dict[str, Values]:
    curves: dict[str, Values] = {}
    for part in runs[0].watched:
        of_runs = [run.curve.column(f"{part}_{metric}") for run in runs]
        curves[part] = [
            rounded(factor * statistics.fmean(values))
            for values in zip(*of_runs, strict=False)
        ]
    return curves


def _provenance(run: FinishedRun) -> RunRecord:
    result, machine = run.result, run.environment
    return RunRecord(
        run=result.run,
        seed=result.seed,
        fold=result.fold,
        best_epoch=result.best_epoch,
        commit=machine.commit,
        earlier_commits=list(machine.earlier_commits),
        machine=f"{machine.processor}, {machine.threads} of {machine.cores} cores",
        versions=f"fullrank {machine.fullrank}, torch {machine.torch}, "
        f"PyG {machine.torch_geometric}",
        epochs=run.config.training.epochs,
        s=run.config.model.s,
        valid=validation(result),
        train=_in_units(result, result.train_eval),
        data=run.identity.data,
    )
