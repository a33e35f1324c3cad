"""Work on molecules in processes of their own, because RDKit can crash.

A worker gets some items at a time. When it dies, a new one gets the same items one by
one, so that only the item it died of is lost.
"""

import ctypes
import faulthandler
import multiprocessing
import os
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, TypeVar

from fullrank.errors import DataError

T = TypeVar("T")
R = TypeVar("R")
_LINUX = sys.platform == "linux"
# A fork starts in milliseconds; elsewhere it is not safe beside other threads.
_context: Any = multiprocessing.get_context("fork" if _LINUX else "spawn")
_PR_SET_PDEATHSIG = 1


def available_cpus() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if _LINUX else os.cpu_count() or 1


def map_in_workers(
    function: Callable[[T], R],
    items: Iterable[T],
    workers: int = 1,
    items_at_once: int = 64,
) -> Iterator[R | DataError]:
    """``function`` of each item, in order, computed in up to ``workers`` processes.

    Where it raises a `DataError`, or crashes, the error stands in place of the result;
    any other exception is raised. Only ``workers * items_at_once`` items are in memory.
    """
    chunks = _chunks(items, items_at_once)
    team: list[_Worker] = []
    busy: deque[_Worker] = deque()  # the one with the oldest chunk first
    try:
        for chunk in islice(chunks, max(workers, 1)):
            team.append(_Worker(function))
            team[-1].send(chunk)
            busy.append(team[-1])
        while busy:
            worker = busy.popleft()
            results = worker.results()
            chunk = next(chunks, [])
            if chunk:  # at work again before its results are used
                worker.send(chunk)
                busy.append(worker)
            yield from results
    finally:
        for worker in team:
            worker.end()


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


class _Died(Exception):
    """A worker ended before it had answered."""


class _Worker:
    """A process that computes a function, and is replaced when it dies.

    It has one chunk at a time: with two, it and its parent could both wait for the
    other to empty a full pipe.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._chunk: list[Any] = []
        self._start()

    def _start(self) -> None:
        self._connection, theirs = _context.Pipe()
        self._process = _context.Process(
            target=_serve, args=(self._function, theirs, os.getpid()), daemon=True
        )
        with _interrupts_held_back():
            self._process.start()
        theirs.close()

    def send(self, chunk: list[Any]) -> None:
        self._chunk = chunk
        with suppress(OSError):  # a worker that has died is noticed by `results`
            self._connection.send(chunk)

    def results(self) -> list[Any]:
        """The results of the chunk sent last."""
        try:
            return self._receive()
        except _Died:
            return [self._alone(item) for item in self._chunk]

    def _alone(self, item: Any) -> Any:
        if not self._process.is_alive():
            self.end()
            self._start()
        self.send([item])
        try:
            return self._receive()[0]
        except _Died:
            code = self._process.exitcode
            if code in (0, 1):  # it could not even start
                raise RuntimeError(
                    f"a worker process ended with status {code}"
                ) from None
            reason = signal.Signals(-code).name if code < 0 else f"status {code}"
            return DataError(f"RDKit crashes on it ({reason})")

    def _receive(self) -> list[Any]:
        # Not by EOF alone: another process may hold the other end open.
        while not self._connection.poll(1):
            if not self._process.is_alive() and not self._connection.poll(0):
                break
        try:
            if not self._connection.poll(0):
                raise EOFError
            answer = self._connection.recv()
        except (EOFError, OSError):
            self._process.join()
            raise _Died from None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def end(self) -> None:
        self._connection.close()
        self._process.kill()
        self._process.join()


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Let a new process meet no signal before it has said what to do with it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(function: Callable[[Any], Any], connection: Any, parent: int) -> None:
    """The life of a worker: it ends with its parent and leaves Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if _LINUX:
        import resource

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if hasattr(signal, "pthread_sigmask"):
        blocked = {signal.SIGINT, signal.SIGTERM}
        signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
    faulthandler.disable()  # a crash is expected here and reported by the parent
    with suppress(EOFError):
        while True:
            chunk = connection.recv()
            try:
                answer: Any = [_attempt(function, item) for item in chunk]
            except Exception as error:
                error.add_note(traceback.format_exc())
                answer = error
            connection.send(answer)


def _attempt(function: Callable[[Any], Any], item: Any) -> Any:
    try:
        return function(item)
    except DataError as error:
        return error
