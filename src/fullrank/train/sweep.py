"""Many runs: sequentially, in several processes, or on a Ray cluster.

Runs are independent and resumable, so an interrupted sweep is simply started again. In
processes, each run is a separate ``fullrank train``: a kill, a crash or a lack of
memory affects only that run, and its process ends when the parent process ends.
"""

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

import torch

from fullrank import interrupt
from fullrank.data import GraphDataset
from fullrank.errors import FullrankError
from fullrank.interrupt import GRACE_SECONDS, PARENT_VARIABLE, STATUS, Interrupted
from fullrank.train.cluster import connect
from fullrank.train.config import Config
from fullrank.train.files import write_text
from fullrank.train.run import folds_of, is_finished, run_one
from fullrank.train.run_folder import RunFolder

State = Literal["waiting", "running", "done", "failed", "stopped"]
_STOPPED = "stopped; run the same command again to resume"
_POLL_SECONDS = 0.1
#: How long a lost node may keep the locks of its runs.
_SECONDS_TO_RELEASE = 120


@dataclass
class RunOutcome:
    """The outcome of a run.

    Attributes:
        config: The configuration.
        state: ``done``, ``failed`` or ``stopped``.
        folder: The run folder, once it is known.
        message: The reason of a failure.
        where: Host and process.
        seconds: Duration of this attempt.
        files: The small files of a run folder that may be on another machine.
    """

    config: Config
    state: State
    folder: Path | None = None
    message: str = ""
    where: str = ""
    seconds: float = 0.0
    files: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """The id of the run, or a description until it is known."""
        return self.folder.name if self.folder else run_name(self.config)


@dataclass
class ActiveRun:
    """A run in progress."""

    config: Config
    where: str
    since: float
    folder: Path | None = None


class SweepState:
    """The state of a sweep, for display."""

    def __init__(self, configs: Sequence[Config]) -> None:
        self.total = len(configs)
        self.running: dict[str, ActiveRun] = {}
        self.outcomes: list[RunOutcome] = []

    def start(self, config: Config, where: str, folder: Path | None = None) -> None:
        known = self.running.get(config.digest)
        since = known.since if known and known.where == where else time.time()
        self.running[config.digest] = ActiveRun(config, where, since, folder)

    def end(self, outcome: RunOutcome) -> None:
        self.running.pop(outcome.config.digest, None)
        self.outcomes.append(outcome)

    @property
    def counts(self) -> dict[State, int]:
        """Number of runs in each state."""
        counts: dict[State, int] = defaultdict(int)
        for outcome in self.outcomes:
            counts[outcome.state] += 1
        counts["running"] = len(self.running)
        counts["waiting"] = self.total - len(self.outcomes) - len(self.running)
        return {state: number for state, number in counts.items() if number}


Watcher = Callable[[SweepState], None]


def run_name(config: Config) -> str:
    """A description of a run whose id is not known yet."""
    fold = "" if config.split.fold is None else f", fold {config.split.fold}"
    return f"{config.data.label}-{config.model.label}, seed {config.seeds[0]}{fold}"


class _LastDataset:
    """The data set of a run, or the exception raised by loading it.

    Only the last one is cached, because runs on the same data are adjacent. A failure
    is cached as well.
    """

    def __init__(self) -> None:
        self._key = ""
        self._found: GraphDataset | Exception

    def of(self, config: Config) -> GraphDataset | Exception:
        key = f"{config.data.model_dump_json()} {config.model.descriptors}"
        if key != self._key:
            self._key = key
            try:
                self._found = config.load_data()
            except Exception as error:
                self._found = error
        return self._found


class FinishedRuns:
    """The finished runs in a folder of runs, by configuration.

    A run is found only if the data and the folds have not changed since. If the data
    are not available here, only the configuration and the folds are compared.
    """

    def __init__(self, folder: Path) -> None:
        self._datasets = _LastDataset()
        self._runs: dict[str, list[RunFolder]] = defaultdict(list)
        for run in RunFolder.all_in(folder):
            with contextlib.suppress(FullrankError, OSError):
                if run.result is not None:
                    self._runs[run.config.digest].append(run)

    def find(self, config: Config) -> RunFolder | None:
        """The finished run of this configuration with at least as many epochs."""
        found = [
            run
            for run in self._runs[config.digest]
            if is_finished(run, config, or_longer=True)
        ]
        if not found:
            return None
        folds = folds_of(config)
        found = [run for run in found if run.identity.folds == folds]
        dataset = self._datasets.of(config)
        if isinstance(dataset, GraphDataset):
            found = [run for run in found if run.identity.data == dataset.fingerprint]
        return found[0] if found else None


