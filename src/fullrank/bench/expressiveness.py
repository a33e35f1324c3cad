"""Which pairs of graphs do layers tell apart, from untrained random weights?

Every model is the same network around another convolution. A pair counts under the
protocol of :func:`fullrank.lab.separates`, and the first graph of every pair is also
compared with a relabeled copy of itself: a model that tells those apart is wrong.
"""

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from fullrank.bench.provenance import Provenance, provenance
from fullrank.bench.structure import structural_levels
from fullrank.data import AddStructuralColors
from fullrank.lab import PairSuite, separates
from fullrank.nn import GraphNet
from fullrank.train.model import degree_histogram

LAYERS, WIDTH = 5, 16
RELABELINGS = {"brec": 32}  # as its protocol requires
FEWER_RELABELINGS = 4
BOUND = "1-WL, exactly"
PUBLISHED_BREC = {
    "N₂ (no neural network), published": 298,
    "I²-GNN (the best published GNN)": 281,
}


@dataclass(frozen=True)
class Contestant:
    """An untrained network of one convolution, and the colours that it reads."""

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


@dataclass(frozen=True)
class Row:
    """How many pairs of a suite one model tells apart.

    Attributes:
        model: The name of the model.
        suite: The name of the suite.
        told_apart: The pairs told apart, by category.
        pairs: All pairs, by category.
        copies_told_apart: The graphs told apart from a relabeled copy of themselves,
            all of them mistakes; as all that follows, ``None`` for the 1-WL test.
        copies: All graphs compared with a copy of themselves.
        relabelings: How often each graph was relabeled.
        seconds: How long it took.
    """

    model: str
    suite: str
    told_apart: dict[str, int]
    pairs: dict[str, int]
    copies_told_apart: int | None = None
    copies: int | None = None
    relabelings: int | None = None
    seconds: float | None = None

    @property
    def count(self) -> int:
        """The pairs told apart, over all categories."""
        return sum(self.told_apart.values())

    @property
    def size(self) -> int:
        """The pairs of the suite."""
        return sum(self.pairs.values())


@dataclass(frozen=True)
class Setup(Provenance):
    """What the numbers depend on."""

    network: str
    weights: str


@dataclass(frozen=True)
class Result:
    """All rows and what they were measured with."""

    provenance: Setup
    rows: list[Row]

    def to_json(self) -> str:
        rows = [
            {name: value for name, value in asdict(row).items() if value is not None}
            for row in self.rows
        ]
        written = {"provenance": asdict(self.provenance), "rows": rows}
        return json.dumps(written, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Result":
        read = json.loads(text)
        rows = [Row(**row) for row in read["rows"]]
        return cls(Setup(**read["provenance"]), rows)

    def to_markdown(self) -> str:
        """Two tables, BREC by category and all suites, and their provenance."""
        brec = [row for row in self.rows if row.suite == "brec"]
        tables = [_category_table(brec)] if brec else []
        tables.append(_suite_table(self.rows))
        times = {row.suite: row.relabelings for row in self.rows if row.relabelings}
        relabeled = "; ".join(f"{suite} {n} times" for suite, n in times.items())
        fields = asdict(self.provenance).items()
        made = "; ".join(f"{name} {value}" for name, value in fields)
        notes = [f"Every graph was relabeled: {relabeled}.", f"Made with {made}."]
        return "\n\n".join([*tables, *notes]) + "\n"

    def save(self, path: Path) -> None:
        """Write ``path.json`` and ``path.md``."""
        path.parent.mkdir(parents=True, exist_ok=True)
        for ending, text in (("json", self.to_json()), ("md", self.to_markdown())):
            Path(f"{path}.{ending}").write_text(text, encoding="utf-8")


def measure(
    contestant: Contestant,
    suite: PairSuite,
    relabelings: int | None = None,
    seed: int = 0,
) -> Row:
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
    return Row(
        contestant.name,
        suite.name,
        told_apart=suite.count_by_group(found.separated),
        pairs=dict(Counter(suite.groups)),
        copies_told_apart=wrong.count,
        copies=len(copies),
        relabelings=relabelings,
        seconds=round(time.perf_counter() - start, 1),
    )


def bound(suite: PairSuite) -> Row:
    """Count what the 1-WL test tells apart, without a network and without rounding."""
    told_apart = suite.count_by_group(suite.wl_separated())
    return Row(BOUND, suite.name, told_apart, pairs=dict(Counter(suite.groups)))


def setup(seed: int = 0) -> Setup:
    """What the numbers of this process depend on."""
    return Setup(
        **asdict(provenance()),
        network=f"{LAYERS} layers of width {WIDTH}, jumping knowledge, sum readout",
        weights=f"untrained, seed {seed}, float64",
    )


def _category_table(rows: list[Row]) -> str:
    pairs = rows[0].pairs
    header = [f"{group} ({count})" for group, count in pairs.items()]
    lines: list[list[object]] = [
        [row.model, *row.told_apart.values(), row.count] for row in rows
    ]
    blank = [""] * len(pairs)
    lines += [[name, *blank, count] for name, count in PUBLISHED_BREC.items()]
    return _markdown(["BREC", *header, f"all ({rows[0].size})"], lines)


def _suite_table(rows: list[Row]) -> str:
    sizes = {row.suite: row.size for row in rows}
    copies = {row.suite: row.copies or 0 for row in rows}
    told: dict[str, dict[str, int]] = {}
    wrong: Counter[str] = Counter()
    for row in rows:
        told.setdefault(row.model, {})[row.suite] = row.count
        wrong[row.model] += row.copies_told_apart or 0
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
