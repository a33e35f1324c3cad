import multiprocessing
import time
from pathlib import Path

import numpy as np
import pytest
from platformdirs import user_cache_path

from fullrank.data import DataError, Graph, PackedGraphs
from fullrank.data.cache import data_root, prepared


def two_graphs() -> PackedGraphs:
    none = np.zeros((2, 0), int)
    return PackedGraphs.from_graphs([Graph(1, none, {}), Graph(2, none, {})])


def test_root_is_chosen_in_order(monkeypatch, tmp_path):
    monkeypatch.delenv("FULLRANK_ROOT", raising=False)
    assert data_root() == user_cache_path("fullrank")
    monkeypatch.setenv("FULLRANK_ROOT", str(tmp_path))
    assert data_root() == tmp_path
    assert data_root("elsewhere") == Path("elsewhere")


def test_prepared_once_and_again_when_damaged(tmp_path, caplog):
    calls = []

    def prepare(folder):
        calls.append(folder)
        two_graphs().save(folder)

    for _ in range(3):
        assert len(prepared(tmp_path / "set", prepare)) == 2
    assert len(calls) == 1
    (tmp_path / "set" / "node_ptr.bin").write_bytes(b"short")
    assert len(prepared(tmp_path / "set", prepare)) == 2
    assert len(calls) == 2
    assert "node_ptr.bin" in caplog.text


def test_what_a_killed_process_left_behind_is_removed(tmp_path):
    left = tmp_path / ".set.0123abcd"
    left.mkdir()
    (left / "src.bin").touch()
    other = tmp_path / ".settings.0123abcd"
    other.mkdir()
    prepared(tmp_path / "set", lambda folder: two_graphs().save(folder))
    assert (left.exists(), other.exists()) == (False, True)


def test_of_processes_that_come_at_once_one_prepares(tmp_path):
    fork = multiprocessing.get_context("fork")
    calls = fork.SimpleQueue()

    def prepare(folder):
        calls.put("called")
        time.sleep(0.3)
        two_graphs().save(folder)

    def child():
        assert len(prepared(tmp_path / "set", prepare)) == 2

    children = [fork.Process(target=child) for _ in range(4)]
    for process in children:
        process.start()
    for process in children:
        process.join()
    assert [process.exitcode for process in children] == [0] * 4
    assert calls.get() == "called"
    assert calls.empty()


def test_a_root_that_cannot_be_written_is_named(tmp_path):
    file = tmp_path / "file"
    file.touch()
    for root in (file, file / "below"):
        with pytest.raises(DataError, match=str(file)):
            prepared(root / "set", two_graphs().save)
        with pytest.raises(DataError, match=str(file)):
            two_graphs().save(root / "set")
