"""Runs that were finished on other machines, as their ``results.json`` tell."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fullrank.paper.cells import SCALES, PlannedCell, all_cells
from fullrank.paper.ready import table_names
from fullrank.paper.record import CellResult, ResultsRecord, TableResult
from fullrank.train import Config, single_runs


@dataclass(frozen=True)
class JoinedRun:
    """A run of another machine.

    Attributes:
        epochs: How many it was trained for.
        on_folds_of_zhang: Whether its folds are those of Zhang et al.
        valid: The metric on validation in the units of the table, if it is known.
    """

    epochs: int
    on_folds_of_zhang: bool
    valid: float | None


class JoinedRuns:
    """Runs that are found by their place: table, scale, row, column, protocol, s, seed,
    fold and epochs.

    Ids are of no use, because they change with the version of fullrank. Places with the
    same configuration, such as ExpC-4 in two tables, share their runs.
    """

    def __init__(self, records: Iterable[ResultsRecord]) -> None:
        self._runs: dict[tuple, list[JoinedRun]] = defaultdict(list)
        self._chosen: dict[tuple, int] = {}
        for record in records:
            for table in record.tables:
                if table.name in table_names() and table.scale in SCALES:
                    self._add(table)

    def find(self, run: Config) -> JoinedRun | None:
        """A single run as long as this one or longer; on any folds, unless it asks for
        those of Zhang et al."""
        for found in self._runs.get(_key(run), ()):
            same_folds = run.split.folder is None or found.on_folds_of_zhang
            if found.epochs >= run.training.epochs and same_folds:
                return found
        return None

    def chosen_s(self, cell: PlannedCell) -> int | None:
        """The s that the protocol fair chose for a row and column, if it did."""
        return self._chosen.get((cell.table, cell.scale, cell.row, cell.column))

    def _add(self, table: TableResult) -> None:
        planned = {cell.place: cell for cell in all_cells(table.name, table.scale)}
        for cell in table.cells:
            if cell.place not in planned:
                continue
            if cell.protocol == "fair" and cell.s is not None and not cell.untried:
                self._chosen[table.name, table.scale, cell.row, cell.column] = cell.s
            for run in cell.known_runs():
                config = planned[cell.place].candidate(run.s)
                if config is not None:
                    config = config.changed(training={"epochs": run.epochs})
                    key = (config.experiment_digest, run.seed, run.fold)
                    joined = JoinedRun(run.epochs, cell.on_folds_of_zhang, run.valid)
                    self._runs[key].append(joined)


class JoinedCells:
    """The numbers of another document, by their place and by their experiment.

    Rows with the same configuration, such as ExpC-4 in two tables, share their numbers.
    """

    def __init__(self, record: ResultsRecord) -> None:
        self._by_place: dict[tuple[str, ...], CellResult] = {}
        self._by_experiment: dict[str, CellResult] = {}
        for table in record.tables:
            cells = {cell.place: cell for cell in table.cells if cell.by_seed}
            for place, cell in cells.items():
                self._by_place[table.name, table.scale, *place] = cell
            if table.name not in table_names() or table.scale not in SCALES:
                continue
            for planned in all_cells(table.name, table.scale):
                found = cells.get(planned.place)
                config = planned.candidate(found.s) if found else None
                if found and config is not None:
                    config = config.changed(training={"epochs": found.epochs})
                    self._by_experiment[config.experiment_digest] = found

    def find(self, cell: PlannedCell) -> Iterator[CellResult]:
        """The numbers that belong into a cell."""
        here = self._by_place.get((cell.table, cell.scale, *cell.place))
        if here is not None:
            yield here
        if None not in cell.candidates:
            return  # s is chosen among several experiments
        config = cell.candidates[None]
        there = self._by_experiment.get(config.experiment_digest)
        if there is None or there is here or there.epochs != config.training.epochs:
            return
        yield there.model_copy(
            update={
                "row": cell.row,
                "column": cell.column,
                "protocol": cell.protocol,
                "wanted": len(single_runs(config)),
                "done": len(there.runs),
                "s": None,
                "tried": [],
                "note": "",
                "longer": 0,
                "other_runs": [],
            }
        )


def _key(run: Config) -> tuple[str, int, int | None]:
    return run.experiment_digest, run.seeds[0], run.split.fold
