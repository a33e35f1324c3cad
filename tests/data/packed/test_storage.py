import hashlib
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

from fullrank.data import DataError, Field, Graph, PackedGraphs, Part
from fullrank.data.packed import storage
from fullrank.data.packed.graphs import text_arrays
from fullrank.data.packed.storage import (
    HEADER,
    PackedFileError,
    header_checksum,
    verify,
)


def some_graphs(seed: int, count: int) -> PackedGraphs:
    rng = np.random.default_rng(seed)
    graphs = []
    for _ in range(count):
        nodes, edges = rng.integers(1, 6), rng.integers(0, 8)
        arrays = {
            "node.x": rng.normal(size=(nodes, 2)).astype(np.float32),
            "edge.kind": rng.integers(0, 3, edges).astype(np.uint8),
            "graph.y": rng.normal(size=3),
        }
        graphs.append(Graph(nodes, rng.integers(0, nodes, (2, edges)), arrays))
    fields = {
        "x": Field((Part("node.x"),)),
        "edge_attr": Field((Part("edge.kind", one_hot=3),)),
        "y": Field((Part("graph.y", columns=(2, 0)),)),
    }
    names = [f"graph {i}" for i in range(count)]
    return PackedGraphs.from_graphs(
        graphs, text_arrays("name", names), fields, {"name": "some"}
    )


def assert_same(first: PackedGraphs, second: PackedGraphs) -> None:
    everything = np.arange(len(first))
    for name, values in first.batch(everything).to_dict().items():
        assert torch.equal(values, second.batch(everything)[name]), name
    assert list(first.texts("name")) == list(second.texts("name"))


def test_what_is_written_is_read(tmp_path):
    graphs = some_graphs(0, 12)
    graphs.save(tmp_path / "set")
    opened = PackedGraphs.open(tmp_path / "set")
    assert_same(opened, graphs)
    assert opened.fields == graphs.fields
    assert opened.info == {"name": "some"}
    assert not opened.array("x").flags.writeable
    assert os.listdir(tmp_path) == ["set"]


def test_parts_are_joined_and_replace_what_was_there(tmp_path):
    parts = [some_graphs(seed, count) for seed, count in ((1, 3), (2, 1), (3, 6))]
    some_graphs(9, 2).save(tmp_path / "set")
    PackedGraphs.write(tmp_path / "set", iter(parts), lambda: {"name": "joined"})
    opened = PackedGraphs.open(tmp_path / "set")
    for part, first in zip(parts, (0, 3, 4), strict=True):
        for index in range(len(part)):
            ours, theirs = opened[first + index], part[index]
            assert torch.equal(ours.x, theirs.x)
            assert torch.equal(ours.edge_index, theirs.edge_index)
            assert torch.equal(ours.edge_attr, theirs.edge_attr)
            assert torch.equal(ours.y, theirs.y)
    texts = [text for part in parts for text in part.texts("name")]
    assert list(opened.texts("name")) == texts
    assert opened.info == {"name": "joined"}


def test_no_code_is_ever_loaded(tmp_path):
    some_graphs(0, 3).save(tmp_path / "set")
    header = json.loads((tmp_path / "set" / HEADER).read_text())
    assert header["format"] == storage.FORMAT
    for name, entry in header["arrays"].items():
        assert np.dtype(entry["dtype"]).hasobject is False
        assert (tmp_path / "set" / f"{name}.bin").exists()


def damaged(folder, how: str) -> None:
    file = folder / "node.x.bin"
    if how == "truncated":
        file.write_bytes(file.read_bytes()[:-1])
    elif how == "missing":
        file.unlink()
    elif how == "other version":
        text = (folder / HEADER).read_text()
        (folder / HEADER).write_text(text.replace('"version": 2', '"version": 99'))
    elif how == "foreign header":
        (folder / HEADER).write_text('{"hello": "world"}')
    elif how == "no header":
        (folder / HEADER).unlink()
    elif how == "half a header":
        (folder / HEADER).write_text((folder / HEADER).read_text()[:50])
    else:
        header = json.loads((folder / HEADER).read_text())
        arrays = header["arrays"]
        if how == "objects":
            arrays["node.x"]["dtype"] = "|O"
        elif how == "elsewhere":
            arrays["../../secret"] = arrays.pop("node.x")
        elif how == "fewer rows":
            entry = arrays["node.x"]
            entry["shape"][0] -= 1
            file.write_bytes(file.read_bytes()[:-8])
            entry["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
        elif how == "no fields":
            del header["fields"]
        elif how == "fields in a list":
            header["fields"] = []
        elif how == "no arrays":
            del header["arrays"]
        elif how == "no checksum":
            del arrays["node.x"]["sha256"]
        elif how == "unknown type":
            arrays["node.x"]["dtype"] = "float99"
        elif how == "negative rows":
            arrays["node.x"]["shape"][0] *= -1
        elif how == "absurd shape":  # 2**64 bytes, which are 0 in 64 bits
            arrays["node.x"]["shape"] = [2**62, 4]
            file.write_bytes(b"")
        elif how == "absurd one-hot":
            header["fields"]["x"]["parts"][0]["one_hot"] = 10**12
        elif how == "unknown array":
            header["fields"]["x"]["parts"][0]["array"] = "node.z"
        elif how == "unknown field type":
            header["fields"]["x"]["dtype"] = "object"
        elif how == "unknown columns":
            header["fields"]["x"]["parts"][0]["columns"] = [99]
        elif how == "changed header":
            header["info"] = {}
            (folder / HEADER).write_text(json.dumps(header))
            return
        header["sha256"] = header_checksum(header)
        (folder / HEADER).write_text(json.dumps(header))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("truncated", r"node\.x\.bin.* \d+ .* \d+"),
        ("missing", r"node\.x\.bin.* 0 "),
        ("other version", " 99"),
        ("foreign header", r"header\.json"),
        ("no header", "header.json"),
        ("half a header", r"header\.json"),
        ("objects", "object"),
        ("elsewhere", "secret"),
        ("no arrays", "'arrays'"),
        ("no checksum", "sha256"),
        ("unknown type", r"node\.x.*'float99'"),
        ("negative rows", r"node\.x shape"),
        ("fields in a list", "'fields'"),
        ("fewer rows", r"'node\.x'.* \d+ .* \d+ nodes"),
        ("no fields", "'fields'"),
        ("absurd shape", r"node\.x\.bin.* 0 "),
        ("absurd one-hot", "1000000000000"),
        ("unknown array", r"'node\.z'"),
        ("unknown field type", "'object'"),
        ("unknown columns", "99"),
        ("changed header", r"header\.json"),
    ],
)
def test_damage_is_noticed_at_opening(tmp_path, how, message):
    some_graphs(0, 5).save(tmp_path / "set")
    damaged(tmp_path / "set", how)
    with pytest.raises(PackedFileError, match=message):
        PackedGraphs.open(tmp_path / "set")


