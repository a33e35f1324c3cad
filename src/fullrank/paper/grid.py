"""Many runs: one after another, in several processes, or on a Ray cluster.

Runs are independent and idempotent, so a grid that was stopped is simply started again.
"""

import functools
import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any, Literal

import torch
from filelock import FileLock

from fullrank.data import GraphDataset
from fullrank.data.cache import ROOT_VARIABLE
from fullrank.data.files import MIRROR_VARIABLE
from fullrank.errors import MissingPackage, RunError
from fullrank.train import Config, Interrupted, finished, run_one
from fullrank.train.config import DataConfig
from fullrank.train.files import replacing
from fullrank.train.sources import load_dataset

State = Literal["waiting", "running", "done", "failed", "stopped"]
#: A node that is lost may take a moment until it lets go of its runs.
_SECONDS_TO_LET_GO = 120
_SECONDS_TO_ANSWER = 5
# All of a run folder but its weights.
_SMALL_FILES = ("*.json", "*.yaml", "*.csv")


@dataclass
class Outcome:
    """What became of a run.

    Attributes:
        run: Its name.
        state: ``done``, ``failed`` or ``stopped``.
        message: Why it failed.
        where: The machine and process.
        seconds: How long it took here.
        files: Those of the run folder, when it may lie on another machine.
    """

    run: str
    state: State
    message: str = ""
    where: str = ""
    seconds: float = 0.0
    files: dict[str, str] = field(default_factory=dict, repr=False)


class Board:
    """What runs where: the live overview of a grid."""

    def __init__(self, runs: Iterable[str]) -> None:
        self.states: dict[str, State] = dict.fromkeys(runs, "waiting")
        self.where: dict[str, str] = {}
        self.since: dict[str, float] = {}
        self.outcomes: list[Outcome] = []

    def start(self, run: str, where: str) -> None:
        if self.states[run] in ("waiting", "running"):
            if self.where.get(run) != where:
                self.since[run] = time.time()
            self.states[run], self.where[run] = "running", where

    def end(self, outcome: Outcome) -> None:
        self.states[outcome.run] = outcome.state
        self.outcomes.append(outcome)

    @property
    def running(self) -> dict[str, tuple[str, float]]:
        """Where each run is at work, and for how many seconds."""
        now = time.time()
        return {
            run: (self.where[run], now - self.since[run])
            for run, state in self.states.items()
            if state == "running"
        }


Watcher = Callable[[Board], None]


def unfinished(
    configs: Iterable[Config], elsewhere: Mapping[str, int] | None = None
) -> list[Config]:
    """The single runs that have no result yet, each once.

    Args:
        configs: Of single runs.
        elsewhere: Runs that are finished on another machine, and how many epochs
            they have.
    """
    each = {config.id: config for config in configs}.values()
    return [
        config
        for config in each
        if (elsewhere or {}).get(config.id, 0) < config.training.epochs
        and finished(config, or_longer=True) is None
    ]


def run_here(configs: Sequence[Config], watch: Watcher) -> list[Outcome]:
    """Do runs one after another in this process.

    Args:
        configs: Of single runs.
        watch: Told whenever something changed.
    """
    board = Board(config.id for config in configs)
    for config in configs:
        board.start(config.id, _place())
        watch(board)
        board.end(_attempt(config))
        watch(board)
        if board.outcomes[-1].state == "stopped":
            raise Interrupted(board.outcomes[-1].message)
    return board.outcomes


