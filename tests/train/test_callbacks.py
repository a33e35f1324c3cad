import contextlib
import os
import pickle
import random
import zipfile

import numpy as np
import pytest
import torch

from fullrank.errors import RunError
from fullrank.train.callbacks import (
    AtomicCheckpointIO,
    load_checkpoint,
    random_state,
    set_random_state,
    with_checksum,
)


class Attack:
    """Creates a file when it is unpickled."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return os.mkdir, (str(self.file),)


def crafted(kind, file, trace):
    """Write a checkpoint that executes code in whoever unpickles it."""
    content = {"run": "a-run", "state_dict": {}, "epoch": 0, "extra": Attack(trace)}
    if kind == "torch":
        torch.save(content, file)
    elif kind == "legacy":
        torch.save(content, file, _use_new_zipfile_serialization=False)
    elif kind == "pickle":
        file.write_bytes(pickle.dumps(content))
    else:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps(content))
            archive.writestr("archive/version", "3\n")
    file.write_bytes(with_checksum(file.read_bytes()))


@pytest.mark.parametrize("kind", ["torch", "legacy", "pickle", "zip"])
def test_crafted_checkpoint_executes_nothing(tmp_path, kind):
    file, trace = tmp_path / "last.ckpt", tmp_path / "executed"
    crafted(kind, file, trace)
    with pytest.raises(RunError, match=r"last\.ckpt"):
        load_checkpoint(file, "a-run")
    with pytest.raises(Exception, match=r"."):
        AtomicCheckpointIO().load_checkpoint(file, weights_only=False)
    assert not trace.exists()
    if kind != "zip":  # the attack is real: the unsafe way executes it
        with contextlib.suppress(RuntimeError):  # after the harm is done
            torch.load(file, weights_only=False)
        assert trace.exists()


def test_checkpoint_of_another_run_is_refused(tmp_path):
    file = tmp_path / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint({"run": "qm9-expc-1", "epoch": 3}, file)
    assert load_checkpoint(file, "qm9-expc-1")["epoch"] == 3
    with pytest.raises(RunError, match="qm9-expc-1"):
        load_checkpoint(file, "qm9-expc-2")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut", b"nonsense"])
def test_broken_checkpoint_is_a_sentence(tmp_path, content):
    file = tmp_path / "last.ckpt"
    file.write_bytes(content)
    with pytest.raises(RunError, match=r"last\.ckpt"):
        load_checkpoint(file, "a-run")


def test_every_flipped_bit_is_noticed(tmp_path):
    file = tmp_path / "last.ckpt"
    content = {"run": "a-run", "weights": torch.arange(50.0)}
    AtomicCheckpointIO().save_checkpoint(content, file)
    whole = file.read_bytes()
    for place in random.Random(0).sample(range(8 * len(whole)), 300):
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << place % 8
        file.write_bytes(changed)
        with pytest.raises(RunError, match=r"last\.ckpt"):
            load_checkpoint(file, "a-run")
    file.write_bytes(whole)
    assert torch.equal(load_checkpoint(file, "a-run")["weights"], content["weights"])
    # torch alone reads it, too
    assert torch.load(file, weights_only=True)["run"] == "a-run"


def test_random_numbers_go_on_where_they_were(tmp_path):
    def draw():
        return random.random(), np.random.normal(), float(torch.rand(()))

    draw()
    AtomicCheckpointIO().save_checkpoint(
        {"run": "r", "random": random_state()}, tmp_path / "c"
    )
    first = draw()
    draw()
    set_random_state(load_checkpoint(tmp_path / "c", "r")["random"])
    assert draw() == first
