"""Which pairs of graphs do layers tell apart, from untrained random weights?

Every model is the same network around another convolution. A pair counts under the
protocol of :func:`fullrank.lab.separates`, and the first graph of every pair is also
compared with a relabeled copy of itself: whoever tells those two apart is wrong.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fullrank.bench.structure import structural_levels
from fullrank.data import AddStructuralColors
from fullrank.lab import PairSuite, separates
from fullrank.nn import GraphNet
from fullrank.train.blueprint import degree_histogram
from fullrank.train.environment import origin

LAYERS, WIDTH = 5, 16
RELABELINGS = {"brec": 32}  # as its protocol asks
FEWER_RELABELINGS = 4
BOUND = "1-WL, exactly"
PUBLISHED_BREC = {
    "N₂ (no neural network), published": 298,
    "I²-GNN (the best published GNN)": 281,
}


@dataclass(frozen=True)
class Contestant:
    """A convolution by its registered name, and what it needs to be added to graphs."""

    name: str
    conv: str
    colors: AddStructuralColors | None = None
    conv_args: dict[str, Any] = field(default_factory=dict)

    def model(self, suite: PairSuite, seed: int) -> GraphNet:
        """An untrained network for the graphs of a suite."""
        arguments = dict(self.conv_args)
        if self.conv == "pna":
            arguments["deg"] = degree_histogram(suite.graphs)
        torch.manual_seed(seed)
        return GraphNet(
            suite.num_features,
            WIDTH,
            WIDTH,
            LAYERS,
            conv=self.conv,
            conv_args=arguments,
        )


def contestants() -> list[Contestant]:
    """The layers that read features, then those that read structure, level by level."""
    levels = structural_levels(node_labels="x")
    return [
        Contestant("GIN-0", "gin0"),
        Contestant("GCN", "gcn"),
        Contestant("GAT", "gat"),
        Contestant("PNA", "pna"),
        Contestant("ExpC-4", "expc"),
        Contestant("CombC", "combc"),
        *(
            Contestant(f"ExpC-4 + {name}", "expc-structural", colors)
            for name, colors in levels.items()
        ),
        Contestant("CombC + whole", "combc-structural", levels["whole"]),
    ]


def measure(
    contestant: Contestant,
    suite: PairSuite,
    relabelings: int | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Count the pairs told apart, by category, and the copies wrongly told apart."""
    start = time.perf_counter()
    if relabelings is None:
        relabelings = RELABELINGS.get(suite.name, FEWER_RELABELINGS)
    model = contestant.model(suite, seed)
    copies = _first_graphs(suite).isomorphic_copies(seed)
    found = separates(model, suite, relabelings, contestant.colors, seed)
    # The fewer relabelings, the easier it is to tell copies apart by mistake.
    few = min(relabelings, FEWER_RELABELINGS)
    wrong = separates(model, copies, few, contestant.colors, seed)
    return {
        "model": contestant.name,
        "suite": suite.name,
        "told_apart": {group: told for group, (told, _) in found.by_group().items()},
        "pairs": dict(Counter(suite.groups)),
        "copies_told_apart": wrong.count,
        "copies": len(copies),
        "relabelings": relabelings,
        "seconds": round(time.perf_counter() - start, 1),
    }


def bound(suite: PairSuite) -> dict[str, Any]:
    """Count what the 1-WL test tells apart, without a network and without rounding."""
    told = Counter(dict.fromkeys(suite.groups, 0))
    for group, yes in zip(suite.groups, suite.wl_separated().tolist(), strict=True):
        told[group] += yes
    return {
        "model": BOUND,
        "suite": suite.name,
        "told_apart": dict(told),
        "pairs": dict(Counter(suite.groups)),
    }


def provenance(seed: int = 0) -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        **origin(),
        "network": f"{LAYERS} layers of width {WIDTH}, jumping knowledge, sum readout",
        "weights": f"untrained, seed {seed}, float64",
    }


def to_markdown(result: dict[str, Any]) -> str:
    """Two tables, BREC by category and one column a suite, and their provenance."""
    rows = result["rows"]
    by_category = [row for row in rows if row["suite"] == "brec"]
    tables = [_categories(by_category)] if by_category else []
    tables.append(_suites(rows))
    times = {row["suite"]: row["relabelings"] for row in rows if "relabelings" in row}
    relabeled = "; ".join(f"{suite} {count} times" for suite, count in times.items())
    made = "; ".join(f"{name} {value}" for name, value in result["provenance"].items())
    notes = [f"Every graph was relabeled: {relabeled}.", f"Made with {made}."]
    return "\n\n".join([*tables, *notes]) + "\n"


def _categories(rows: list[dict[str, Any]]) -> str:
    pairs = rows[0]["pairs"]
    header = [f"{group} ({count})" for group, count in pairs.items()]
    lines = [
        [row["model"], *row["told_apart"].values(), sum(row["told_apart"].values())]
        for row in rows
    ]
    blank = [""] * len(pairs)
    lines += [[name, *blank, count] for name, count in PUBLISHED_BREC.items()]
    return _markdown(["BREC", *header, f"all ({sum(pairs.values())})"], lines)


def _suites(rows: list[dict[str, Any]]) -> str:
    told: dict[str, dict[str, int]] = {}
    wrong: Counter[str] = Counter()
    sizes = {row["suite"]: sum(row["pairs"].values()) for row in rows}
    copies = {row["suite"]: row["copies"] for row in rows if "copies" in row}
    for row in rows:
        count = sum(row["told_apart"].values())
        told.setdefault(row["model"], {})[row["suite"]] = count
        wrong[row["model"]] += row.get("copies_told_apart", 0)
    header = [f"{suite} ({size})" for suite, size in sizes.items()]
    lines = [
        [model, *(found.get(suite, "") for suite in sizes), wrong[model]]
        for model, found in told.items()
    ]
    last = f"copies told apart ({sum(copies.values())})"
    return _markdown(["Pairs told apart", *header, last], lines)


def _markdown(header: Sequence[object], lines: Sequence[Sequence[object]]) -> str:
    align = ["---", *("--:" for _ in header[1:])]
    return "\n".join(
        f"| {' | '.join(str(cell) for cell in line)} |"
        for line in [header, align, *lines]
    )


def _first_graphs(suite: PairSuite) -> PairSuite:
    """Each graph that comes first in a pair, with itself."""
    first = suite.pairs[:, 0].unique()
    graphs = [suite.graphs[index] for index in first]
    itself = torch.arange(len(graphs)).repeat(2, 1).T
    return PairSuite(suite.name, graphs, itself, ("copies",) * len(graphs))
