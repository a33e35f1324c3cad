import os
import re
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from importlib import import_module
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


def killed_once_or_always(folder, item):
    file = folder / str(item)
    if item == 2 and not file.exists():
        file.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if item == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def test_an_item_whose_worker_is_killed_gets_a_second_chance(tmp_path):
    found = list(map_in_workers(partial(killed_once_or_always, tmp_path), range(6)))
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
        yield from ["pid", "pid", "pid"]
        raise DataError("broken table")

    before = set(psutil.Process().children())
    with pytest.raises(DataError, match="broken table"):
        list(map_in_workers(work, items(), workers=3, items_at_once=1))
    assert len(set(psutil.Process().children()) - before) <= 2


def test_busy_workers_end_with_the_iterator():
    found = map_in_workers(work, ["pid"] * 10, workers=2, items_at_once=1)
    pids = {next(found) for _ in range(4)}
    assert len(pids) == 2
    found.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_an_idle_worker_is_used_again_for_another_function():
    first = list(map_in_workers(work, ["pid"]))
    assert list(map_in_workers(triple, range(5))) == [0, 3, 6, 9, 12]
    assert list(map_in_workers(work, ["pid"])) == first
    os.kill(first[0], signal.SIGKILL)
    assert list(map_in_workers(work, [1, 2])) == [2, 4]


def triple(item):
    return 3 * item


def imported_from(folder, name):
    sys.path.insert(0, str(folder))
    return import_module(name).VALUE


def test_a_lock_that_another_thread_holds_does_not_matter(tmp_path, monkeypatch):
    """Here that of a module; a fork copies it, and nobody ever releases the copy."""
    held, release = threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "hold", (held, release), raising=False)
    (tmp_path / "slowly_imported.py").write_text(
        "import sys\n"
        "if hasattr(sys, 'hold'):\n"
        "    sys.hold[0].set()\n"
        "    sys.hold[1].wait()\n"
        "VALUE = 7\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    thread = threading.Thread(target=import_module, args=("slowly_imported",))
    thread.start()
    try:
        assert held.wait(60)
        import_it = partial(imported_from, tmp_path)
        assert list(map_in_workers(import_it, ["slowly_imported"])) == [7]
    finally:
        release.set()
        thread.join()


PARENT = """
import sys
sys.path[:0] = sys.argv[2:]
from functools import partial
from fullrank.data.workers import map_in_workers
from tests.data.test_workers import wait_long

list(map_in_workers(partial(wait_long, sys.argv[1]), range(2), 2, items_at_once=1))
"""


def wait_long(folder, item):
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_end_when_their_parent_is_killed(tmp_path):
    """They are in the middle of their work; Ctrl-C leaves them to their parent."""
    command = [sys.executable, "-c", PARENT, tmp_path, *sys.path]
    with subprocess.Popen(command) as parent:
        while len(pids := [int(file.name) for file in tmp_path.iterdir()]) < 2:
            assert parent.poll() is None
            time.sleep(0.05)
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
