"""From run folders to the cells of the paper's tables."""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter, mul
from pathlib import Path
from typing import Any

from fullrank.paper.cells import SCALES, Cell, cells, load_table, table_names
from fullrank.paper.published import Number, published
from fullrank.train import Config, finished, load_config, runs_of, summarize
from fullrank.train.config import FOLDS
from fullrank.train.files import read_json
from fullrank.train.journal import read_curve
from fullrank.train.metrics import LOWER_IS_BETTER

# Where curves come from: the part that the epochs are watched on.
_WATCHED = {"gin": "test"}
_DIGITS = 5
_SEED_AND_FOLD = itemgetter("seed", "fold")
#: Table, scale, row, column and protocol of a cell.
Place = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class Run:
    """A finished run."""

    config: Config
    result: Mapping[str, Any]
    environment: Mapping[str, Any]


@dataclass(frozen=True)
class RunFolder:
    """What a folder of run folders holds.

    Attributes:
        runs: The finished ones by experiment, seeds and folds together.
        unfinished: Names of those that have no result yet.
        unread: Why a folder could not be read, by its name.
    """

    folder: Path
    runs: Mapping[str, Sequence[Run]]
    unfinished: Sequence[str]
    unread: Mapping[str, str]


@dataclass(frozen=True)
class CellResult:
    """A number of ours, or what is missing for it.

    Attributes:
        mean, std: Over seeds, or over the folds of all seeds, as the paper does; in the
            units of the paper's table.
        by_seed: The value of each seed.
        s: The one that was chosen on validation, and `tried` ones.
        wanted, done: Runs of the table's own number of seeds, and finished ones.
        note: What a reader must know about the number.
        epochs, longer: How long the runs were, and by how much longer than planned.
        folds: Whose they are.
        curves: Mean over the runs, for each epoch: ``train`` and the part watched.
    """

    row: str
    column: str
    protocol: str
    wanted: int
    done: int
    mean: float | None = None
    std: float | None = None
    by_seed: Mapping[int, float] = field(default_factory=dict)
    s: int | None = None
    tried: Sequence[int] = ()
    note: str = ""
    epochs: int | None = None
    longer: int = 0
    parameters: int | None = None
    seconds_per_epoch: float | None = None
    peak_memory: int | None = None
    folds: str = ""
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    runs: Sequence[Mapping[str, Any]] = ()

    def joined(self, other: "CellResult") -> "CellResult":
        """The cell of the seeds of both, or the one with more runs where they share
        seeds or cannot be one: with folds, a choice of s, or another length. Time and
        memory are those of this one's runs."""
        alike = (self.s, self.epochs) == (other.s, other.epochs)
        chosen = self.folds or len(self.tried) > 1
        if not alike or chosen or self.by_seed.keys() & other.by_seed.keys():
            return max(self, other, key=lambda cell: (bool(cell.by_seed), cell.done))
        by_seed = dict(sorted({**self.by_seed, **other.by_seed}.items()))
        shares = [len(cell.by_seed) / len(by_seed) for cell in (self, other)]

        def mean(*values: float) -> float:
            return sum(map(mul, shares, values))

        return replace(
            self,
            done=self.done + other.done,
            mean=statistics.fmean(by_seed.values()),
            std=statistics.stdev(by_seed.values()),
            by_seed=by_seed,
            curves={
                part: list(map(_rounded, map(mean, curve, other.curves[part])))
                for part, curve in self.curves.items()
            },
            runs=sorted([*self.runs, *other.runs], key=_SEED_AND_FOLD),
        )


@dataclass(frozen=True)
class TableResult:
    """A table at one scale, ours and published."""

    name: str
    title: str
    scale: str
    about: str
    rows: Sequence[str]
    columns: Sequence[tuple[str, str]]
    cells: Sequence[CellResult]
    published: Mapping[tuple[str, str], Number]

    def cell(self, row: str, column: str, protocol: str) -> CellResult | None:
        wanted = (row, column, protocol)
        found = (c for c in self.cells if (c.row, c.column, c.protocol) == wanted)
        return next(found, None)


