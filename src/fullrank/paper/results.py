"""From run folders to the cells of the paper's tables."""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fullrank import __version__
from fullrank.errors import FullrankError, RunError
from fullrank.paper.cells import (
    SCALES,
    PlannedCell,
    Protocol,
    cells,
    figures,
    load_table,
    table_names,
)
from fullrank.paper.claims import RULE, claims, judge, judge_published
from fullrank.paper.published import metric_of, published
from fullrank.paper.record import (
    ZHANG,
    CellResult,
    ClaimResult,
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
from fullrank.train import Config, finished, load_config, runs_of, summarize
from fullrank.train.config import FOLDS
from fullrank.train.files import read_json
from fullrank.train.journal import read_curve
from fullrank.train.metrics import LOWER_IS_BETTER

# Where curves come from: the part that the epochs are watched on.
_WATCHED = {"gin": "test"}
#: The cells of a document by table, scale, row, column and protocol.
Places = Mapping[tuple[str, ...], CellResult]


@dataclass(frozen=True)
class Run:
    """A finished run."""

    config: Config
    result: Mapping[str, Any]
    environment: Mapping[str, Any]


@dataclass(frozen=True)
class FoundRuns:
    """What a folder of runs holds.

    Attributes:
        runs: The finished ones by experiment, seeds and folds together.
        unfinished: Ids of those that have no result yet.
        unread: Why a run could not be read, by its folder's name.
    """

    folder: Path
    runs: Mapping[str, Sequence[Run]]
    unfinished: Sequence[str]
    unread: Mapping[str, str]

    @property
    def counts(self) -> RunCounts:
        return RunCounts(
            finished=sum(map(len, self.runs.values())),
            unfinished=list(self.unfinished),
            unread=dict(self.unread),
        )


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
        claims=[
            ClaimResult(
                says=claim.says,
                table=claim.table,
                published=judge_published(claim, published(claim.table)),
                scales=judge(claim, tables),
            )
            for claim in claims()
        ],
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
    runs: dict[str, list[Run]] = defaultdict(list)
    unfinished, unread = [], {}
    for file in sorted(folder.glob("*/config.yaml")):
        home = file.parent
        if (home / "summary.json").exists():
            continue
        try:
            config = _config_of(file)
            result = finished(config)
            if result is None:
                unfinished.append(home.name)
                continue
            machine = read_json(home / "environment.json")
            run = Run(config, result, machine)
            _check(run)
            runs[experiment(config)].append(run)
        except (ValueError, OSError) as error:
            unread[home.name] = str(error)
    return FoundRuns(folder, runs, unfinished, unread)


def _check(run: Run) -> None:
    """Refuse a run without everything that a table shows of it."""
    try:
        _provenance(run)
        metric = run.result["metric"]
        measured = {
            "test": summarize(run.config)["test"][metric]["mean"],
            "validation": run.result["valid"].get(metric, 0.0),
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"it was written by another version of fullrank: {error!r}"
        ) from None
    for part, value in measured.items():
        if value is None:
            raise RunError(f"{metric} of its {part} part is not a number")


def experiment(config: Config) -> str:
    """The name that all seeds and folds of an experiment share."""
    return config.changed(seeds=[0], split={"fold": None}).id


def collect(found: FoundRuns, join: Sequence[ResultsRecord] = ()) -> list[TableResult]:
    """Every table at every scale that has at least one finished run.

    Args:
        found: Run folders.
        join: Documents of other runs, whose cells are joined with ours.
    """
    others = [_places(record) for record in join]
    tables = [
        _table(name, scale, found, others) for name in table_names() for scale in SCALES
    ]
    return [table for table in tables if table.cells]


def _places(record: ResultsRecord) -> Places:
    return {
        (table.name, table.scale, *cell.place): cell
        for table in record.tables
        for cell in table.cells
        if cell.by_seed
    }


def _config_of(file: Path) -> Config:
    home = file.parent
    try:
        config = load_config(file, [f"runs={home.parent}"])
    except FullrankError as error:
        raise RunError(
            f"it was written by another version of fullrank: {error}"
        ) from None
    if config.id != home.name:
        raise RunError(
            f"it was written by another version of fullrank or changed by hand: its "
            f"configuration belongs to {config.id}"
        )
    return config


def _table(
    name: str, scale: str, found: FoundRuns, others: Sequence[Places]
) -> TableResult:
    table = load_table(name)
    numbers = published(name)
    planned = cells(name, scale)
    results: dict[tuple[str, ...], CellResult] = {}
    # The protocol fair first: its validation parts choose s for gin.
    for cell in sorted(planned, key=lambda cell: cell.protocol != "fair"):
        result = _cell(cell, found, results.get((cell.row, cell.column, "fair")))
        for places in others:
            if other := places.get((name, scale, *cell.place)):
                result = result.joined(other)
        results[cell.place] = result
    named = _with_folds_named(list(results.values()))
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
    wanted = sum(len(runs_of(config)) for config in candidates.values())
    complete: dict[int | None, dict[int, list[Run]]] = {}
    done = 0
    for s, config in candidates.items():
        runs = _runs_of_cell(config, cell.column, found)
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
    return _measured(empty, cell, comparable, note, found.folder)


def _not_run(untried: Sequence[int | None]) -> str:
    return f"s = {', '.join(map(str, untried))} not run yet" if untried else ""


def _runs_of_cell(config: Config, column: str, found: FoundRuns) -> list[Run]:
    """The runs that are as long as the table's or longer: of one length, and on the
    folds of Zhang et al. or on our own, whichever has the most of them."""
    options = [config]
    if config.split.kind in FOLDS:
        options.insert(0, config.changed(split={"folder": Path(column)}))
    alike = defaultdict(list)
    for option in options:
        for run in found.runs.get(experiment(option), ()):
            epochs = run.config.training.epochs
            if epochs >= config.training.epochs:
                alike[option.id, epochs].append(run)
    return max(alike.values(), key=len, default=[])


def _complete_seeds(config: Config, runs: Sequence[Run]) -> dict[int, list[Run]]:
    """The runs of the seeds of which every fold is done."""
    folds = len(runs_of(config.changed(seeds=[0])))
    seeds = defaultdict(list)
    for run in runs:
        seeds[run.config.seeds[0]].append(run)
    return {seed: seeds[seed] for seed in sorted(seeds) if len(seeds[seed]) == folds}


def _best(complete: Mapping[int | None, Sequence[Run]]) -> int | None:
    """The s that is best on validation."""
    if len(complete) == 1:
        return next(iter(complete))
    metric = next(iter(complete.values()))[0].result["metric"]
    better = min if metric in LOWER_IS_BETTER else max

    def score(s: int | None) -> float:
        return statistics.fmean(r.result["valid"][metric] for r in complete[s])

    return better(complete, key=score)


def validation(result: Mapping[str, Any]) -> float | None:
    """The metric on validation in the units of the paper's tables; by the protocol gin
    there is none."""
    value = result["valid"].get(result["metric"])
    return None if value is None else _factor(result["metric"]) * value


def _factor(metric: str) -> float:
    return 1.0 if metric in LOWER_IS_BETTER else 100.0


def _measured(
    empty: CellResult,
    cell: PlannedCell,
    complete: Mapping[int | None, Sequence[Run]],
    note: str,
    folder: Path,
) -> CellResult:
    """The cell of the best s."""
    s = _best(complete)
    runs = complete[s]
    first = runs[0].config
    planned = cell.candidates[s].training.epochs
    longer = first.training.epochs - planned
    if longer:
        note = _notes(note, f"{first.training.epochs} epochs instead of {planned}")
    seeds = sorted({run.config.seeds[0] for run in runs})
    whole = first.changed(seeds=seeds, split={"fold": None}, runs=folder)
    summary = summarize(whole)
    metric = summary["metric"]
    factor = _factor(metric)
    spread = summary["test"][metric]
    values = [factor * value for value in spread["values"]]
    per_seed = len(values) // len(seeds)
    return empty.model_copy(
        update={
            "mean": factor * spread["mean"],
            "std": None if spread["std"] is None else factor * spread["std"],
            "by_seed": {
                seed: statistics.fmean(values[i * per_seed : (i + 1) * per_seed])
                for i, seed in enumerate(seeds)
            },
            "s": s,
            "tried": [candidate for candidate in cell.candidates if candidate],
            "note": note,
            "epochs": first.training.epochs,
            "longer": longer,
            "parameters": summary["parameters"],
            "seconds_per_epoch": summary["seconds_per_epoch"],
            "peak_memory": summary["peak_memory"],
            "folds": _folds(first),
            "curves": _curves(runs, metric, cell.protocol, factor),
            "runs": in_order(list(map(_provenance, runs))),
            "other_runs": [
                _provenance(run)
                for other, others in complete.items()
                if other != s
                for run in others
            ],
        }
    )


def _folds(config: Config) -> str:
    if config.split.kind not in FOLDS:
        return ""
    kind = "stratified folds" if config.split.folder is None else ZHANG
    return f"{config.split.folds} {kind}"


def _curves(
    runs: Sequence[Run], metric: str, protocol: str, factor: float
) -> dict[str, Values]:
    parts = ("train", _WATCHED.get(protocol, "valid"))
    curves = {}
    for part in parts:
        of_runs = [
            read_curve(run.config.folder / "metrics.csv", f"{part}_{metric}")
            for run in runs
        ]
        curves[part] = [
            rounded(factor * statistics.fmean(values))
            for values in zip(*of_runs, strict=False)
        ]
    return curves


def _provenance(run: Run) -> RunRecord:
    config, result, machine = run.config, run.result, run.environment
    return RunRecord(
        run=result["run"],
        seed=result["seed"],
        fold=result["fold"],
        best_epoch=result["best_epoch"],
        commit=machine["commit"],
        earlier_commits=machine.get("earlier_commits", []),
        machine=f"{machine['processor']}, {machine['threads']} of "
        f"{machine['cores']} cores",
        versions=f"fullrank {machine['fullrank']}, torch {machine['torch']}, "
        f"PyG {machine['torch_geometric']}",
        epochs=config.training.epochs,
        s=config.model.s,
        valid=validation(result),
    )
