"""Which pairs of graphs do layers with random weights distinguish?

All models are the same network with different convolutions. Pairs are counted by the
protocol of :func:`fullrank.lab.separates`. The first graph of every pair is also
compared with a relabeled copy of itself, which no correct model distinguishes.

BREC is measured a few pairs at a time. The parts can be stored in a folder, so that a
run can be interrupted and several processes can share the work.
"""

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch_geometric.transforms import BaseTransform

from fullrank.bench.provenance import Provenance, provenance
from fullrank.bench.structure import structural_levels
from fullrank.data import AddContinuousStructure
from fullrank.errors import DataError
from fullrank.lab import PairSuite, separates
from fullrank.nn import make_network
from fullrank.train.files import Record
from fullrank.train.model import degree_histogram

LAYERS, WIDTH = 5, 16
RELABELINGS = {"brec": 32}  # as many as in BREC's own procedure
FEWER_RELABELINGS = 4
PAIRS_AT_ONCE = {"brec": 10}  # all at once for other suites
BOUND = "1-WL, exactly"
PUBLISHED_BREC = {
    "N₂ (no neural network), published": 298,
    "I²-GNN (the best GNN in the BREC paper)": 281,
}


@dataclass(frozen=True)
class Contestant:
    """An untrained network of one convolution, and the structure it uses.

    Attributes:
        name: Name of the model in the table.
        conv: Name of the convolution.
        structure: Transform that adds the structure it uses, if any.
        conv_args: Further arguments of the convolution.
        relabelings: Number of relabelings per graph; that of the other models by
            default.
        after: A model that is at most as expressive: only the pairs that it cannot
            distinguish are measured, and the others count as distinguished.
        network: Name of the network, if not a GraphNet.
        network_args: Further arguments of the network.
    """

    name: str
    conv: str
    structure: BaseTransform | None = None
    conv_args: dict[str, Any] = field(default_factory=dict)
    relabelings: int | None = None
    after: "Contestant | None" = None
    network: str = "graph-net"
    network_args: dict[str, Any] = field(default_factory=dict)

    def model(self, suite: PairSuite, seed: int | None) -> torch.nn.Module:
        """An untrained network for the graphs of a suite; without a seed, its weights
        depend on the state of torch's generator."""
        arguments = dict(self.network_args)
        if self.network == "graph-net":
            arguments |= {"conv": self.conv, "conv_args": dict(self.conv_args)}
        if self.conv == "pna":
            arguments["conv_args"]["deg"] = degree_histogram(suite.graphs)
        if self.network == "patchy-san":  # so that it reads all nodes
            arguments["width"] = max(graph.num_nodes for graph in suite.graphs)
        if seed is not None:
            torch.manual_seed(seed)
        return make_network(
            self.network,
            in_channels=suite.num_features,
            hidden_channels=WIDTH,
            out_channels=WIDTH,
            num_layers=LAYERS,
            **arguments,
        )


#: The other models of the paper's tables, and why they are not measured.
NOT_MEASURED = {
    "DTNN": "needs coordinates",
    "HIMP": "needs the junction trees of molecules",
    "DGK": "samples graphlets, so relabeling a graph changes its embedding",
    "AWE": "samples walks, so relabeling a graph changes its embedding",
    "WEGL": "embeds graphs only after it was fitted to a labelled training set",
}
_NETWORKS = {
    "DeeperGCN": "deeper-gcn",
    "DiffPool": "diffpool",
    "CapsGNN": "capsgnn",
    "MPNN": "mpnn",
    "PATCHY-SAN": "patchy-san",
}