def read_runs(folder: Path) -> RunFolder:
    """Read every run folder in ``folder``."""
    if not folder.is_dir():
        raise ValueError(
            f"there is no folder {str(folder)!r}; `fullrank reproduce` makes one, or "
            f"say which with its name"
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
    return RunFolder(folder, runs, unfinished, unread)


def _check(run: Run) -> None:
    """Refuse a run without all that a table shows of it."""
    try:
        _provenance(run)
        metric = run.result["metric"]
        measured = {
            "test": summarize(run.config)["test"][metric]["mean"],
            "validation": run.result["valid"].get(metric, 0.0),
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"it was written by another version of fullrank: {error!r}"
        ) from None
    for part, value in measured.items():
        if value is None:
            raise ValueError(f"{metric} of its {part} part is no number")


def experiment(config: Config) -> str:
    """The name that all seeds and folds of an experiment share."""
    return config.changed(seeds=[0], split={"fold": None}).id


def collect(
    found: RunFolder, others: Sequence[Mapping[Place, CellResult]] = ()
) -> list[TableResult]:
    """Every table at every scale that has at least one finished run.

    Args:
        found: Run folders.
        others: Cells of other runs, by their places, that ours are joined with.
    """
    tables = [_table(name, scale, found) for name in table_names() for scale in SCALES]
    for cells_of_others in others:
        tables = [_joined_table(table, cells_of_others) for table in tables]
    return [table for table in tables if any(cell.done for cell in table.cells)]


def _joined_table(
    table: TableResult, others: Mapping[Place, CellResult]
) -> TableResult:
    joined = []
    for cell in table.cells:
        place = (table.name, table.scale, cell.row, cell.column, cell.protocol)
        joined.append(cell.joined(others[place]) if place in others else cell)
    return replace(table, cells=joined)


def with_chosen_s(planned: Sequence[Cell]) -> list[Cell]:
    """The same cells, where those of the protocol ``gin`` keep only the s that the
    protocol ``fair`` chose, if all its runs are finished."""
    return [
        cell
        if cell.protocol != "gin" or (s := _chosen_by_fair(cell)) is None
        else replace(cell, candidates={s: cell.candidates[s]})
        for cell in planned
    ]


def _chosen_by_fair(cell: Cell) -> int | None:
    """The s that is best on the validation parts of the same runs by ``fair``."""
    if len(cell.candidates) == 1:
        return None
    runs: dict[int | None, list[Run]] = {}
    for s, config in cell.candidates.items():
        singles = runs_of(config.changed(split={"kind": "fair"}))
        results = [finished(single, or_longer=True) for single in singles]
        if None in results:
            return None
        runs[s] = [
            Run(single, result, {})
            for single, result in zip(singles, results, strict=True)
            if result is not None
        ]
    return _best(runs)


def _config_of(file: Path) -> Config:
    home = file.parent
    try:
        config = load_config(file, [f"runs={home.parent}"])
    except ValueError as error:
        raise ValueError(
            f"it was written by another version of fullrank: {error}"
        ) from None
    if config.id != home.name:
        raise ValueError(
            f"it was written by another version of fullrank or changed by hand: its "
            f"configuration belongs to {config.id}"
        )
    return config


def _table(name: str, scale: str, found: RunFolder) -> TableResult:
    table = load_table(name)
    numbers = published(name)
    planned = cells(name, scale)
    chosen: dict[tuple[str, str], tuple[int | None, str]] = {}
    # The fair protocol first: its validation parts choose s for the other one.
    fair_first = sorted(planned, key=lambda cell: cell.protocol != "fair")
    results = _with_folds_named([_cell(cell, found, chosen) for cell in fair_first])
    columns = list(dict.fromkeys((cell.column, cell.protocol) for cell in planned))
    rows = list(dict.fromkeys([*(row for row, _ in numbers), *table.rows]))
    return TableResult(
        name,
        table.title,
        scale,
        table.scales[scale].about,
        rows,
        columns,
        results,
        numbers,
    )


def _with_folds_named(results: Sequence[CellResult]) -> list[CellResult]:
    """Say whose folds a number is from, where a column has both kinds."""
    kinds = defaultdict(set)
    for result in results:
        kinds[result.column].add(result.folds)
    return [
        replace(result, note=_joined(result.note, result.folds))
        if len(kinds[result.column] - {""}) > 1
        else result
        for result in results
    ]


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))


