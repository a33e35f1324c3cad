"""64-bit hashes that are the same on any machine."""

import torch
from torch import Tensor

#: The increment of splitmix64: `scramble` of its multiples is the generator's output.
STEP = 0x9E3779B97F4A7C15 - 2**64
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def scramble(x: Tensor) -> Tensor:
    """Apply the finaliser of splitmix64, a bijection of 64-bit integers."""
    x = x + STEP
    x ^= shifted(x, 30)
    x *= 0xBF58476D1CE4E5B9 - 2**64
    x ^= shifted(x, 27)
    x *= 0x94D049BB133111EB - 2**64
    return x.bitwise_xor_(shifted(x, 31))


def row_keys(x: Tensor) -> Tensor:
    """Hash each row of numbers, based on their bits."""
    bits = x.view(_INTEGERS[x.itemsize]) if x.is_floating_point() else x
    return scramble(bits + scramble(torch.arange(x.size(1)))).sum(dim=1)


def shifted(x: Tensor, bits: int) -> Tensor:
    """Logical right shift: fill with zeros also for negative numbers."""
    return (x >> bits).bitwise_and_(2 ** (64 - bits) - 1)