def run_in_processes(
    configs: Sequence[Config],
    workers: int,
    watch: Watcher,
    prepare: Callable[[], Any] | None = None,
) -> list[Outcome]:
    """Do runs in several processes, which share the cores.

    A process that dies takes only its own run with it, which is tried once more.

    Args:
        configs: Of single runs.
        workers: How many processes.
        watch: Told whenever something changed.
        prepare: Called in each process before its first run.
    """
    board = Board(config.id for config in configs)
    todo: queue.SimpleQueue[Config] = queue.SimpleQueue()
    for config in configs:
        todo.put(config)
    events: queue.SimpleQueue[tuple[str, str] | Outcome] = queue.SimpleQueue()
    threads = max(1, torch.get_num_threads() // workers)
    stop = threading.Event()
    slots = [
        threading.Thread(
            target=_work_off,
            args=(todo, events, stop, f"worker {slot + 1}", threads, prepare),
            daemon=True,
        )
        for slot in range(min(workers, len(configs)))
    ]
    for slot in slots:
        slot.start()
    while len(board.outcomes) < len(configs):
        try:
            event = _next(events)
            if isinstance(event, Outcome):
                board.end(event)
            elif event is not None:
                board.start(*event)
            elif stop.is_set() and not board.running:
                break
            watch(board)
        except KeyboardInterrupt:  # the processes got it too and stop their runs
            stop.set()
    if stop.is_set():
        raise Interrupted("stopped; the same command goes on from the last epochs")
    return board.outcomes


def run_on_ray(
    configs: Sequence[Config],
    address: str,
    watch: Watcher,
    cpus: float = 1,
    gpus: float = 0,
    retries: int = 3,
    prepare: Callable[[], Any] | None = None,
) -> list[Outcome]:
    """Do runs on a Ray cluster.

    When a node is lost, its runs start again elsewhere: from their last epoch if the
    folder of runs is on a shared disk, else from their beginning. The small files of
    each run folder come back to this machine in either case.

    Args:
        configs: Of single runs.
        address: Of the cluster, or ``auto`` for the one this machine belongs to.
        watch: Told whenever something changed.
        cpus: That a run takes.
        gpus: That a run takes.
        retries: How often a run may be lost with its node.
        prepare: Called in each process before a run.
    """
    ray = _connect(address)
    bell = _bell(ray)
    do = ray.remote(_on_a_node).options(
        num_cpus=cpus, num_gpus=gpus, max_retries=retries
    )
    board = Board(config.id for config in configs)
    # A relative folder would be relative to the worker's own working directory.
    placed = [c.changed(runs=c.runs.absolute()) for c in configs]
    pending = {
        do.remote(config, max(1, int(cpus)), bell, prepare): config for config in placed
    }
    while pending:
        ready, _ = ray.wait(list(pending), timeout=1.0)
        for run, where in ray.get(bell.rung.remote()).items():
            board.start(run, where)
        for task in ready:
            config = pending.pop(task)
            outcome = _outcome_of(ray, task, config)
            _bring_home(config, outcome.files)
            board.end(outcome)
        watch(board)
    return board.outcomes


def _attempt(config: Config) -> Outcome:
    """Do a run; whatever goes wrong in it is its own affair."""
    started = time.perf_counter()

    def ended(state: State, message: str = "") -> Outcome:
        seconds = time.perf_counter() - started
        return Outcome(config.id, state, message, _place(), seconds)

    try:
        dataset = _dataset(config.data.model_dump_json())
        if isinstance(dataset, Exception):
            raise dataset
        run_one(config, dataset)
    except Interrupted as stop:
        return ended("stopped", str(stop))
    except (KeyboardInterrupt, SystemExit):  # while data is loaded; of Lightning
        return ended("stopped", "stopped; the same command goes on")
    except Exception as error:
        return ended("failed", str(error) or type(error).__name__)
    return ended("done")


# Runs on the same data come next to each other: the last set is enough. What cannot
# be had is not tried again for each of them.
@functools.lru_cache(maxsize=1)
def _dataset(data: str) -> GraphDataset | Exception:
    try:
        return load_dataset(DataConfig.model_validate_json(data))
    except Exception as error:
        return error


def _place() -> str:
    return f"{socket.gethostname()}, process {os.getpid()}"


def _next(events: "queue.SimpleQueue[tuple[str, str] | Outcome]") -> Any:
    try:
        return events.get(timeout=1.0)
    except queue.Empty:
        return None


def _work_off(
    todo: "queue.SimpleQueue[Config]",
    events: "queue.SimpleQueue[tuple[str, str] | Outcome]",
    stop: threading.Event,
    place: str,
    threads: int,
    prepare: Callable[[], Any] | None,
) -> None:
    """Take runs off the queue into one process, and into a new one if it dies."""
    make = functools.partial(
        ProcessPoolExecutor,
        max_workers=1,
        mp_context=get_context("spawn"),
        initializer=_set_up,
        initargs=(threads, prepare),
    )
    pool = make()
    while not stop.is_set():
        try:
            config = todo.get_nowait()
        except queue.Empty:
            break
        events.put((config.id, place))
        for _ in range(2):
            try:
                outcome = pool.submit(_attempt, config).result()
                break
            except BrokenProcessPool:
                if stop.wait(1.0):  # it died of the same Ctrl-C
                    outcome = Outcome(config.id, "stopped")
                    break
                outcome = Outcome(
                    config.id, "failed", "its process died twice; is memory short?"
                )
                pool = make()
        if outcome.state == "stopped":
            stop.set()
        events.put(outcome)
    pool.shutdown()


def _set_up(threads: int, prepare: Callable[[], Any] | None) -> None:
    torch.set_num_threads(threads)
    if prepare is not None:
        prepare()


def _connect(address: str) -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingPackage(
            "--ray needs Ray: pip install 'fullrank[cluster]'"
        ) from None
    if address != "auto":
        _check_that_it_answers(address)
    if not ray.is_initialized():
        try:
            ray.init(
                address=address,
                runtime_env={"env_vars": _data_folders()},
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise RunError(
                f"there is no Ray cluster at {address!r}: start one with "
                f"`ray start --head`, or leave --ray out to run here ({error})"
            ) from None
    return ray


def _data_folders() -> dict[str, str]:
    """Where every node looks for data: as here."""
    names = (ROOT_VARIABLE, MIRROR_VARIABLE)
    return {name: os.environ[name] for name in names if name in os.environ}


def _check_that_it_answers(address: str) -> None:
    """Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), _SECONDS_TO_ANSWER).close()
    except ValueError:
        raise RunError(
            f"a Ray address is auto, HOST:PORT or ray://HOST:PORT, got {address!r}"
        ) from None
    except OSError as error:
        raise RunError(
            f"no Ray cluster answers at {address!r} ({error.strerror or error}); "
            f"`ray status` on the cluster's head says its address"
        ) from None


class _Bell:
    """Rung by a run when it starts, heard by the overview."""

    def __init__(self) -> None:
        self.started: dict[str, str] = {}

    def ring(self, run: str, where: str) -> None:
        self.started[run] = where

    def rung(self) -> dict[str, str]:
        return self.started


def _bell(ray: Any) -> Any:
    """On this node, which is there as long as the grid is."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    return ray.remote(_Bell).options(num_cpus=0, scheduling_strategy=here).remote()


def _on_a_node(
    config: Config, threads: int, bell: Any, prepare: Callable[[], Any] | None
) -> Outcome:
    """Do a run in a process of Ray and send its small files along."""
    from ray import get_runtime_context

    _set_up(threads, prepare)
    where = f"node {get_runtime_context().get_node_id()} on {_place()}"
    bell.ring.remote(config.id, where)
    config.folder.mkdir(parents=True, exist_ok=True)
    with FileLock(config.folder / ".lock", timeout=_SECONDS_TO_LET_GO):
        pass
    outcome = _attempt(config)
    outcome.where = where
    outcome.files = {
        file.name: file.read_text(encoding="utf-8")
        for pattern in _SMALL_FILES
        for file in config.folder.glob(pattern)
    }
    return outcome


def _outcome_of(ray: Any, task: Any, config: Config) -> Outcome:
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:
        return Outcome(
            config.id, "failed", f"{type(error.cause).__name__}: {error.cause}"
        )
    except ray.exceptions.RayError as error:
        why = str(error).strip().splitlines()[0]
        return Outcome(config.id, "failed", f"lost with its node too often: {why}")


def _bring_home(config: Config, files: dict[str, str]) -> None:
    """Write the files of a run that was done where this machine cannot see it."""
    if finished(config, or_longer=True) or "result.json" not in files:
        return
    config.folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        with replacing(config.folder / name, encoding="utf-8") as stream:
            stream.write(text)
