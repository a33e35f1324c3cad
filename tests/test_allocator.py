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

LARGE = """
import ctypes
from fullrank.allocator import keep_memory
assert keep_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
libc.sbrk.argtypes = [ctypes.c_ssize_t]
blocks = [libc.malloc(ctypes.c_size_t(1_200_000_000)) for _ in range(3)]
end = libc.sbrk(0)
for block in blocks:
    libc.free(block)
print(end - libc.sbrk(0))
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="glibc only")


def run(program, *args):
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@linux
def test_freed_memory_is_given_out_again_without_page_faults():
    assert run(PROBE, "default") > 1000
    assert run(PROBE, "keep") < 10


@linux
def test_more_than_two_gigabytes_are_kept_too():
    assert run(LARGE) == 0
