"""Runs that were finished on other machines, as their ``results.json`` tell."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from fullrank.paper.cells import SCALES, PlannedCell, all_cells
from fullrank.paper.ready import table_names
from fullrank.paper.record import ResultsRecord, TableResult
from fullrank.train import Config


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


def _key(run: Config) -> tuple[str, int, int | None]:
    return run.experiment_digest, run.seeds[0], run.split.fold
