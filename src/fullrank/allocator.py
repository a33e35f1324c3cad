"""Keep glibc from returning memory that training will need again."""

import ctypes
import sys

# From malloc.h.
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3
_LARGEST = 2**31 - 1
_NEVER = -1  # of trimming alone
_PAD = 2**26


def keep_memory() -> bool:
    """Stop glibc from returning large temporaries to the system.

    By default each of them is mapped, zeroed page by page and unmapped again, which
    takes longer than the arithmetic. Call this only from the entry point of a program:
    a library must not change how its host allocates memory. Returns whether the
    settings were changed.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # a C library other than glibc
        return False
    done = [
        mallopt(_M_MMAP_THRESHOLD, _LARGEST),
        mallopt(_M_TRIM_THRESHOLD, _NEVER),
        mallopt(_M_TOP_PAD, _PAD),
    ]
    return all(done)