def contestants() -> list[Contestant]:
    """Layers that use only features, then those that use structure, by level."""
    levels = structural_levels(node_labels="x")
    name = "ExpC-4 + whole, {} marks"
    third, fourth = (levels.pop(f"whole, {n} marks") for n in (3, 4))
    three = Contestant(name.format(3), "expc-structural", third, relabelings=2)
    four = replace(three, name=name.format(4), structure=fourth, after=three)
    return [
        Contestant("GIN-0", "gin0"),
        Contestant("GCN", "gcn"),
        Contestant("GAT", "gat"),
        Contestant("PNA", "pna"),
        Contestant("ExpC-4", "expc"),
        Contestant("CombC", "combc"),
        Contestant("GIN-0 + virtual node", "gin0", network_args={"virtual_node": True}),
        *(Contestant(name, "", network=network) for name, network in _NETWORKS.items()),
        Contestant("1-2-3-GNN", "", network="k-gnn", relabelings=2),  # sets of 3 nodes
        Contestant("PPGN", "", network="ppgn", network_args={"readout": "sum"}),
        Contestant("ExpC-4 + continuous", "expc-continuous", AddContinuousStructure()),
        *(
            Contestant(f"ExpC-4 + {name}", "expc-structural", colors)
            for name, colors in levels.items()
        ),
        Contestant("CombC + whole", "combc-structural", levels["whole"]),
        three,
        four,
    ]


class Part(Record):
    """Which of some pairs of a suite one model distinguishes.

    The attributes are those of a `Row`; ``pairs`` are the indices of the pairs.
    """

    model: str
    suite: str
    pairs: list[int]
    told_apart: list[bool]
    measured: int
    copies_told_apart: int
    copies: int
    relabelings: int
    seconds: float
    commit: str | None


@dataclass
class Parts:
    """Measures parts of suites, once each.

    Attributes:
        relabelings: Number of relabelings per graph; by default that of the model and
            suite.
        folder: Folder for finished parts, which other processes may share.
        seed: Seed of the weights and relabelings.
    """

    relabelings: int | None = None
    folder: Path | None = None
    seed: int = 0
    _known: dict[str, Part] = field(default_factory=dict)

    def get(self, contestant: Contestant, suite: PairSuite, pairs: range) -> Part:
        """Return the part for these pairs; measure it if it does not exist."""
        times = self.relabelings or contestant.relabelings
        times = times or RELABELINGS.get(suite.name, FEWER_RELABELINGS)
        which = f"{suite.name} {pairs.start} to {pairs.stop - 1}"
        name = f"{contestant.name}, {which}, {times} relabelings"
        file = self.folder and self.folder / f"{name}.json"
        if name not in self._known and file and file.exists():
            self._known[name] = Part.read(file)
        if name not in self._known:
            self._known[name] = self._measure(contestant, suite, pairs, times)
            if file:
                file.parent.mkdir(parents=True, exist_ok=True)
                self._known[name].write(file)
        return self._known[name]

    def _measure(
        self, contestant: Contestant, suite: PairSuite, pairs: range, times: int
    ) -> Part:
        start = time.process_time()
        told_apart = dict.fromkeys(pairs, False)
        if contestant.after is not None:
            before = self.get(contestant.after, suite, pairs)
            told_apart = dict(zip(before.pairs, before.told_apart, strict=True))
        asked = [pair for pair, told in told_apart.items() if not told]
        wrong = copies = 0
        if asked:
            model = contestant.model(suite, self.seed)
            chosen = _chosen(suite, asked)
            found = separates(model, chosen, times, contestant.structure, self.seed)
            told_apart |= dict(zip(asked, found.separated.tolist(), strict=True))
            again = _first_graphs(chosen).isomorphic_copies(self.seed)
            # With fewer relabelings, distinguishing copies by mistake is more likely.
            few = min(times, FEWER_RELABELINGS)
            same = separates(model, again, few, contestant.structure, self.seed)
            wrong, copies = same.count, len(again)
        return Part(
            model=contestant.name,
            suite=suite.name,
            pairs=[*told_apart],
            told_apart=[*told_apart.values()],
            measured=len(asked),
            copies_told_apart=wrong,
            copies=copies,
            relabelings=times,
            seconds=round(time.process_time() - start, 1),
            commit=provenance().commit,
        )


