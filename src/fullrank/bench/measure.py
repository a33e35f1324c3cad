"""Stopwatch and scales: medians of interleaved runs, peaks of the allocator."""

import statistics
import time
from collections.abc import Callable, Mapping

import torch
from torch.profiler import ProfilerActivity, profile

Step = Callable[[], object]


def interleaved_ms(
    steps: Mapping[str, Step], seconds: float, tick: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """Time several steps in turns, so that a noisy moment hits all of them.

    Args:
        steps: What to time, by name.
        seconds: How long to go on, for each of them on average.
        tick: Called after each step.

    Returns:
        The median duration of each step in milliseconds.
    """
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()
        tick()
    end = time.perf_counter() + seconds * len(steps)
    while time.perf_counter() < end or len(next(iter(times.values()))) < 3:
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - start)
            tick()
    return {name: 1e3 * statistics.median(found) for name, found in times.items()}


def peak_mb(step: Step) -> float:
    """Return the most memory that torch's allocator held at once during a step, above
    what it held before, in megabytes."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        step()
    held = highest = 0
    for event in recorded.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            highest = max(highest, held)
    return highest / 1e6


def seeded(make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """Build a module with the same random weights every time."""
    torch.manual_seed(0)
    return make()
