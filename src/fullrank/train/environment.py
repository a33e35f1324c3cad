"""Where a run was done, with what."""

import contextlib
import ctypes
import os
import platform
import resource
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import torch

from fullrank import __version__

PACKAGES = ("torch", "torch_geometric", "lightning", "numpy")


def environment() -> dict[str, Any]:
    """Versions, commit and machine."""
    return {
        "fullrank": __version__,
        "commit": _COMMIT,
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
        "machine": platform.machine(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory": psutil.virtual_memory().total,
        "gpus": [
            torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())
        ],
        "command": sys.argv,
    }


def origin() -> dict[str, Any]:
    """The part of the environment that stands beside a published number."""
    found = environment()
    recorded = ("fullrank", "commit", "python", "torch", "torch_geometric", "processor")
    return {name: found[name] for name in recorded}


def forget_peak_memory() -> None:
    """Let `peak_memory` begin anew, where the system can: on Linux and on GPUs."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # what earlier runs left in the allocator
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """The most memory this process had since the peak was forgotten, in bytes; of a GPU
    if it has one."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _commit() -> str | None:
    """The commit of the source, if it runs from a repository."""
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


# Looked up at once: a process goes on with the code that it has loaded.
_COMMIT = _commit()
