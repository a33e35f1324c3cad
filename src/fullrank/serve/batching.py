"""Many small requests as few large blocks.

While one block is computed, the requests that arrive meanwhile gather for the next one:
a lone request does not wait for others, and two hundred share one call of the network.
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
    """More is waiting than there is room for."""


@dataclass(frozen=True)
class TimeLimited:
    """A function of a block whose process is killed when it takes too long.

    Nothing else stops RDKit in the middle of a molecule. `map_blocks` then finds the
    molecule, as it does after a crash. The time is that of the processor: that the
    machine is busy is no reason to give up.
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
    """What `map_blocks` says of an item, in terms of `TimeLimited`."""
    return "it takes too long" if reason.endswith("(SIGPROF)") else reason


@dataclass(frozen=True)
class _Job:
    items: Sequence[Any]
    answer: Future[list[Any]] = field(default_factory=Future)


class Batcher:
    """Computes an answer for each item, many items at a time.

    Args:
        read: From a block of items to anything, in a process of its own that may
            crash; it can be pickled, and leaves a `DataError` among the items alone.
        finish: From what ``read`` returned to a list with an answer for each item,
            in a thread of this process.
        at_once: How many items a block has, about.
        room: How many items may wait.
        workers: How many processes read.
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
        """The answer to each item, at most ``at_once`` of them.

        Raises:
            Busy: If there is no room for them.
        """
        if self._waiting + len(items) > self.room:
            raise Busy(f"{self._waiting:,} rows are waiting already; try again soon")
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
        """End the thread and its processes, after what is waiting.

        What takes longer ends with this process.
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
            except Exception as error:  # a bug: these jobs fail, the next ones may not
                while self._sent:
                    for job in self._sent.popleft():
                        job.answer.set_exception(error)

    def _blocks(self) -> Iterator[list[Any]]:
        """Blocks of items, until there will be no more.

        `map_blocks` hands out a result only when it has the next block, so that while
        no job waits, the next one is a block of nothing.
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
                        self._jobs.put(None)  # for next time
                    return jobs or None
                if job.answer.set_running_or_notify_cancel():
                    jobs.append(job)
                    count += len(job.items)
        except queue.Empty:
            pass
        return jobs


def _settle(jobs: list[_Job], finish: Callable[[Any], list[Any]], made: Any) -> None:
    """Give each job its part of the answers."""
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
