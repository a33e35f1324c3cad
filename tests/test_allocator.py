import subprocess
import sys

import pytest

PROBE = """
import ctypes, resource, sys
if "keep" in sys.argv:
    from fullrank.allocator import keep_memory
    assert keep_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
size = 100_000_000
def touch():
    block = libc.malloc(ctypes.c_size_t(size))
    ctypes.memset(block, 1, size)
    libc.free(block)
touch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    touch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
def test_freed_memory_is_given_out_again_without_page_faults():
    faults = {}
    for mode in ("keep", "default"):
        done = subprocess.run(
            [sys.executable, "-c", PROBE, mode],
            env={"PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        faults[mode] = int(done.stdout)
    assert faults["default"] > 1000
    assert faults["keep"] < 10
