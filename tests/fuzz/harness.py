"""Damaged inputs, each read in a process that may crash, with limits."""

import multiprocessing
import os
import resource
import shutil
import signal
import traceback
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch

from fullrank.errors import FullrankError
from fuzz.run_surfaces import RUN_SURFACES
from fuzz.surfaces import SURFACES, Surface

ALL = SURFACES | RUN_SURFACES
CPU_SECONDS = 20
MEMORY = 2**30
_STUCK_SECONDS = 300  # of a process that waits instead of computing
_fork: Any = multiprocessing.get_context("fork")


class Outcome(NamedTuple):
    """What became of one damaged input; ``failure`` is empty if all is well."""

    kind: str
    failure: str = ""


def fuzz(name: str, seeds: Iterable[int], folder: Path) -> dict[int, Outcome]:
    """Read one damaged input for each seed."""
    surface = ALL[name]
    intact = folder / "intact"
    intact.mkdir()
    surface.make(intact)
    shutil.copytree(intact, folder / "sound")
    # In particular, all is imported before the fork.
    assert surface.read(folder / "sound") == 0
    found: dict[int, Outcome] = {}
    waiting = list(seeds)
    while waiting:
        found |= _in_child(surface, waiting, intact, folder)
        waiting = [seed for seed in waiting if seed not in found]
    return found


def figures(outcomes: Iterable[Outcome]) -> str:
    """How many inputs ended how."""
    counts = Counter(outcome.kind for outcome in outcomes)
    kinds = ("refused", "rows rejected", "correct", "failed")
    return ", ".join(f"{counts[kind]} {kind}" for kind in kinds)


def _in_child(
    surface: Surface, seeds: list[int], intact: Path, folder: Path
) -> dict[int, Outcome]:
    """The outcomes of these inputs, up to and including the first that kills."""
    ours, theirs = _fork.Pipe()
    child = _fork.Process(target=_serve, args=(surface, seeds, intact, folder, theirs))
    child.start()
    theirs.close()
    found: dict[int, Outcome] = {}
    try:
        for seed in seeds:
            if not ours.poll(_STUCK_SECONDS):
                found[seed] = Outcome("failed", "hangs")
                break
            found[seed] = ours.recv()
    except EOFError:
        child.join()
        code = -(child.exitcode or 0)
        names = {signal.SIGPROF: f"computes for more than {CPU_SECONDS} s"}
        reason = names.get(code) or f"the process dies ({code})"
        found[seed] = Outcome("failed", reason)
    finally:
        child.kill()
        child.join()
        ours.close()
    return found


def _serve(
    surface: Surface, seeds: list[int], intact: Path, folder: Path, connection: Any
) -> None:
    torch.set_num_threads(1)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for seed in seeds:
        place = folder / f"{surface.name}-{seed}"
        shutil.copytree(intact, place)
        surface.spoil(place, Random(f"{surface.name} {seed}"))
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        outcome = _attempt(surface, place)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if outcome.failure == "":
            shutil.rmtree(place)
        connection.send(outcome)


def _attempt(surface: Surface, place: Path) -> Outcome:
    try:
        rejected = surface.read(place)
        return Outcome("rows rejected" if rejected else "correct")
    except FullrankError as error:
        if str(place) not in str(error):
            return Outcome("failed", f"the message does not name the file: {error}")
        if len(str(error)) > 4000:
            return Outcome("failed", f"a message of {len(str(error))} characters")
        return Outcome("refused")
    except AssertionError:
        return Outcome("failed", f"wrong data read as good: {traceback.format_exc()}")
    except BaseException:
        return Outcome("failed", traceback.format_exc())