@dataclass(frozen=True)
class Row:
    """Number of pairs of a suite that one model distinguishes.

    Attributes:
        model: The name of the model.
        suite: The name of the suite.
        told_apart: Number of pairs distinguished, by category.
        pairs: Number of pairs, by category.
        copies_told_apart: Number of graphs distinguished from a relabeled copy of
            themselves, which are errors; ``None`` for the 1-WL test, like all that
            follow.
        copies: Number of graphs compared with a relabeled copy.
        relabelings: Number of relabelings per graph.
        seconds: CPU time of the measurement.
        measured: Number of pairs measured, if not all.
        commit: Commit of the code that measured the row, if not that of the table.
    """

    model: str
    suite: str
    told_apart: dict[str, int]
    pairs: dict[str, int]
    copies_told_apart: int | None = None
    copies: int | None = None
    relabelings: int | None = None
    seconds: float | None = None
    measured: int | None = None
    commit: str | None = None

    @property
    def count(self) -> int:
        """Number of pairs distinguished, over all categories."""
        return sum(self.told_apart.values())

    @property
    def size(self) -> int:
        """Number of pairs of the suite."""
        return sum(self.pairs.values())


@dataclass(frozen=True)
class Setup(Provenance):
    """The settings that determine the numbers."""

    network: str
    weights: str