def run_here(configs: Sequence[Config], watch: Watcher) -> list[RunOutcome]:
    """Do the runs sequentially in this process.

    Args:
        configs: Configurations of single runs.
        watch: Called when the state has changed.
    """
    state, datasets = SweepState(configs), _LastDataset()
    for config in configs:
        state.start(config, _place())
        watch(state)
        outcome = _attempt(config, datasets)
        state.end(outcome)
        watch(state)
        if outcome.state == "stopped":
            raise Interrupted(outcome.message)
    return state.outcomes


def run_in_processes(
    configs: Sequence[Config], workers: int, watch: Watcher
) -> list[RunOutcome]:
    """Do the runs in several processes, which share the cores.

    A run whose process was killed is tried once more.

    Args:
        configs: Configurations of single runs.
        workers: Number of processes.
        watch: Called when the state has changed, and periodically.
    """
    state = SweepState(configs)
    waiting = list(reversed(configs))
    tried: set[str] = set()
    active: list[_TrainProcess] = []
    threads = max(1, torch.get_num_threads() // workers)
    with tempfile.TemporaryDirectory() as scratch, interrupt.stoppable():
        try:
            while (waiting or active) and not interrupt.asked():
                while waiting and len(active) < workers:
                    active.append(_TrainProcess(waiting.pop(), threads, Path(scratch)))
                for process in active:
                    state.start(process.config, process.where, process.folder)
                for process in [p for p in active if p.ended]:
                    active.remove(process)
                    outcome = process.outcome()
                    if process.killed and process.config.digest not in tried:
                        tried.add(process.config.digest)
                        waiting.append(process.config)
                    else:
                        state.end(outcome)
                watch(state)
                time.sleep(_POLL_SECONDS)
        finally:
            _stop(active)
        for process in active:
            state.end(process.outcome())
        watch(state)
        if interrupt.asked() or any(o.state == "stopped" for o in state.outcomes):
            raise Interrupted(_STOPPED)
    return state.outcomes


class _TrainProcess:
    """A ``fullrank train`` process."""

    def __init__(
        self, config: Config, threads: int, scratch: Path, wait: float = 0
    ) -> None:
        self.config = config
        file = scratch / f"{config.digest}.yaml"
        write_text(file, config.text())
        self._output = (scratch / f"{config.digest}.out").open("w+b")
        self._errors = (scratch / f"{config.digest}.err").open("w+b")
        self._began = time.perf_counter()
        command = [sys.executable, "-m", "fullrank", "train", "--quiet", "--no-page"]
        self._process = subprocess.Popen(
            [*command, "--wait", str(wait), str(file)],
            stdin=subprocess.PIPE,  # closed when this process ends for any reason
            stdout=self._output,
            stderr=self._errors,
            env={**os.environ, **_environment(threads)},
            start_new_session=True,  # the parent passes Ctrl-C on
        )
        self.where = f"{socket.gethostname()}, process {self._process.pid}"

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def killed(self) -> bool:
        """Whether the process was ended by a signal."""
        return (self._process.poll() or 0) < 0

    @property
    def folder(self) -> Path | None:
        """The run folder, which the process prints when it is known."""
        lines = _read(self._output).splitlines()
        return Path(lines[0]) if lines else None

    def interrupt(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)

    def wait(self, seconds: float) -> None:
        """Wait for the process to end, and kill it after a timeout."""
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def outcome(self) -> RunOutcome:
        status = self._process.wait()
        state: State = "done" if status == 0 else "failed"
        lines = _read(self._errors).strip().splitlines()
        message = lines[-1].removeprefix("error: ") if lines and status else ""
        if status == STATUS:
            state, message = "stopped", message or _STOPPED
        elif status < 0:
            name = signal.Signals(-status).name
            message = f"the process was ended by {name}; out of memory?"
        outcome = RunOutcome(self.config, state, self.folder, message, self.where)
        outcome.seconds = time.perf_counter() - self._began
        for stream in (self._output, self._errors, self._process.stdin):
            if stream is not None:
                stream.close()
        return outcome


def _read(stream: IO[bytes]) -> str:
    return Path(stream.name).read_text(encoding="utf-8", errors="replace")


def _environment(threads: int) -> dict[str, str]:
    path = os.pathsep.join(filter(None, sys.path))
    return {
        PARENT_VARIABLE: "1",
        "OMP_NUM_THREADS": str(threads),
        "PYTHONPATH": path,
    }


def _stop(processes: Sequence[_TrainProcess]) -> None:
    """Interrupt the processes, and kill those that do not stop in time."""
    for process in processes:
        process.interrupt()
    until = (
        time.monotonic() + GRACE_SECONDS - 2
    )  # within the grace period of this process
    for process in processes:
        process.wait(until - time.monotonic())


def _attempt(config: Config, datasets: _LastDataset) -> RunOutcome:
    """Do a run in this process; an exception becomes its outcome."""
    started = time.perf_counter()
    outcome = RunOutcome(config, "done", where=_place())
    try:
        dataset = datasets.of(config)
        if isinstance(dataset, Exception):
            raise dataset
        outcome.folder = run_one(config, dataset).path
    except Interrupted as stop:
        outcome.state, outcome.message = "stopped", str(stop)
    except (KeyboardInterrupt, SystemExit):  # while loading data; raised by Lightning
        outcome.state, outcome.message = "stopped", _STOPPED
    except Exception as error:
        outcome.state = "failed"
        outcome.message = str(error) or type(error).__name__
        if not isinstance(error, FullrankError):
            logging.getLogger(__name__).exception(
                "a run failed because of a bug in fullrank"
            )
    outcome.seconds = time.perf_counter() - started
    return outcome


def _place() -> str:
    return f"{socket.gethostname()}, process {os.getpid()}"


# Ray


def run_on_ray(
    configs: Sequence[Config],
    address: str,
    watch: Watcher,
    cpus: float = 1,
    gpus: float = 0,
    retries: int = 3,
) -> list[RunOutcome]:
    """Do the runs on a Ray cluster.

    If a node is lost, its runs restart on another node: from the last epoch if the
    folder of runs is on a shared file system, from the beginning otherwise. The small
    files of each run folder are copied back to this machine.

    Args:
        configs: Configurations of single runs.
        address: The address of the cluster, or ``auto`` for that of this machine.
        watch: Called when the state has changed.
        cpus: CPUs per run.
        gpus: GPUs per run.
        retries: Maximum number of restarts of a run whose node was lost.
    """
    ray = connect(address)
    bell = _bell(ray)
    do = ray.remote(_on_a_node).options(
        num_cpus=cpus, num_gpus=gpus, max_retries=retries
    )
    state = SweepState(configs)
    # A relative path would be relative to the working directory of the worker.
    placed = {c.digest: c.changed(runs=c.runs.absolute()) for c in configs}
    threads = max(1, int(cpus))
    pending = {do.remote(config, threads, bell): config for config in placed.values()}
    while pending:
        ready, _ = ray.wait(list(pending), timeout=1.0)
        for digest, where in ray.get(bell.rung.remote()).items():
            if digest in {config.digest for config in pending.values()}:
                state.start(placed[digest], where)
        for task in ready:
            config = pending.pop(task)
            outcome = _outcome_of(ray, task, config)
            _bring_home(outcome)
            state.end(outcome)
        watch(state)
    return state.outcomes


class _Bell:
    """Notifies the sweep when a run starts."""

    def __init__(self) -> None:
        self.started: dict[str, str] = {}

    def ring(self, run: str, where: str) -> None:
        self.started[run] = where

    def rung(self) -> dict[str, str]:
        return self.started


def _bell(ray: Any) -> Any:
    """Schedule on this node, which exists as long as the sweep does."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    return ray.remote(_Bell).options(num_cpus=0, scheduling_strategy=here).remote()


def _on_a_node(config: Config, threads: int, bell: Any) -> RunOutcome:
    """Do a run in a Ray worker and return its small files."""
    from ray import get_runtime_context

    torch.set_num_threads(threads)
    where = f"node {get_runtime_context().get_node_id()} on {_place()}"
    bell.ring.remote(config.digest, where)
    with tempfile.TemporaryDirectory() as scratch:
        process = _TrainProcess(config, threads, Path(scratch), _SECONDS_TO_RELEASE)
        outcome = process.outcome()
    outcome.where = where
    if outcome.folder is not None:
        outcome.files = RunFolder(outcome.folder).small_files()
    return outcome


def _outcome_of(ray: Any, task: Any, config: Config) -> RunOutcome:
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:
        message = f"{type(error.cause).__name__}: {error.cause}"
    except ray.exceptions.RayError as error:
        why = str(error).strip().splitlines()[0]
        message = f"its node was lost too often: {why}"
    return RunOutcome(config, "failed", message=message)


def _bring_home(outcome: RunOutcome) -> None:
    """Write the files of a run that was done on another file system."""
    if outcome.folder is not None and outcome.state == "done":
        run = RunFolder(outcome.folder)
        if not is_finished(run, outcome.config, or_longer=True):
            run.write_small_files(outcome.files)
