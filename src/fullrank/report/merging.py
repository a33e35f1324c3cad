"""The part of the lab's page about whole graphs: which ones a model merges, the cost of
merging, and what it cannot count."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fullrank.report.graph_drawings import draw_graph, drawer, side_by_side
from fullrank.report.page import Block, Fragment, Heading, Section, Table, Text

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from fullrank.data import GraphDataset
    from fullrank.lab import Counting, Merging

SHOWN = 12
MERGED = (
    "Graphs with the same embedding get the same prediction from any head. Either they "
    "are the same graph; or 1-WL cannot distinguish them, so that no layer that reads "
    "only features and edges can; or the model merges them although 1-WL distinguishes "
    "them. 1-WL reads all node and edge features, including those that the model does "
    "not read."
)
COST = (
    "The best possible score of any head on these graphs: it predicts the most "
    "frequent label, or the mean, of each group of merged graphs. The last column is "
    "the bound if only identical graphs were merged."
)
COUNTING = (
    "Two graphs with different numbers of a subgraph and the same embedding show that "
    "the embedding does not determine that number. All nodes and edges have the "
    "features of the first node and edge of a graph of the data set. Without a witness "
    "the question is undecided."
)


@dataclass(frozen=True)
class WholeGraphs:
    """Results about a model on whole graphs.

    Attributes:
        merging: The graphs that it merges.
        counting: The patterns it cannot count; or why this was not examined.
    """

    merging: "Merging"
    counting: "Counting | str"


def whole_graph_sections(
    studies: Mapping[str, WholeGraphs], dataset: "GraphDataset"
) -> list[Section]:
    """The sections that compare all models."""
    draw = drawer(dataset)
    merged: list[Block] = [Text(MERGED), Table(*merged_counts(studies))]
    costs = cost_rows(studies, dataset)
    if costs:
        columns = [
            "model",
            "target",
            "bound",
            "as merged",
            "if only identical graphs merge",
        ]
        merged += [Text(COST), Table(columns, costs)]
    for model, study in studies.items():
        merged += _group_blocks(model, study.merging, dataset, draw)
    counted: list[Block] = [Text(COUNTING)]
    for model, study in studies.items():
        counted += _counting_blocks(model, study.counting)
    return [
        Section("Graphs that the model merges", merged),
        Section("What the model cannot count", counted),
    ]


def merged_counts(
    studies: Mapping[str, WholeGraphs],
) -> tuple[list[str], list[list[str]]]:
    """Columns and rows: number of graphs that each model merges, by kind."""
    columns = ["model", "graphs", "embeddings", "at 1000 × tolerance"]
    rows = []
    for model, study in studies.items():
        merging = study.merging
        numbers = len(merging), merging.count, merging.coarser
        cells = [model, *(f"{number:,}" for number in numbers)]
        for kind, (groups, graphs) in merging.counts().items():
            cells.append(f"{graphs:,} in {groups:,} groups" if groups else "none")
            if kind not in columns:
                columns.append(kind)
        rows.append(cells)
    return columns, rows


def cost_rows(
    studies: Mapping[str, WholeGraphs], dataset: "GraphDataset"
) -> list[list[str]]:
    """The cost of merging, for every model and target with labels."""
    import torch

    rows = []
    for model, study in studies.items():
        labels = torch.from_numpy(dataset.labels[: len(study.merging)].copy())
        if dataset.task == "tokens" or not labels.numel():
            continue
        for target, column in zip(
            dataset.targets, labels.reshape(len(labels), -1).T, strict=False
        ):
            if not (column == column).any():
                continue
            if dataset.task == "regression":
                bound = "least mean squared error"
                least = study.merging.least_squared_error
                values = [f"{least(column, up_to):.4g}" for up_to in ("group", "same")]
            else:
                bound = "best accuracy"
                best = study.merging.best_accuracy
                values = [f"{best(column, up_to):.4%}" for up_to in ("group", "same")]
            rows.append([model, target.name, bound, *values])
    return rows


def _group_blocks(
    model: str,
    merging: "Merging",
    dataset: "GraphDataset",
    draw: Callable[[int, "Data"], str],
) -> list[Block]:
    from fullrank.lab import wl_level
    from fullrank.lab.graphs.merged import KINDS, SAME

    blocks: list[Block] = []
    order = sorted(merging.groups, key=lambda group: -KINDS.index(group.kind))
    for group in order[:SHOWN]:
        first, second = (merging.graphs[place] for place in group.pair)
        pictures = [
            (
                draw(place, merging.graphs[place]),
                f"graph {place}{_label(dataset, place)}",
            )
            for place in group.pair
        ]
        said = f"{len(group.members)} graphs with one embedding: {group.kind}."
        if group.kind != SAME:  # no test distinguishes those
            said += f" These two are distinguished by {wl_level(first, second)}."
        blocks += [
            Heading(f"{model}: {_places(group.members)}"),
            Text(said),
            Fragment(_markup(side_by_side(pictures))),
        ]
    if len(order) > SHOWN:
        blocks.append(Text(f"{model}: and {len(order) - SHOWN:,} more groups."))
    return blocks


def _places(members: Sequence[int]) -> str:
    shown = ", ".join(map(str, members[:6]))
    return f"graphs {shown}" + (", …" if len(members) > 6 else "")


def _label(dataset: "GraphDataset", place: int) -> str:
    if dataset.task == "tokens" or not dataset.targets:
        return ""
    values = dataset.labels[place].reshape(-1)[:3]
    named = zip(dataset.targets, values, strict=False)
    return "".join(f", {target.name}: {value:g}" for target, value in named)


def _counting_blocks(model: str, counting: "Counting | str") -> list[Block]:
    if isinstance(counting, str):
        return [Heading(model), Text(f"Not examined: {counting}")]
    rows = [
        [
            pattern,
            f"{miscount.counts[0]} and {miscount.counts[1]}",
            miscount.nodes,
            f"{miscount.gap:.0e}",
        ]
        for pattern, miscount in counting.cannot.items()
    ]
    rows += [
        [pattern, f"– (no witness among {counting.looked_at} graphs)", "–", "–"]
        for pattern in counting.undecided
    ]
    columns = ["not determined", "in two merged graphs", "nodes", "gap"]
    blocks: list[Block] = [Heading(model), Table(columns, rows)]
    if counting.cannot:
        pattern, miscount = next(iter(counting.cannot.items()))
        pictures = [
            (draw_graph(graph), f"{count} {pattern}")
            for graph, count in zip(
                (miscount.first, miscount.second), miscount.counts, strict=True
            )
        ]
        blocks.append(Fragment(_markup(side_by_side(pictures))))
    return blocks


def _markup(html: str) -> str:
    from markupsafe import Markup

    return Markup(html)
