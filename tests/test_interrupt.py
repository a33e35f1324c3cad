"""Ctrl-C and kills at any moment of real programs: they end soon, leave no process
behind, print no traceback, and the same command resumes to the same numbers."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

from fullrank.interrupt import STATUS, asked, stoppable
from fullrank.train import RunFolder, run_experiment, single_runs
from train.samples import environment, folder_of, small_config

pytestmark = pytest.mark.usefixtures("one_thread")
SECONDS_TO_END = 15
MARKER = "FULLRANK_TEST_MARKER"
GRID = Path(__file__).with_name("grid.py")


@dataclass
class Program:
    """A program that was started, and everything it started itself."""

    process: subprocess.Popen
    marker: str

    def processes(self):
        """All processes that carry the program's marker."""
        marked, found = f"{MARKER}={self.marker}".encode(), []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                dead = (folder / "stat").read_text().rpartition(") ")[2][0] == "Z"
                if not dead and marked in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
        return found

    def end(self, how):
        """Stop it as ``how`` says; returns its status and what it printed to stderr."""
        if self.process.poll() is None:
            if how == "kill":
                self.process.kill()
            elif how == "terminal":  # which tells the whole group
                os.killpg(self.process.pid, signal.SIGINT)
            else:
                self.process.send_signal(signal.SIGINT)
        until = time.monotonic() + SECONDS_TO_END
        while self.processes():
            assert time.monotonic() < until, "processes are left"
            time.sleep(0.05)
        _, errors = self.process.communicate()
        return self.process.returncode, errors


def launch(kind, file, how):
    marker = uuid.uuid4().hex
    command = ["-m", "fullrank", "train"] if kind == "train" else [str(GRID)]

    def inherit_ignored():
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    process = subprocess.Popen(
        [sys.executable, *command, str(file)],
        env=environment(**{MARKER: marker}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=inherit_ignored if how == "ignored" else None,
    )
    return Program(process, marker)


def wait_until(condition, program, seconds=120):
    until = time.monotonic() + seconds
    while not condition() and program.process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.005)


def wait_for_the_handler(program):
    """Until `interrupt.install` has run; before, it is Python itself that starts."""
    descriptors = Path(f"/proc/{program.process.pid}/fd")

    def installed():  # it opens the only socket
        with contextlib.suppress(OSError):
            return any("socket:" in os.readlink(fd) for fd in descriptors.iterdir())

    wait_until(installed, program)


def experiment(tmp_path, kind, epochs, runs=2):
    """A configuration of one run, or a grid of some runs for two workers."""
    config = small_config(
        tmp_path,
        model={"layers": 2, "hidden": 32, "dropout": 0.3},
        training={"epochs": epochs, "batch_size": 8},
        schedule={"name": "cosine"},
        seeds=[0] if kind == "train" else list(range(runs)),
    )
    file = tmp_path / "config.yaml"
    file.write_text(config.text())
    reference = config.changed(runs=tmp_path / "reference")
    run_experiment(reference)
    return config, file, reference


def assert_ended_well(program, how):
    status, errors = program.end(how)
    if how == "kill":
        assert status in (-signal.SIGKILL, 0)
    else:
        assert status in (STATUS, 0), errors
        assert "Traceback" not in errors
    return status


def assert_resumes(config, file, kind, reference):
    program = launch(kind, file, "one")
    _, errors = program.process.communicate(timeout=300)
    assert program.process.returncode == 0, errors
    assert_same_runs(config, reference)


def assert_same_runs(config, reference):
    for single in single_runs(config):
        run = folder_of(single)
        truth = RunFolder(reference.runs / run.id)
        assert (
            run.metrics_file.file.read_bytes() == truth.metrics_file.file.read_bytes()
        )
        assert run.result.test == truth.result.test


@pytest.mark.parametrize(
    ("kind", "how", "moment"),
    [("train", "one", "row"), ("train", "ignored", 0.1), ("grid", "terminal", "row")],
)
def test_ctrl_c(tmp_path, kind, how, moment):
    config, file, reference = experiment(tmp_path, kind, epochs=30)
    program = launch(kind, file, how)
    if moment == "row":  # between the last batch of an epoch and its checkpoint
        rows = folder_of(single_runs(config)[0]).metrics_file.file
        wait_until(rows.exists, program)
    else:
        wait_for_the_handler(program)
        time.sleep(moment)
    assert assert_ended_well(program, how) == STATUS
    if moment == "row":
        assert_resumes(config, file, kind, reference)
    else:  # nothing has begun that a program could resume
        run_experiment(config)
        assert_same_runs(config, reference)


def test_the_workers_of_a_killed_parent_end(tmp_path):
    config, file, reference = experiment(tmp_path, "grid", epochs=30)
    program = launch("grid", file, "kill")
    wait_until(lambda: len(program.processes()) >= 3, program)
    assert_ended_well(program, "kill")
    run_experiment(config)
    assert_same_runs(config, reference)


def test_a_second_ctrl_c_leaves_a_library_user_alive():
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with stoppable():
            signal.raise_signal(signal.SIGINT)
            assert asked()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert not asked()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, inherited)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["train", "grid"])
def test_sixty_random_moments(tmp_path, kind):
    """Thirty of each program, the first seconds included; in the end it is as if
    nothing had happened."""
    config, file, reference = experiment(tmp_path, kind, epochs=60, runs=3)
    rng = random.Random(kind)
    interrupted = 0
    while interrupted < 30:
        how = rng.choice(["one", "terminal", "ignored", "kill"])
        program = launch(kind, file, how)
        wait_for_the_handler(program)
        time.sleep(rng.uniform(0, 10))
        if assert_ended_well(program, how) != 0:
            interrupted += 1
        else:  # it was done before: once more from the beginning
            assert_same_runs(config, reference)
            shutil.rmtree(config.runs)
    assert_resumes(config, file, kind, reference)
