import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from fullrank.data import DataError
from fullrank.data.workers import map_in_workers


def work(item):
    if item == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if item == "reject":
        raise DataError("rejected")
    if item == "bug":
        raise KeyError("a bug")
    if item == "end of file":
        raise EOFError
    return os.getpid() if item == "pid" else item * 2


def shown(results):
    return [r if not isinstance(r, DataError) else f"error: {r}" for r in results]


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order(workers):
    found = map_in_workers(work, range(1000), workers, items_at_once=7)
    assert list(found) == [2 * i for i in range(1000)]
    assert list(map_in_workers(work, [], workers)) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_only_the_item_that_crashes_is_lost(workers):
    items = [1, "crash", 2, "reject", 3, "crash", "crash", 4]
    found = shown(map_in_workers(work, items, workers, items_at_once=3))
    assert [r for r in found if not isinstance(r, str)] == [2, 4, 6, 8]
    assert found[3] == "error: rejected"
    for place in (1, 5, 6):
        assert "SIGSEGV" in found[place]


def test_an_item_whose_worker_is_killed_gets_a_second_chance(tmp_path):
    def once(item):
        file = tmp_path / str(item)
        if item == 2 and not file.exists():
            file.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if item == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    found = list(map_in_workers(once, range(6)))
    assert [r for r in found if not isinstance(r, DataError)] == [0, 1, 2, 3, 5]
    assert "SIGKILL" in str(found[4])


def test_a_bug_is_raised():
    with pytest.raises(KeyError, match="a bug"):
        list(map_in_workers(work, [1, "bug", 2]))
    with pytest.raises(EOFError):
        list(map_in_workers(work, [1, "end of file", 2]))


def test_items_are_asked_for_when_they_are_needed():
    asked = []

    def items():
        for i in range(1000):
            asked.append(i)
            yield i

    found = map_in_workers(work, items(), workers=2, items_at_once=5)
    assert [next(found) for _ in range(10)] == [2 * i for i in range(10)]
    assert len(asked) <= 20
    found.close()


def test_an_error_in_the_items_ends_the_workers():
    def items():
        yield "pid"
        raise DataError("broken table")

    before = set(psutil.Process().children())
    with pytest.raises(DataError, match="broken table"):
        list(map_in_workers(work, items(), items_at_once=1))
    assert set(psutil.Process().children()) <= before


def test_workers_end_with_the_iterator():
    found = map_in_workers(work, ["pid"] * 10, workers=2, items_at_once=1)
    pids = {next(found) for _ in range(4)}
    assert len(pids) == 2
    found.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_an_interrupt_while_a_worker_starts_is_not_lost():
    """It arrives in the middle of the fork, where Python swallows exceptions."""
    asked = []

    def interrupt():
        if asked:
            asked.pop()
            signal.raise_signal(signal.SIGINT)

    os.register_at_fork(before=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        asked.append(1)
        with pytest.raises(KeyboardInterrupt):
            list(map_in_workers(work, [1]))
        assert list(map_in_workers(work, [1])) == [2]
    finally:
        signal.signal(signal.SIGINT, before)


PARENT = """
import os, sys, time
sys.path[:0] = sys.argv[1:]
from fullrank.data.workers import map_in_workers

def work(item):
    print(os.getpid(), flush=True)
    time.sleep(600)

list(map_in_workers(work, range(2), workers=2, items_at_once=1))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_end_when_their_parent_is_killed():
    """They are in the middle of their work; Ctrl-C leaves them to their parent."""
    command = [sys.executable, "-c", PARENT, *sys.path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        pids = [int(parent.stdout.readline()) for _ in range(2)]
        assert all(map(ignores_ctrl_c, pids))
        parent.kill()
    deadline = time.monotonic() + 60
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_alive, pids))


def ignores_ctrl_c(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    ignored = re.search(r"^SigIgn:\s*(\w+)", status, re.MULTILINE)
    return bool(int(ignored[1], 16) >> (signal.SIGINT - 1) & 1)


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != "zombie"
    except psutil.NoSuchProcess:
        return False
