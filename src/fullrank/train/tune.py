"""Search for a better configuration on the validation part, with Optuna.

The study is stored in a file or a database, so several processes or machines can share
it. A killed search keeps its finished trials and resumes the unfinished one.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import lightning
import optuna
import yaml
from filelock import FileLock, Timeout
from lightning.pytorch.callbacks import Callback
from optuna.storages import (
    BaseStorage,
    JournalStorage,
    RDBStorage,
    RetryHeartbeatStaleTrialCallback,
)
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.study import MaxTrialsCallback, Study, StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState
from rich.console import Console

from fullrank.data import GraphDataset
from fullrank.errors import ConfigError, RunError
from fullrank.interrupt import Interrupted
from fullrank.train.config import (
    Config,
    change_values,
    digest_of,
    parse,
    read_values,
    yaml_value,
)
from fullrank.train.experiment import finished_result, run_experiment
from fullrank.train.files import write_text
from fullrank.train.metrics import LOWER_IS_BETTER
from fullrank.train.run import identify, run_one
from fullrank.train.run_folder import Summary
from fullrank.train.task import Diverged

#: A key of a configuration, and a list of values or the ends of a range.
SPACE: dict[str, Any] = {
    "optimizer.lr": {"low": 5e-4, "high": 1e-2, "log": True},
    "optimizer.weight_decay": {"low": 1e-6, "high": 1e-2, "log": True},
    "model.layers": {"low": 1, "high": 5},
    "model.hidden": [32, 64, 128, 192],
    "model.s": [1, 2, 4, 8],
    "model.dropout": {"low": 0.0, "high": 0.5},
    "model.readout": ["mean", "sum"],
    "model.descriptors": [None, ["rdkit"], ["rdkit", "morgan"]],
    "training.batch_size": [32, 64, 128],
}
_FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
_SECONDS_TO_WAIT = 24 * 3600


@dataclass(frozen=True)
class Tuned:
    """The result of a search.

    Attributes:
        folder: Folder of the study, the best configuration and the page.
        config: The best configuration.
        study: All trials.
        summary: Summary of the model trained with the best configuration.
    """

    folder: Path
    config: Config
    study: Study
    summary: Summary


def read_space(file: str | Path) -> dict[str, Any]:
    """A search space from a YAML file, in the form of `SPACE`."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {str(file)!r}: {error}") from None
    return read_values(text, str(file))


def tune(
    config: Config,
    trials: int = 50,
    seconds: float | None = None,
    space: Mapping[str, Any] | str | Path | None = None,
    storage: str | None = None,
    console: Console | None = None,
) -> Tuned:
    """Search, then train the best configuration.

    The first trial is the given configuration, so the result is at least as good on the
    validation part. Trials that fall behind the median of the others are stopped.

    Args:
        config: The starting point; keys that are not in ``space`` are kept.
        trials: Number of finished trials in the study, over all processes.
        seconds: Time limit, after which no trial is started.
        space: The search space in the form of `SPACE`, or a YAML file with it.
        storage: The URL of a database, such as ``sqlite:///study.db``; a file in the
            folder of the study by default.
        console: Console for progress.
    """
    searched = _checked_space(config, SPACE if space is None else space)
    key = digest_of([config.determining(), searched])[:12]
    folder = config.runs / f"tune-{config.data.label}-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    search = _Search(config, searched, folder, console)
    place = storage or str(folder / "study.journal")
    direction = search.direction()
    with _study_errors(place):
        study = search.open_study(_storage(storage, place), folder.name, direction)
        finished = len(study.get_trials(deepcopy=False, states=_FINISHED))
    if finished < trials:
        enough = MaxTrialsCallback(trials, states=_FINISHED)
        with search.alive():
            search.take_over(study)
            study.optimize(
                search.trial, timeout=seconds, callbacks=[enough, search.report]
            )
    if not study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
        raise RunError(
            f"no trial of the study in {folder} was completed; increase trials"
        )
    with _study_errors(place):
        best = _changed(config, study.best_params)
    write_text(folder / "best.yaml", best.text())
    summary = run_experiment(best, console=console, wait=_SECONDS_TO_WAIT)
    return Tuned(folder, best, study, summary)


