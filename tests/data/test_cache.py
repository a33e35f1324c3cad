import subprocess
import sys
from pathlib import Path

import numpy as np
from platformdirs import user_cache_path

from fullrank.data import Graph, PackedGraphs
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
    assert "node_ptr.bin has 5 bytes" in caplog.text


CHILD = """
import sys, time
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from fullrank.data.cache import prepared
from test_cache import two_graphs

def prepare(folder):
    print("preparing", flush=True)
    time.sleep(0.5)
    two_graphs().save(folder)

assert len(prepared(Path(sys.argv[1]) / "set", prepare)) == 2
"""


def test_of_processes_that_come_at_once_one_prepares(tmp_path):
    command = [sys.executable, "-c", CHILD, str(tmp_path), *sys.path]
    children = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    outputs = [child.communicate() for child in children]
    assert [child.returncode for child in children] == [0, 0], outputs
    assert b"".join(out for out, _ in outputs).count(b"preparing") == 1