def _cell(
    cell: Cell,
    found: RunFolder,
    chosen: dict[tuple[str, str], tuple[int | None, str]],
) -> CellResult:
    """A cell's result; ``chosen`` holds the s of fair and what is to be said of it."""
    place = (cell.row, cell.column)
    candidates = dict(cell.candidates)
    by_fair, note = chosen.get(place, (None, ""))
    if by_fair is not None:
        candidates = {by_fair: candidates[by_fair]}
    wanted = sum(len(runs_of(config)) for config in candidates.values())
    complete: dict[int | None, dict[int, list[Run]]] = {}
    done = 0
    for s, config in candidates.items():
        runs = _runs_of_cell(config, cell.column, found)
        done += len(runs)
        if seeds := _complete_seeds(config, runs):
            complete[s] = seeds
    common = (cell.row, cell.column, cell.protocol, wanted, done)
    if not complete:
        return CellResult(*common)
    if len(candidates) > 1 and cell.protocol == "gin":
        note = "s is chosen on validation: the protocol fair is not run yet"
        return CellResult(*common, note=note)
    if len(candidates) > 1:
        missing = [str(s) for s in candidates if s not in complete]
        note = f"s = {', '.join(missing)} not run yet" if missing else ""
    shared = sorted(set.intersection(*map(set, complete.values())))
    if not shared:
        return CellResult(*common, note="no seed is run with every s yet")
    comparable = {
        s: [run for seed in shared for run in seeds[seed]]
        for s, seeds in complete.items()
    }
    s = _best(comparable)
    chosen[place] = s, note
    return _measured(common, cell, comparable[s], s, note, found.folder)


def _runs_of_cell(config: Config, column: str, found: RunFolder) -> list[Run]:
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
    return better(complete, key=lambda s: _validation(complete[s]))


def _validation(runs: Sequence[Run]) -> float:
    return statistics.fmean(r.result["valid"][r.result["metric"]] for r in runs)


def _measured(
    common: tuple[str, str, str, int, int],
    cell: Cell,
    runs: Sequence[Run],
    s: int | None,
    note: str,
    folder: Path,
) -> CellResult:
    first = runs[0].config
    planned = cell.candidates[s].training.epochs
    longer = first.training.epochs - planned
    if longer:
        note = _joined(note, f"{first.training.epochs} epochs instead of {planned}")
    seeds = sorted({run.config.seeds[0] for run in runs})
    whole = first.changed(seeds=seeds, split={"fold": None}, runs=folder)
    summary = summarize(whole)
    metric = summary["metric"]
    factor = 1.0 if metric in LOWER_IS_BETTER else 100.0
    spread = summary["test"][metric]
    values = [factor * value for value in spread["values"]]
    per_seed = len(values) // len(seeds)
    return CellResult(
        *common,
        mean=factor * spread["mean"],
        std=None if spread["std"] is None else factor * spread["std"],
        by_seed={
            seed: statistics.fmean(values[i * per_seed : (i + 1) * per_seed])
            for i, seed in enumerate(seeds)
        },
        s=s,
        tried=[candidate for candidate in cell.candidates if candidate is not None],
        note=note,
        epochs=first.training.epochs,
        longer=longer,
        parameters=summary["parameters"],
        seconds_per_epoch=summary["seconds_per_epoch"],
        peak_memory=summary["peak_memory"],
        folds=_folds(first),
        curves=_curves(runs, metric, cell.protocol, factor),
        runs=sorted(map(_provenance, runs), key=_SEED_AND_FOLD),
    )


def _folds(config: Config) -> str:
    if config.split.kind not in FOLDS:
        return ""
    if config.split.folder is not None:
        return f"{config.split.folds} folds of Zhang et al."
    return f"{config.split.folds} stratified folds"


def _curves(
    runs: Sequence[Run], metric: str, protocol: str, factor: float
) -> dict[str, list[float]]:
    parts = ("train", _WATCHED.get(protocol, "valid"))
    curves = {}
    for part in parts:
        of_runs = [
            read_curve(run.config.folder / "metrics.csv", f"{part}_{metric}")
            for run in runs
        ]
        curves[part] = [
            _rounded(factor * statistics.fmean(values))
            for values in zip(*of_runs, strict=False)
        ]
    return curves


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _provenance(run: Run) -> dict[str, Any]:
    config, result, machine = run.config, run.result, run.environment
    return {
        "run": result["run"],
        "seed": result["seed"],
        "fold": result["fold"],
        "best_epoch": result["best_epoch"],
        "commit": machine["commit"],
        "earlier_commits": machine.get("earlier_commits", []),
        "machine": f"{machine['processor']}, {machine['threads']} of "
        f"{machine['cores']} cores",
        "versions": f"fullrank {machine['fullrank']}, torch {machine['torch']}, "
        f"PyG {machine['torch_geometric']}",
        "epochs": config.training.epochs,
    }