class _Search:
    """The state that all trials of a study share."""

    def __init__(
        self,
        config: Config,
        space: Mapping[str, Any],
        folder: Path,
        console: Console | None,
    ) -> None:
        self.config = config
        self.space = space
        self.folder = folder
        self.console = console
        self.process = uuid4().hex
        self._datasets: dict[str, GraphDataset] = {}

    def direction(self) -> StudyDirection:
        """Whether to minimise or maximise the metric of the data set."""
        dataset = self._dataset(self.config)
        several = dataset.task == "regression" and len(dataset.targets) > 1
        metric = "std_mae" if several else dataset.metric
        lower = metric in LOWER_IS_BETTER
        return StudyDirection.MINIMIZE if lower else StudyDirection.MAXIMIZE

    def open_study(
        self, storage: BaseStorage, name: str, direction: StudyDirection
    ) -> Study:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(
            storage=storage,
            study_name=name,
            direction=direction,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=5),
            load_if_exists=True,
        )
        study.enqueue_trial(_own_values(self.config, self.space), skip_if_exists=True)
        return study

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Hold a lock, which the system releases if this process is killed."""
        lock = self._lock_of(self.process)
        try:
            with FileLock(lock):
                yield
        finally:
            lock.unlink(missing_ok=True)

    def take_over(self, study: Study) -> None:
        """Queue the trials of processes that were killed."""
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            lock = self._lock_of(trial.user_attrs.get("process", ""))
            if not lock.exists():  # it is starting, or on another machine
                continue
            with suppress(Timeout), FileLock(lock, timeout=0):
                study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
                study.enqueue_trial(trial.params)
                lock.unlink()

    def _lock_of(self, process: str) -> Path:
        return self.folder / f".{process}.lock"

    def trial(self, trial: Trial) -> float:
        trial.set_user_attr("process", self.process)
        values = {key: _suggest(trial, key, given) for key, given in self.space.items()}
        config = _changed(self.config, values).changed(
            seeds=self.config.seeds[:1], ensemble=None, runs=self.folder / "trials"
        )
        dataset = self._dataset(config)
        identity = identify(config, dataset).id
        trial.set_user_attr("run", identity)
        try:
            run = run_one(
                config, dataset, callbacks=[_Pruning(trial)], wait=_SECONDS_TO_WAIT
            )
        except Interrupted:
            trial.study.enqueue_trial(trial.params)
            raise
        except RunError as error:
            if isinstance(error.__cause__, Diverged):
                raise optuna.TrialPruned(str(error)) from None
            raise
        result = finished_result(run)
        value = result.valid[result.metric]
        if value is None:
            raise ConfigError(
                f"the run {run.path} has no validation part, which tuning needs"
            )
        return value

    def report(self, study: Study, trial: FrozenTrial) -> None:
        if self.console is not None:
            done = len(study.get_trials(deepcopy=False, states=_FINISHED))
            value = "stopped early" if trial.value is None else f"{trial.value:.4g}"
            complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            best = f", best {study.best_value:.4g}" if complete else ""
            self.console.print(f"trial {done}: {value}{best}")

    def _dataset(self, config: Config) -> GraphDataset:
        key = str(config.model.descriptors)
        if key not in self._datasets:
            self._datasets[key] = config.load_data()
        return self._datasets[key]


class _Pruning(Callback):
    """Stops a trial that is worse than the others at the same epoch."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial

    def on_validation_end(self, trainer: lightning.Trainer, task: Any) -> None:
        value = trainer.callback_metrics[f"valid_{task.spec.main_metric}"]
        self.trial.report(float(value), trainer.current_epoch)
        if self.trial.should_prune():
            raise optuna.TrialPruned


def _storage(url: str | None, place: str) -> BaseStorage:
    if url is not None:
        again = RetryHeartbeatStaleTrialCallback()
        return RDBStorage(
            url, heartbeat_interval=60, heartbeat_stale_trial_callback=again
        )
    lock = JournalFileSymlinkLock(place)
    lock.acquire()
    try:
        _cut_incomplete_line(Path(place))
    finally:
        lock.release()
    return JournalStorage(JournalFileBackend(place, lock))


def _cut_incomplete_line(journal: Path) -> None:
    """Remove an incomplete last line of a killed process: Optuna would append to it."""
    if not journal.exists():
        return
    content = journal.read_bytes()
    complete = content[: content.rfind(b"\n") + 1]
    if complete != content:
        os.truncate(journal, len(complete))
    if complete:
        json.loads(complete.splitlines()[-1])  # Optuna notices only when it appends


@contextmanager
def _study_errors(place: str) -> Iterator[None]:
    """Convert any error about a study or its database to a `ConfigError`; their classes
    depend on Optuna and the database."""
    try:
        yield
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ConfigError(
            f"cannot read the study in {place}: {reason}; restore it, or move it away "
            f"to start again"
        ) from error


def _checked_space(
    config: Config, space: Mapping[str, Any] | str | Path
) -> dict[str, Any]:
    if isinstance(space, Mapping):
        _check_space(config, space)
        return dict(space)
    read = read_space(space)
    try:
        _check_space(config, read)
    except ConfigError as error:
        raise ConfigError(f"{space}: {error}") from None
    return read


def _check_space(config: Config, space: Mapping[str, Any]) -> None:
    if not space:
        raise ConfigError("the search space is empty; name at least one key")
    for key, given in space.items():
        ends = {"low", "high"}
        if isinstance(given, Mapping) and ends <= given.keys() <= {*ends, "log"}:
            values = [given["low"], given["high"]]
        elif isinstance(given, list) and given:
            values = given
        else:
            raise ConfigError(
                f"the search space has {key!r}: {given!r}; use a list of values, "
                f"or {{low: …, high: …}} with log: true for a logarithmic range"
            )
        for value in values:
            _changed(config, {key: yaml_value(value)})


def _suggest(trial: Trial, key: str, given: Any) -> str:
    """A value as YAML text: Optuna's categories are only strings and numbers."""
    if isinstance(given, list):
        return trial.suggest_categorical(key, [yaml_value(value) for value in given])
    low, high, log = given["low"], given["high"], bool(given.get("log"))
    if isinstance(low, int) and isinstance(high, int):
        return yaml_value(trial.suggest_int(key, low, high, log=log))
    return yaml_value(trial.suggest_float(key, low, high, log=log))


def _own_values(config: Config, space: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration's own values of the keys in the space."""
    found: dict[str, Any] = {}
    for key, given in space.items():
        value: Any = config.model_dump()
        for part in key.split("."):
            value = value[part]
        if isinstance(given, list):
            if value in given:
                found[key] = yaml_value(value)
        elif isinstance(value, int | float) and given["low"] <= value <= given["high"]:
            found[key] = value
    return found


def _changed(config: Config, values: Mapping[str, Any]) -> Config:
    changes = [f"{key}={value}" for key, value in values.items()]
    return parse(change_values(yaml.safe_load(config.text(every_key=True)), changes))
