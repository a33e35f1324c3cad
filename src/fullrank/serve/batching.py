"""Combines many small requests into few large blocks.

Requests that arrive while a block is computed are collected for the next one: a single
request does not wait for others, and two hundred share one call of the network.
"""

import asyncio
import queue
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from fullrank.data.workers import map_blocks
from fullrank.errors import DataError, FullrankError

CLOSING_SECONDS = 5.0


class Busy(FullrankError):
    """The queue is full."""


@dataclass(frozen=True)
class TimeLimited:
    """A function of a block whose process is killed when it takes too long.

    RDKit cannot be interrupted within a molecule in any other way. `map_blocks` then
    identifies the molecule, as after a crash. CPU time is limited, so that a busy
    machine does not cause timeouts.
    """

    function: Callable[[list[Any]], Any]
    seconds: float

    def __call__(self, block: list[Any]) -> Any:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)
        try:
            return self.function(block)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


def plainly(reason: str) -> str:
    """Translate an error of `map_blocks` into one of `TimeLimited`."""
    return "it takes too long" if reason.endswith("(SIGPROF)") else reason


@dataclass(frozen=True)
class _Job:
    items: Sequence[Any]
    answer: Future[list[Any]] = field(default_factory=Future)


class Batcher:
    """Computes an answer for each item, many items at a time.

    Args:
        read: Maps a block of items to any result, in a separate process that may crash;
            must be picklable, and must keep any `DataError` among the items.
        finish: Maps the result of ``read`` to a list with an answer for each item, in a
            thread of this process.
        at_once: Approximate number of items per block.
        room: Maximum number of waiting items.
        workers: Number of processes for ``read``.
    """

    def __init__(
        self,
        read: Callable[[list[Any]], Any],
        finish: Callable[[Any], list[Any]],
        at_once: int,
        room: int,
        workers: int = 1,
    ) -> None:
        self.at_once, self.room = at_once, room
        self._read, self._finish, self._workers = read, finish, workers
        self._waiting = 0  # items; changed by the event loop only
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._sent: deque[list[_Job]] = deque()  # blocks that are being read
        self._thread = threading.Thread(target=self._work, daemon=True)

    async def answers(self, items: Sequence[Any]) -> list[Any]:
        """The answer to each item; at most ``at_once`` items.

        Raises:
            Busy: If the queue is full.
        """
        if self._waiting + len(items) > self.room:
            raise Busy(f"{self._waiting:,} rows are already waiting; try again soon")
        if self._thread.ident is None:
            self._thread.start()
        self._waiting += len(items)
        job = _Job(items)
        try:
            self._jobs.put(job)
            return await asyncio.wrap_future(job.answer)
        finally:
            self._waiting -= len(items)

    def close(self) -> None:
        """Finish all waiting items, then end the thread and its processes.

        If this takes too long, they end with this process.
        """
        self._jobs.put(None)
        if self._thread.ident is not None:
            self._thread.join(CLOSING_SECONDS)

    def _work(self) -> None:
        open_to_jobs = True
        while open_to_jobs:
            try:
                for made in map_blocks(self._read, self._blocks(), self._workers):
                    _settle(self._sent.popleft(), self._finish, made)
                open_to_jobs = False
            except Exception as error:  # a bug: only these jobs fail
                while self._sent:
                    for job in self._sent.popleft():
                        job.answer.set_exception(error)

    def _blocks(self) -> Iterator[list[Any]]:
        """Yield blocks of items until the batcher is closed.

        `map_blocks` returns a result only when it has the next block, so an empty block
        is yielded while no job is waiting.
        """
        while True:
            jobs = self._gather(wait=not any(self._sent))
            if jobs is None:
                return
            self._sent.append(jobs)
            items = [item for job in jobs for item in job.items]
            yield items or [DataError("nothing")]

    def _gather(self, wait: bool) -> list[_Job] | None:
        jobs: list[_Job] = []
        count = 0
        try:
            while count < self.at_once:
                job = self._jobs.get(block=wait and not jobs)
                if job is None:
                    if jobs:
                        self._jobs.put(None)  # for the next call
                    return jobs or None
                if job.answer.set_running_or_notify_cancel():
                    jobs.append(job)
                    count += len(job.items)
        except queue.Empty:
            pass
        return jobs


def _settle(jobs: list[_Job], finish: Callable[[Any], list[Any]], made: Any) -> None:
    """Distribute the answers among the jobs."""
    if not jobs:
        return
    try:
        answers = iter(finish(made))
        for job in jobs:
            job.answer.set_result(list(islice(answers, len(job.items))))
    except Exception as error:
        for job in jobs:
            if not job.answer.done():
                job.answer.set_exception(error)
