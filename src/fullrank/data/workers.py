"""Work on molecules in processes of their own, because RDKit can crash.

A worker gets a block of items at a time. When it dies, a new one finds out which items
it died of; these become errors, and the block is computed again with the errors in
their place.

A worker is a new interpreter, not a fork: a fork copies the locks that other threads
hold at that moment, and waits for them forever.
"""

import atexit
import ctypes
import faulthandler
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from fullrank.errors import DataError

T = TypeVar("T")
R = TypeVar("R")
_LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
_MOST_IDLE = 2


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
        function: Can be pickled. Is given a block again with a `DataError` in place of
            each item that crashes the process.
        blocks: Only one for each worker is in memory.
    """
    waiting = iter(blocks)
    team: list[_Worker] = []
    busy: deque[_Worker] = deque()  # the one with the oldest block first
    try:
        for block in islice(waiting, max(workers, 1)):
            team.append(_hire(function))
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
            _dismiss(worker)


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

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            f"from fullrank.data.workers import _serve; _serve({os.getpid()})"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is for the parent
        )
        self._told = False
        self.is_busy = False

    def take(self, function: Callable[[Any], Any]) -> None:
        """Compute this function from now on."""
        self._function = function
        self._told = False

    def send(self, block: list[Any]) -> None:
        self._block = block
        self.is_busy = True
        function = None if self._told else self._function
        self._told = True
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # `result` notices a worker that has died
            self._process.stdin.write(pickle.dumps((function, block)))
            self._process.stdin.flush()

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
        assert self._process.stdout is not None
        try:
            answer = pickle.load(self._process.stdout)
        except (EOFError, pickle.UnpicklingError):  # before or in the middle of it
            raise _Died from None
        self.is_busy = False
        if isinstance(answer, _Raised):
            raise answer.error
        return answer

    def _cause_of_death(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)  # it is past all that can last
        self.end()
        code = self._process.returncode
        if code in (0, 1):  # not a crash: it could not even start
            raise RuntimeError(f"a worker process ended with status {code}")
        return signal.Signals(-code).name if code < 0 else f"status {code}"

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()


class _Raised:
    """What a function raised."""

    def __init__(self, error: Exception) -> None:
        self.error = error


# Between two uses some workers wait: to start one takes most of a second. The key is
# the process that they belong to, because a fork of it inherits this list.
_idle: dict[int, list[_Worker]] = {}


def _hire(function: Callable[[Any], Any]) -> _Worker:
    try:
        worker = _idle.setdefault(os.getpid(), []).pop()
    except IndexError:
        worker = _Worker()
    worker.take(function)
    return worker


def _dismiss(worker: _Worker) -> None:
    waiting = _idle.setdefault(os.getpid(), [])
    if worker.is_busy or len(waiting) >= _MOST_IDLE:
        worker.end()
    else:
        waiting.append(worker)


@atexit.register
def _dismiss_all() -> None:
    for worker in _idle.pop(os.getpid(), []):
        worker.end()


def _serve(parent: int) -> None:
    """The life of a worker, which ends with its parent."""
    if _LINUX:
        import resource

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.disable()  # a crash is expected here and reported by the parent
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is not an answer
    function: Any = None
    with suppress(EOFError, BrokenPipeError):
        while True:
            new, block = pickle.load(sys.stdin.buffer)
            function = new or function
            try:
                answer = pickle.dumps(function(block))
            except Exception as error:
                error.add_note(traceback.format_exc())
                answer = pickle.dumps(_Raised(error))
            answers.write(answer)
            answers.flush()
