"""Optional compiled loops for a CPU.

``python -m fullrank.nn.kernels`` compiles ``native.cpp`` for this processor with the
C++ compiler ``$CXX``, or else ``c++``. The result is stored in the user's cache
(``$XDG_CACHE_HOME/fullrank``), where :mod:`fullrank.nn.kernels.native` finds it.
"""

import ctypes
import hashlib
import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

SOURCE = Path(__file__).with_name("native.cpp")
FLAGS = ("-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fPIC", "-shared")


def library_file() -> Path:
    """Return the path of the compiled loops for this processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    features = [line for line in lines if line.startswith(("flags", "Features"))][:1]
    parts = [SOURCE.read_text(), *FLAGS, platform.machine(), *features]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "fullrank" / f"native-{key}.so"


def build() -> Path:
    """Compile the loops for this processor."""
    file = library_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(f".{os.getpid()}")
    compiler = os.environ.get("CXX", "c++")
    subprocess.run([compiler, *FLAGS, str(SOURCE), "-o", str(unfinished)], check=True)
    unfinished.replace(file)
    forget()
    return file


def forget() -> None:
    """Search for the loops again when they are next needed."""
    _library.cache_clear()
    _function.cache_clear()


@cache
def _library() -> ctypes.CDLL | None:
    file = library_file()
    return ctypes.CDLL(str(file)) if file.exists() else None


@torch.compiler.assume_constant_result
def is_built() -> bool:
    """Whether the loops for this processor are built."""
    return _library() is not None


@cache
def _function(name: str) -> Any:
    library = _library()
    assert library is not None
    address = ctypes.c_void_p.in_dll(library, name).value
    assert address is not None
    return ctypes.CFUNCTYPE(None)(address)


def call(name: str, *args: Tensor | int | None) -> None:
    """Run a loop on contiguous tensors, in the precision of the first one."""
    (dtype,) = {x.dtype for x in args[:1] if isinstance(x, Tensor)}
    assert all(x.is_contiguous() for x in args if isinstance(x, Tensor))
    given = [
        ctypes.c_int64(x)
        if isinstance(x, int)
        else ctypes.c_void_p(None if x is None else x.data_ptr())
        for x in (*args, torch.get_num_threads())
    ]
    _function(f"{name}_{str(dtype).removeprefix('torch.')}")(*given)
