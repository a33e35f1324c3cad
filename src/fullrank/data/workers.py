"""Work on molecules in processes of their own, because RDKit can crash.

A worker gets a block of items at a time. When it dies, a new one finds out which items
it died of; these become errors, and the block is computed again with the errors in
their place.
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
from functools import partial
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
    blocks = batched(items, items_at_once)
    for results in map_blocks(partial(for_each, function), blocks, workers):
        yield from results


def map_blocks(
    function: Callable[[list[T | DataError]], R],
    blocks: Iterable[list[T]],
    workers: int = 1,
) -> Iterator[R]:
    """``function`` of each block, in order, computed in up to ``workers`` processes.

    Args:
        function: Is given a block again with a `DataError` in place of each item that
            crashes the process.
        blocks: Only one for each worker is in memory.
    """
    waiting = iter(blocks)
    team: list[_Worker] = []
    busy: deque[_Worker] = deque()  # the one with the oldest block first
    try:
        for block in islice(waiting, max(workers, 1)):
            team.append(_Worker(function))
            team[-1].send(block)
            busy.append(team[-1])
        while busy:
            worker = busy.popleft()
            result = worker.result()
            block = next(waiting, [])
            if block:  # at work again before its result is used
                worker.send(block)
                busy.append(worker)
            yield result
    finally:
        for worker in team:
            worker.end()


def for_each(
    function: Callable[[T], R], items: Iterable[T | DataError]
) -> list[R | DataError]:
    """``function`` of each item; a `DataError` among them, or raised, stays one."""
    results: list[R | DataError] = []
    for item in items:
        try:
            results.append(item if isinstance(item, DataError) else function(item))
        except DataError as error:
            results.append(error)
    return results


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of ``size``; the last one may be shorter."""
    iterator = iter(items)
    while block := list(islice(iterator, size)):
        yield block


class _Died(Exception):
    """A worker ended before it had answered."""


class _Worker:
    """A process that computes a function, and is replaced when it dies.

    It has one block at a time: with two, it and its parent could both wait for the
    other to empty a full pipe.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._block: list[Any] = []
        self._start()

    def _start(self) -> None:
        self._connection, theirs = _context.Pipe()
        self._process = _context.Process(
            target=_serve, args=(self._function, theirs, os.getpid()), daemon=True
        )
        with _interrupts_held_back():
            self._process.start()
            theirs.close()

    def send(self, block: list[Any]) -> None:
        self._block = block
        with suppress(OSError):  # a worker that has died is noticed by `result`
            self._connection.send(block)

    def result(self) -> Any:
        """The result of the block sent last."""
        block = self._block
        try:
            return self._answer()
        except _Died as died:
            death = died
        survivors = [self._survivor(item) for item in block]
        if not any(isinstance(item, DataError) for item in survivors):
            # No item crashes alone: memory, or chance.
            survivors = [DataError(f"RDKit crashes near it ({death})")] * len(block)
        self.send(survivors)
        return self._answer()

    def _survivor(self, item: Any) -> Any:
        """The item, or why it crashes."""
        if isinstance(item, DataError):
            return item
        self.send([item])
        try:
            self._answer()
        except _Died as died:
            return DataError(f"RDKit crashes on it ({died})")
        return item

    def _answer(self) -> Any:
        """What the worker answers; it is replaced if it dies."""
        for last_chance in (False, True):
            try:
                return self._receive()
            except _Died:
                death = self._cause_of_death()
                self._start()
                # Who kills a worker need not mean the block: it gets a second chance.
                if last_chance or death not in ("SIGKILL", "SIGTERM"):
                    raise _Died(death) from None
                self.send(self._block)

    def _receive(self) -> Any:
        # Not by EOF alone: another process may hold the other end open.
        while not self._connection.poll(1):
            if not self._process.is_alive() and not self._connection.poll(0):
                raise _Died
        try:
            answer = self._connection.recv()
        except (EOFError, OSError):
            raise _Died from None
        if isinstance(answer, Exception):
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
            block = connection.recv()
            try:
                answer = function(block)
            except Exception as error:
                error.add_note(traceback.format_exc())
                answer = error
            connection.send(answer)
