"""The environment of a run: versions, commit and machine."""

import contextlib
import ctypes
import os
import platform
import resource
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import psutil
import torch

from fullrank.train.files import Record
from fullrank.version import __version__


class Environment(Record):
    """Versions, commit and machine of a run.

    Attributes:
        commit: The commit of the source, if it is in a repository.
        earlier_commits: The commits of earlier epochs, if the run was resumed.
    """

    fullrank: str
    commit: str | None
    earlier_commits: tuple[str | None, ...] = ()
    python: str
    torch: str
    torch_geometric: str
    lightning: str
    numpy: str
    machine: str
    system: str
    processor: str
    cores: int | None
    threads: int
    memory: int
    gpus: list[str]

    def resuming(self, before: "Environment") -> "Environment":
        """This environment, with the commits of ``before`` as earlier ones."""
        earlier = dict.fromkeys([*before.earlier_commits, before.commit])
        kept = tuple(commit for commit in earlier if commit != self.commit)
        return self.model_copy(update={"earlier_commits": kept})


def environment() -> Environment:
    """The environment of this process."""
    return Environment(
        fullrank=__version__,
        commit=_COMMIT,
        python=platform.python_version(),
        torch=version("torch"),
        torch_geometric=version("torch_geometric"),
        lightning=version("lightning"),
        numpy=version("numpy"),
        machine=platform.machine(),
        system=platform.platform(),
        processor=_processor(),
        cores=os.cpu_count(),
        threads=torch.get_num_threads(),
        memory=psutil.virtual_memory().total,
        gpus=[torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    )


def forget_peak_memory() -> None:
    """Reset `peak_memory` where this is possible: on Linux and on GPUs."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(
            0
        )  # memory that earlier runs left in the allocator
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """Peak memory in bytes since the last reset: of the GPU if there is one, else of
    the process."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _commit() -> str | None:
    """The commit of the source, if it is in a repository."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
        return done.stdout.strip()
    return None


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


# Determined on import, because the process keeps running the code it has loaded.
_COMMIT = _commit()
