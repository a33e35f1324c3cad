"""BREC by the benchmark's own procedure, Reliable Paired Comparisons.

The contestants are those of :mod:`fullrank.bench.expressiveness`; here each is trained
on every pair, see :func:`fullrank.lab.brec`.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from fullrank.bench.expressiveness import Contestant, markdown
from fullrank.bench.provenance import provenance
from fullrank.lab import RPC, PairedComparisons, PairSuite, brec
from fullrank.train.files import Record

SEED = 2023  # the released code's


class Comparison(Record):
    """What the procedure finds for one model.

    Attributes:
        model: The name of the model.
        pairs: Number of pairs, by category.
        released: Reliable pairs distinguished by the released code's rule, by category.
        hotelling: Reliable pairs distinguished by Hotelling's test, by category.
        released_failures: Number of pairs that fail the reliability check of the
            released code.
        hotelling_failures: Number of pairs for which Hotelling's test distinguishes
            copies of one graph.
        constant: Number of pairs whose difference does not vary.
        settings: Settings of the procedure.
        seconds: CPU time.
        provenance: Versions, commit and processor.
    """

    model: str
    pairs: dict[str, int]
    released: dict[str, int]
    hotelling: dict[str, int]
    released_failures: int
    hotelling_failures: int
    constant: int
    settings: dict[str, float]
    seconds: float
    provenance: dict[str, str | None]


def compare(
    contestant: Contestant,
    suite: PairSuite,
    settings: RPC | None = None,
    progress: Callable[[int], object] | None = None,
) -> Comparison:
    """Train and test one model on every pair of a suite."""
    start = time.process_time()
    if contestant.network == "graph-net":
        # The test needs the rounding errors that differ between relabelings.
        arguments = {**contestant.network_args, "merge_equal_nodes": False}
        contestant = replace(contestant, network_args=arguments)
    found = brec(
        lambda: contestant.model(suite, seed=None),
        suite=suite,
        transform=contestant.structure,
        settings=settings,
        seed=SEED,
        progress=progress,
    )
    assert isinstance(found, PairedComparisons)
    groups = found.by_group().items()
    return Comparison(
        model=contestant.name,
        pairs=dict(Counter(suite.groups)),
        released={group: count for group, (count, _, _) in groups},
        hotelling={group: count for group, (_, count, _) in groups},
        released_failures=int(found.released_failures.sum()),
        hotelling_failures=int(found.hotelling_failures.sum()),
        constant=int(found.constant.sum()),
        settings=asdict(found.settings),
        seconds=round(time.process_time() - start, 1),
        provenance=asdict(provenance()),
    )


def to_markdown(rows: Sequence[Comparison]) -> str:
    """A table of both rules by category, with the provenance of each model."""
    pairs = rows[0].pairs
    header = [f"{group} ({number})" for group, number in pairs.items()]
    lines: list[list[object]] = []
    for row in rows:
        for rule in ("released", "hotelling"):
            found: dict[str, int] = getattr(row, rule)
            failures: int = getattr(row, f"{rule}_failures")
            name = {"released": "released rule", "hotelling": "Hotelling's test"}[rule]
            counts = [*found.values(), sum(found.values()), failures, row.constant]
            lines.append([f"{row.model}, {name}", *counts])
    last = [f"all ({sum(pairs.values())})", "unreliable", "without variation"]
    notes = [
        f"{row.model}: {row.seconds:,.0f} s of CPU, "
        + ", ".join(f"{name} {value}" for name, value in row.provenance.items())
        + "."
        for row in rows
    ]
    table = markdown(["BREC, reliable pairs distinguished", *header, *last], lines)
    return "\n\n".join([table, *notes]) + "\n"


def save(rows: Sequence[Comparison], path: Path) -> None:
    """Write ``path.md``, and ``path.jsonl`` with a line for each model."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [row.model_dump_json() + "\n" for row in rows]
    Path(f"{path}.jsonl").write_text("".join(lines), encoding="utf-8")
    Path(f"{path}.md").write_text(to_markdown(rows), encoding="utf-8")
