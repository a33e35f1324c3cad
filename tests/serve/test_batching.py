import asyncio
import os
import threading

import pytest

from fullrank.data.workers import for_each
from fullrank.errors import DataError
from fullrank.serve.batching import Batcher, Busy, TimeLimited


def square(item):
    if item == "crash":
        os.abort()
    while item == "forever":
        pass
    if item == "bug":
        raise ZeroDivisionError
    return item * item


def read(items):
    return for_each(square, items)


class Finish:
    """Keeps what it was given, and waits to be let go."""

    def __init__(self):
        self.blocks = []
        self.go = threading.Event()
        self.go.set()

    def __call__(self, made):
        self.go.wait(60)
        self.blocks.append(made)
        return made


@pytest.fixture(scope="module")
def shared():
    made = Batcher(TimeLimited(read, 0.5), Finish(), at_once=64, room=1000)
    yield made
    made.close()


@pytest.fixture
def batcher(shared):
    yield shared
    shared.room = 1000
    shared._finish.go.set()


@pytest.fixture
def finish(batcher):
    batcher._finish.blocks.clear()
    return batcher._finish


def test_requests_share_blocks_and_each_gets_its_own_rows(batcher, finish):
    finish.go.clear()
    jobs = [[n, n + 1] for n in range(100)]

    async def ask():
        asking = [asyncio.ensure_future(batcher.answers(job)) for job in jobs]
        await asyncio.sleep(0)  # until all of them wait
        finish.go.set()
        return await asyncio.gather(*asking)

    assert asyncio.run(ask()) == [[a * a, b * b] for a, b in jobs]
    # Those that were there when the first block was taken, and 64 rows at a time.
    assert len(finish.blocks) <= 6
    assert sum(map(len, finish.blocks)) == 200


def test_what_crashes_or_takes_too_long_has_a_reason_in_its_place(batcher):
    rows = asyncio.run(batcher.answers([2, "crash", 3, "forever", 4]))
    assert rows[::2] == [4, 9, 16]
    assert "SIGABRT" in str(rows[1])
    assert "SIGPROF" in str(rows[3])
    assert all(isinstance(row, DataError) for row in rows[1::2])
    assert asyncio.run(batcher.answers([5])) == [25]


def test_a_bug_is_the_answer_to_its_own_block_only(batcher):
    with pytest.raises(ZeroDivisionError):
        asyncio.run(batcher.answers(["bug"]))
    assert asyncio.run(batcher.answers([5])) == [25]


def test_what_cannot_be_finished_fails_alone(batcher, finish):
    truth, batcher._finish = batcher._finish, lambda made: made / 0
    with pytest.raises(TypeError):
        asyncio.run(batcher.answers([5]))
    batcher._finish = truth
    assert asyncio.run(batcher.answers([5])) == [25]


def test_more_than_there_is_room_for_is_refused(batcher, finish):
    batcher.room = 3

    async def ask():
        finish.go.clear()
        first = asyncio.ensure_future(batcher.answers([1, 2]))
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await batcher.answers([3, 4])
        second = asyncio.ensure_future(batcher.answers([3]))
        await asyncio.sleep(0)
        finish.go.set()
        assert await first == [1, 4]
        assert await second == [9]
        return await batcher.answers([1, 2, 3])

    assert asyncio.run(ask()) == [1, 4, 9]


def test_what_nobody_waits_for_is_not_computed(batcher, finish):
    async def ask():
        finish.go.clear()
        first = asyncio.ensure_future(batcher.answers([1]))
        while not batcher._sent:
            await asyncio.sleep(0.01)
        given_up = asyncio.ensure_future(batcher.answers([7]))
        await asyncio.sleep(0)
        given_up.cancel()
        last = asyncio.ensure_future(batcher.answers([2]))
        await asyncio.sleep(0)
        finish.go.set()
        return await first, await last

    assert asyncio.run(ask()) == ([1], [4])
    assert [49] not in finish.blocks


def test_closing_answers_what_is_waiting():
    finish = Finish()
    batcher = Batcher(read, finish, at_once=2, room=10)

    async def ask():
        finish.go.clear()
        waiting = [asyncio.ensure_future(batcher.answers([n])) for n in range(5)]
        await asyncio.sleep(0)
        finish.go.set()
        await asyncio.to_thread(batcher.close)
        return await asyncio.gather(*waiting)

    assert asyncio.run(ask()) == [[0], [1], [4], [9], [16]]