def test_a_changed_number_is_noticed(tmp_path):
    graphs = some_graphs(0, 5)
    graphs.save(tmp_path / "set")
    assert verify(tmp_path / "set") > graphs.array("x").nbytes
    file = tmp_path / "set" / "node.x.bin"
    content = bytearray(file.read_bytes())
    content[3] ^= 1
    file.write_bytes(content)
    for read in (verify, PackedGraphs.open):
        with pytest.raises(PackedFileError, match=r"node\.x\.bin"):
            read(tmp_path / "set")


def test_a_header_without_a_checksum_is_still_read(tmp_path):
    graphs = some_graphs(0, 5)
    graphs.save(tmp_path / "set")
    header = json.loads((tmp_path / "set" / HEADER).read_text())
    del header["sha256"]
    (tmp_path / "set" / HEADER).write_text(json.dumps(header))
    assert PackedGraphs.open(tmp_path / "set").fingerprints() == graphs.fingerprints()
    header["infos"] = header.pop("info")  # a bit that flipped
    (tmp_path / "set" / HEADER).write_text(json.dumps(header))
    with pytest.raises(PackedFileError, match=r"header\.json"):
        PackedGraphs.open(tmp_path / "set")


def test_nothing_is_left_of_an_interrupted_write(tmp_path):
    def parts():
        yield some_graphs(0, 2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PackedGraphs.write(tmp_path / "set", parts(), dict)
    assert os.listdir(tmp_path) == []


def test_a_disk_that_takes_no_more_is_reported_and_nothing_half_written(tmp_path):
    some_graphs(0, 3).save(tmp_path / "set")
    fork = multiprocessing.get_context("fork")
    said = fork.SimpleQueue()

    def child():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))
        try:
            some_graphs(0, 500).save(tmp_path / "set")
        except DataError as error:
            said.put(str(error))

    process = fork.Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == 0
    assert said.get() == f"cannot write {tmp_path / 'set'}: File too large"
    assert os.listdir(tmp_path) == ["set"]
    assert len(PackedGraphs.open(tmp_path / "set")) == 3


def test_parts_must_agree(tmp_path):
    first = some_graphs(0, 2)
    other = first.with_array("node", "more", np.zeros(first.node_ptr[-1]))
    with pytest.raises(DataError):
        PackedGraphs.write(tmp_path / "set", [first, other], dict)
    with pytest.raises(DataError):
        PackedGraphs.write(tmp_path / "set", [], dict)


FOUR_MILLION = """
import resource, sys
sys.path[:0] = sys.argv[3:]
import numpy as np
from fullrank.data import PackedGraphs

def parts():
    count = 100_000
    path = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    edges = (path[:, None, :] + 3 * np.arange(count)[None, :, None]).reshape(2, -1)
    x = np.zeros((3 * count, 4), np.float32)
    for part in range(40):
        numbers = np.arange(count) + part * count
        yield PackedGraphs.pack(
            np.full(count, 3), edges, {"node.x": x, "graph.y": numbers}
        )

def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MB, the peak

if sys.argv[1] == "write":
    before = memory()
    PackedGraphs.write(sys.argv[2], parts(), dict)
    print(memory(), before)
else:
    before = memory()
    graphs = PackedGraphs.open(sys.argv[2])
    batch = graphs.batch([3_999_999, 0, 2_000_000])
    assert len(graphs) == 4_000_000
    assert batch.y.tolist() == [3_999_999, 0, 2_000_000]
    assert batch.edge_index.tolist()[0][:4] == [1, 0, 2, 1]
    print(memory(), before)
"""


@pytest.mark.slow
def test_four_million_graphs_need_little_memory(tmp_path):
    def child(verb: str) -> tuple[float, float]:
        arguments = [verb, str(tmp_path / "set"), *sys.path]
        run = subprocess.run(
            [sys.executable, "-c", FOUR_MILLION, *arguments],
            capture_output=True,
            text=True,
        )
        assert run.returncode == 0, run.stderr
        peak, before = map(float, run.stdout.split())
        return peak, before

    peak, before = child("write")
    size = sum(f.stat().st_size for f in (tmp_path / "set").iterdir()) / 2**20
    assert size > 390  # MB: more than either process may take
    assert peak - before < 250
    peak, before = child("open")
    assert peak - before < 30