@dataclass(frozen=True)
class Result:
    """All rows, and their setup."""

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

    @classmethod
    def read(cls, file: Path) -> "Result":
        """Read a result written by `save`."""
        try:
            return cls.from_json(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(f"cannot read {file}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{file} is not an expressiveness table: {error}") from None

    def to_markdown(self) -> str:
        """Two tables, BREC by category and all suites, and their provenance."""
        brec = [row for row in self.rows if row.suite == "brec"]
        tables = [_category_table(brec)] if brec else []
        tables.append(_suite_table(self.rows))
        return "\n\n".join([*tables, *self._notes()]) + "\n"

    def _notes(self) -> list[str]:
        """Notes below the tables."""
        times: dict[str, dict[int, list[str]]] = {}
        measured: dict[str, list[str]] = {}
        commits: dict[str, dict[str, list[str]]] = {}
        for row in self.rows:
            if row.relabelings:
                models = times.setdefault(row.suite, {})
                models.setdefault(row.relabelings, []).append(row.model)
            if row.measured is not None:
                part = f"{row.suite} {row.measured} of {row.size}"
                measured.setdefault(row.model, []).append(part)
            if row.commit:
                on = commits.setdefault(row.commit, {})
                on.setdefault(row.model, []).append(row.suite)
        relabeled = [
            f"{suite} {n} times" + (f" ({'; '.join(models)})" if number else "")
            for suite, counts in times.items()
            for number, (n, models) in enumerate(counts.items())
        ]
        made = asdict(self.provenance).items()
        reasons = "; ".join(f"{model} {why}" for model, why in NOT_MEASURED.items())
        return [
            *([f"–: not measured. {reasons}."] if _is_complete(self.rows) else []),
            f"Every graph was relabeled: {'; '.join(relabeled)}.",
            *(
                f"{model}: only the pairs that one mark fewer leaves equal were "
                f"measured, and compared with copies ({', '.join(part)}); the others "
                "count as distinguished, because a further mark never distinguishes "
                "less."
                for model, part in measured.items()
            ),
            *(
                f"Measured at commit {commit}: "
                + "; ".join(f"{m} ({', '.join(s)})" for m, s in on.items())
                + "."
                for commit, on in commits.items()
            ),
            f"Made with {'; '.join(f'{name} {value}' for name, value in made)}.",
        ]

    def joined(self, earlier: "Result") -> "Result":
        """Add the rows of an earlier table that were not measured again."""
        before, now = earlier.provenance.commit, self.provenance.commit
        rows = {
            (row.model, row.suite): replace(row, commit=row.commit or before)
            for row in earlier.rows
        } | {(row.model, row.suite): row for row in self.rows}
        order = [BOUND, *(contestant.name for contestant in contestants())]
        both = [
            replace(row, commit=None if row.commit == now else row.commit)
            for row in rows.values()
            if row.model in order
        ]
        return replace(self, rows=sorted(both, key=lambda r: order.index(r.model)))

    def save(self, path: Path) -> None:
        """Write ``path.json`` and ``path.md``."""
        path.parent.mkdir(parents=True, exist_ok=True)
        for ending, text in (("json", self.to_json()), ("md", self.to_markdown())):
            Path(f"{path}.{ending}").write_text(text, encoding="utf-8")


def measure(
    contestant: Contestant,
    suite: PairSuite,
    relabelings: int | None = None,
    parts: Parts | None = None,
) -> Row:
    """Count distinguished pairs by category, and distinguished copies."""
    parts = parts or Parts(relabelings)
    found = [parts.get(contestant, suite, pairs) for pairs in split(suite)]
    told = torch.tensor([told for part in found for told in part.told_apart])
    measured = sum(part.measured for part in found)
    commits = sorted({str(part.commit) for part in found})
    return Row(
        contestant.name,
        suite.name,
        told_apart=suite.count_by_group(told),
        pairs=dict(Counter(suite.groups)),
        copies_told_apart=sum(part.copies_told_apart for part in found),
        copies=sum(part.copies for part in found),
        relabelings=found[0].relabelings,
        seconds=round(sum(part.seconds for part in found), 1),
        measured=measured if measured < len(suite) else None,
        commit=", ".join(commits) if commits != [str(provenance().commit)] else None,
    )


def split(suite: PairSuite) -> list[range]:
    """Split the pairs of a suite into parts that are measured separately."""
    size = PAIRS_AT_ONCE.get(suite.name, len(suite))
    return [
        range(first, min(first + size, len(suite)))
        for first in range(0, len(suite), size)
    ]


def bound(suite: PairSuite) -> Row:
    """Count the pairs that the 1-WL test distinguishes, exactly."""
    told_apart = suite.count_by_group(suite.wl_separated())
    return Row(BOUND, suite.name, told_apart, pairs=dict(Counter(suite.groups)))


def setup(seed: int = 0) -> Setup:
    """The setup of this process."""
    return Setup(
        **asdict(provenance()),
        network=f"{LAYERS} layers of width {WIDTH}, jumping knowledge, sum readout",
        weights=f"untrained, seed {seed}, float64",
    )


def _is_complete(rows: Sequence[Row]) -> bool:
    """Whether all models that can be measured are in the table."""
    return {model.name for model in contestants()} <= {row.model for row in rows}


def _category_table(rows: list[Row]) -> str:
    pairs = rows[0].pairs
    header = [f"{group} ({count})" for group, count in pairs.items()]
    lines: list[list[object]] = [
        [row.model, *row.told_apart.values(), row.count] for row in rows
    ]
    blank = [""] * len(pairs)
    lines += [[name, *blank, count] for name, count in PUBLISHED_BREC.items()]
    return markdown(["BREC", *header, f"all ({rows[0].size})"], lines)


def _suite_table(rows: list[Row]) -> str:
    sizes = {row.suite: row.size for row in rows}
    copies: dict[str, int] = {}
    told: dict[str, dict[str, int]] = {}
    wrong: Counter[str] = Counter()
    for row in rows:
        copies[row.suite] = max(copies.get(row.suite, 0), row.copies or 0)
        told.setdefault(row.model, {})[row.suite] = row.count
        wrong[row.model] += row.copies_told_apart or 0
    header = [f"{suite} ({size})" for suite, size in sizes.items()]
    lines = [
        [model, *(found.get(suite, "") for suite in sizes), wrong[model]]
        for model, found in told.items()
    ]
    if _is_complete(rows):
        lines += [[model, *("–" for _ in sizes), "–"] for model in NOT_MEASURED]
    last = f"copies distinguished ({sum(copies.values())})"
    return markdown(["Pairs distinguished", *header, last], lines)


def markdown(header: Sequence[object], lines: Sequence[Sequence[object]]) -> str:
    """A table with its first column aligned to the left."""
    align = ["---", *("--:" for _ in header[1:])]
    return "\n".join(
        f"| {' | '.join(str(cell) for cell in line)} |"
        for line in [header, align, *lines]
    )


def _chosen(suite: PairSuite, pairs: list[int]) -> PairSuite:
    """A suite with only some of its pairs and their graphs."""
    used, index = suite.pairs[pairs].unique(return_inverse=True)
    graphs = [suite.graphs[graph] for graph in used]
    return PairSuite(suite.name, graphs, index, tuple(suite.groups[p] for p in pairs))


def _first_graphs(suite: PairSuite) -> PairSuite:
    """Pairs of the first graph of each pair with itself."""
    first = suite.pairs[:, 0].unique()
    graphs = [suite.graphs[index] for index in first]
    itself = torch.arange(len(graphs)).repeat(2, 1).T
    return PairSuite(suite.name, graphs, itself, ("copies",) * len(graphs))
