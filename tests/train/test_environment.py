import sys

import pytest
import torch

from fullrank.train.environment import forget_peak_memory, peak_memory

BYTES = 400_000_000


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or torch.cuda.is_available(),
    reason="only Linux forgets the peak of a process",
)
def test_peak_memory_is_that_since_it_was_forgotten():
    forget_peak_memory()
    before = peak_memory()
    block = torch.ones(BYTES // 4)
    assert peak_memory() > before + 0.9 * BYTES
    del block
    assert peak_memory() > before + 0.9 * BYTES
    forget_peak_memory()
    assert peak_memory() < before + 0.5 * BYTES
