"""Work on molecules in processes of their own, because RDKit can crash.

A worker gets some items at a time and answers one by one. When it dies, the item it
died of is the first one without an answer, and a new worker goes on with the rest.
"""

import ctypes
import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
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
        chunk = self._chunk
        done: list[Any] = []
        killed_at = -1
        while len(done) < len(chunk):
            try:
                done.append(self._receive())
            except _Died:
                death = self._cause_of_death()
                # Who kills a worker need not mean the item: it gets a second chance.
                if death in ("SIGKILL", "SIGTERM") and killed_at < len(done):
                    killed_at = len(done)
                else:
                    done.append(DataError(f"RDKit crashes on it ({death})"))
                self._start()
                self.send(chunk[len(done) :])
        return done

    def _receive(self) -> Any:
        # Not by EOF alone: another process may hold the other end open.
        while not self._connection.poll(1):
            if not self._process.is_alive() and not self._connection.poll(0):
                raise _Died
        try:
            answer = self._connection.recv()
        except (EOFError, OSError):
            raise _Died from None
        if isinstance(answer, Exception) and not isinstance(answer, DataError):
            raise answer
        return answer

    def _cause_of_death(self) -> str:
        self._process.join(timeout=10)  # it is past all that can last
        self.end()
        code = self._process.exitcode
        if code in (0, 1):  # not a crash: it could not even start
            raise RuntimeError(f"a worker process ended with status {code}")
        return signal.Signals(-code).name if code < 0 else f"status {code}"

    def end(self) -> None:
        self._connection.close()
        self._process.kill()
        self._process.join()


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Raise no KeyboardInterrupt while a process starts.

    Python swallows one that arrives in the middle of a fork, and in the new process it
    would be one too many.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are handled in the main thread
        return
    arrived: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: arrived.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
        if arrived:
            signal.raise_signal(arrived[0])


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
    faulthandler.disable()  # a crash is expected here and reported by the parent
    with suppress(EOFError):
        while True:
            chunk = connection.recv()
            for item in chunk:
                connection.send(_answer(function, item))


def _answer(function: Callable[[Any], Any], item: Any) -> Any:
    """The result or the exception."""
    try:
        return function(item)
    except Exception as error:
        if not isinstance(error, DataError):
            error.add_note(traceback.format_exc())
        return error
