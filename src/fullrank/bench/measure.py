"""Time and memory: medians of interleaved runs, peaks of the allocator."""

import os
import statistics
import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.profiler import ProfilerActivity, profile

Step = Callable[[], object]

# Otherwise the profiler logs every start and stop to standard error.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")


def interleaved_ms(
    steps: Mapping[str, Step], seconds: float, min_rounds: int = 3
) -> dict[str, float]:
    """Time several steps in turns, so that noise affects all of them.

    Args:
        steps: The steps by name; each must have run at least once.
        seconds: Minimum time per step, on average.
        min_rounds: Minimum number of runs per step.

    Returns:
        The median duration of each step in milliseconds.
    """
    times: dict[str, list[float]] = {name: [] for name in steps}
    end = time.perf_counter() + seconds * len(steps)
    rounds = 0
    while rounds < min_rounds or time.perf_counter() < end:
        rounds += 1
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - start)
    return {name: 1e3 * statistics.median(found) for name, found in times.items()}


def peak_mb(step: Step) -> float:
    """Run a step and return the peak memory of torch's allocator above the initial
    level, in megabytes; on the GPU if the step runs there."""
    return memory_mb(step)[0]


def memory_mb(step: Step) -> tuple[float, float]:
    """Return :func:`peak_mb`, and the memory that is still held with the step's
    result."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = step()
        torch.cuda.synchronize()
        held = torch.cuda.memory_allocated()
        del result
        peak = torch.cuda.max_memory_allocated()
        return (peak - before) / 1e6, (held - before) / 1e6
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        result = step()
    events = [
        (event.start_ns(), event.nbytes())
        for event in recorded.profiler.kineto_results.events()
        if event.name() == "[memory]"
    ]
    del result
    held = highest = 0
    for _, change in sorted(events, key=lambda event: event[0]):
        held += change
        highest = max(highest, held)
    return highest / 1e6, held / 1e6


def saved_mb(forward: Step) -> float:
    """Run a forward pass and return the memory that autograd keeps for the backward
    pass, in megabytes; shared memory is counted once."""
    kept: dict[int, torch.UntypedStorage] = {}

    def pack(x: Tensor) -> Tensor:
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage()
        return x.detach()  # an output would form a reference cycle with its graph

    with saved_tensors_hooks(pack, lambda x: x):
        result = forward()
    del result
    return sum(memory.nbytes() for memory in kept.values()) / 1e6
