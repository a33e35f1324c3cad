"""Stopwatch and scales: medians of interleaved runs, peaks of the allocator."""

import os
import statistics
import time
from collections.abc import Callable, Mapping

from torch.profiler import ProfilerActivity, profile

Step = Callable[[], object]

# The profiler announces every start and stop on standard error otherwise.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")


def interleaved_ms(
    steps: Mapping[str, Step], seconds: float, min_rounds: int = 3
) -> dict[str, float]:
    """Time several steps in turns, so that a noisy moment hits all of them.

    Args:
        steps: What to time, by name. Each has run at least once before.
        seconds: How long to go on, for each of them on average.
        min_rounds: How often each runs at least.

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
    """Run a step and return the most memory that torch's allocator held at once during
    it, above what it held before, in megabytes."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        step()
    events = [
        (event.start_ns(), event.nbytes())
        for event in recorded.profiler.kineto_results.events()
        if event.name() == "[memory]"
    ]
    held = highest = 0
    for _, change in sorted(events, key=lambda event: event[0]):
        held += change
        highest = max(highest, held)
    return highest / 1e6
