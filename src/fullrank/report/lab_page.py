"""The lab's page: collisions, rank kept, reach, and the sampling of Re-SUM."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

from fullrank.lab.probe.profile import QUANTITIES
from fullrank.report.page import (
    PALETTE,
    Block,
    Figure,
    Heading,
    Section,
    Table,
    Text,
    render_page,
)

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from fullrank.lab import Collision, Finding, LayerProfile, Reach

COUNTING = (
    "A layer whose output senses fewer directions than its neighbours have free "
    "features must map some neighbourhoods to the same output; this holds for "
    "ExpandingConv and CombConv as for any other layer. The aggregate, from which the "
    "output is computed, is searched for collisions as well: without Re-SUM it is M H, "
    "with Re-SUM the sum of the messages after the MLP, which is the output. Both "
    "neighbourhoods of every figure were verified by running the layer."
)
RANK = (
    "M contains the coefficients of a neighbourhood, H its features, and R = M H is "
    "the aggregate of a layer without Re-SUM. The rank kept is rank R / rank H; 1 "
    "means that no rank is lost. Layers with Re-SUM do not form M H and are not shown "
    "here. Neighbourhoods include the node itself."
)
JACOBIAN = (
    "Layers whose coefficients cannot be read are probed by the Jacobian of their "
    "output over the neighbours, without the node itself. With attention held fixed, "
    "its rank is the number of weightings of the neighbours that the layer uses."
)
MOVING = (
    "Here the weights of the neighbours depend on the features and cannot be held "
    "fixed, so this is the rank of the total derivative, which is not comparable with "
    "the ranks above."
)
SAMPLING = (
    "With Re-SUM each dimension sums only over neighbours whose message survives the "
    "last ReLU. Each box shows the fraction of neighbours in the sum, over the "
    "dimensions of one layer."
)

REACH = (
    "The influence of a node on another is the norm of the Jacobian of the last "
    "convolution's output at the latter with respect to the first convolution's input "
    "at the former. Left: mean influence of a node by distance. Right: share of the "
    "total influence by distance; dotted, the share of nodes at that distance. If the "
    "share of influence of distant nodes is below their share of nodes, their "
    "information is squashed."
)
#: Prefix of a cell without a number; the reason follows.
NOT = "–"

Findings = Mapping[str, Sequence["Finding"]]


def lab_page(
    title: str,
    lead: str,
    findings: Findings,
    provenance: Mapping[str, str],
    reaches: Mapping[str, "Reach"] | None = None,
    whole_graphs: Sequence[Section] = (),
) -> str:
    """Render the page about some models.

    Args:
        title: Title of the page.
        lead: Introduction.
        findings: Results of :func:`fullrank.lab.examine` for each layer, by model.
        provenance: Origin of the numbers.
        reaches: Results of :func:`fullrank.lab.reach`, by model.
        whole_graphs: Sections of :mod:`fullrank.report.merging`.
    """
    sections = [
        Section("At a glance", [_with_footnotes(*glance(findings))]),
        *whole_graphs,
        Section("How much rank is kept", _rank_blocks(findings)),
    ]
    if reaches:
        travels: list[Block] = [Text(REACH), Figure(_reach_figure(reaches))]
        sections.append(Section("How far information travels", travels))
    if sampled := _sampling_figure(findings):
        summed = Section("Sampling of Re-SUM", [Text(SAMPLING), Figure(sampled)])
        sections.append(summed)
    collisions: list[Block] = [Text(COUNTING)]
    for model, layers in findings.items():
        for finding in layers:
            collisions += _collision_blocks(model, finding)
    sections.append(Section("Two neighbourhoods, one output", collisions))
    return render_page(title, lead, sections, provenance)


def glance(findings: Findings) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the overview table."""
    columns = ["model", "layer", *QUANTITIES, "outputs collide", "aggregates collide"]
    rows = [
        [
            model,
            finding.profile.name,
            *(_mean(finding.profile, quantity) for quantity in QUANTITIES),
            _caught(finding.output, finding.why_not),
            _caught(finding.aggregate, finding.why_not),
        ]
        for model, layers in findings.items()
        for finding in layers
    ]
    return columns, rows


def _with_footnotes(columns: list[str], rows: list[list[str]]) -> Table:
    """A table in which letters refer to the reasons for missing numbers."""
    letters: dict[str, str] = {}

    def short(cell: str) -> str:
        if not cell.startswith(NOT):
            return cell
        reason = cell.removeprefix(f"{NOT} (").removesuffix(")")
        letter = letters.setdefault(reason, chr(ord("a") + len(letters)))
        return f"{NOT} {letter}"

    shown = [[short(cell) for cell in row] for row in rows]
    notes = [f"{letter}: {reason}" for reason, letter in letters.items()]
    return Table(columns, shown, "; ".join(notes))


def _mean(profile: "LayerProfile", quantity: str) -> str:
    if why_not := profile.why_not(quantity):
        return f"{NOT} ({why_not})"
    return f"{profile.mean(quantity):.2f}"


def _caught(collision: "Collision | None", why_not: str) -> str:
    if collision is None:
        return f"{NOT} ({why_not})"
    word = "yes" if collision.found else "no"
    return f"{word}, gap {collision.gap:.0e}"


def _rank_blocks(findings: Findings) -> list[Block]:
    blocks: list[Block] = []
    for quantity, text, label in [
        ("kept", RANK, "rank kept"),
        ("rank J", JACOBIAN, "rank of the Jacobian"),
        ("rank J (moving)", MOVING, "rank of the moving Jacobian"),
    ]:
        figure = _by_degree_figure(findings, quantity, label)
        if figure is not None:
            blocks += [Text(text), Figure(figure)]
    return blocks


def _by_degree_figure(
    findings: Findings, quantity: str, label: str
) -> "go.Figure | None":
    """Mean over the nodes of each size, one panel per layer, one line per model."""
    from plotly.subplots import make_subplots

    shown = {
        model: [f.profile for f in layers if quantity in f.profile.quantities()]
        for model, layers in findings.items()
    }
    depth = max((len(profiles) for profiles in shown.values()), default=0)
    if not depth:
        return None
    titles = [f"layer {index + 1}" for index in range(depth)]
    figure = make_subplots(1, depth, shared_yaxes=True, subplot_titles=titles)
    # The first lines are the widest, so that lines drawn over them do not hide them.
    widths = [2 + 3 * (len(shown) - 1 - place) for place in range(len(shown))]
    for (model, profiles), color, width in zip(
        shown.items(), cycle(PALETTE), widths, strict=False
    ):
        for index, profile in enumerate(profiles):
            by_degree = profile.by_degree(quantity)
            figure.add_scatter(
                x=list(by_degree),
                y=list(by_degree.values()),
                name=model,
                legendgroup=model,
                showlegend=index == 0,
                mode="lines+markers",
                line={"color": color, "width": width},
                marker={"size": width + 4},
                row=1,
                col=index + 1,
            )
    figure.update_xaxes(title="neighbours")
    figure.update_yaxes(rangemode="tozero")
    figure.update_yaxes(title=label, col=1)
    return figure.update_layout(height=360, margin={"t": 40, "b": 50, "l": 60, "r": 10})


def _reach_figure(reaches: Mapping[str, "Reach"]) -> "go.Figure":
    from plotly.subplots import make_subplots

    titles = ["influence of one node", "share of all influence"]
    figure = make_subplots(1, 2, subplot_titles=titles)
    for (model, reach), color in zip(reaches.items(), cycle(PALETTE), strict=False):
        far = list(range(len(reach.share)))
        nodes = (reach.nodes / reach.nodes.sum()).tolist()
        for column, values, dash in (
            (1, reach.influence.tolist(), "solid"),
            (2, reach.share.tolist(), "solid"),
            (2, nodes, "dot"),
        ):
            figure.add_scatter(
                x=far,
                y=[value or None for value in values],
                name=model if dash == "solid" else f"{model}, share of nodes",
                legendgroup=model,
                showlegend=column == 2,
                mode="lines+markers",
                line={"color": color, "dash": dash},
                row=1,
                col=column,
            )
    figure.update_yaxes(type="log", col=1)
    figure.update_yaxes(rangemode="tozero", col=2)
    figure.update_xaxes(title="distance")
    return figure.update_layout(height=360, margin={"t": 40, "b": 50, "l": 60, "r": 10})


def _sampling_figure(findings: Findings) -> "go.Figure | None":
    import plotly.graph_objects as go

    figure = go.Figure()
    for (model, layers), color in zip(findings.items(), cycle(PALETTE), strict=False):
        for finding in layers:
            if finding.profile.sampling is not None:
                figure.add_box(
                    y=finding.profile.sampling.mean(dim=0).tolist(),
                    name=f"{model} {finding.profile.name}",
                    marker={"color": color},
                    boxpoints="all",
                    jitter=0.4,
                    showlegend=False,
                )
    if not figure.data:
        return None
    figure.update_yaxes(title="fraction of neighbours summed", range=[-0.03, 1.03])
    return figure.update_layout(height=360, margin={"t": 10, "b": 60, "l": 60, "r": 10})


def _collision_blocks(model: str, finding: "Finding") -> list[Block]:
    output, aggregate = finding.output, finding.aggregate
    heading = Heading(f"{model}, {finding.profile.name} ({finding.profile.kind})")
    if output is None or aggregate is None:
        return [heading, Text(f"Not searched: {finding.why_not}.")]
    size = len(output.first)
    if output.found:
        said = (
            f"Two neighbourhoods of {size}, at a distance of at least "
            f"{output.distance:.2g} in any order; the outputs differ by "
            f"{output.gap:.1e}."
        )
    else:
        said = (
            f"No second neighbourhood of {size} found in {output.starts} starts: the "
            f"smallest difference of the outputs is {output.gap:.1e}."
        )
    counts = (
        f"{output.free} free features, of which the output senses {output.sensed} and "
        f"the aggregate {aggregate.sensed}."
    )
    also = (
        "The aggregate collides, too."
        if aggregate.found
        else f"No collision of the aggregate found; smallest gap {aggregate.gap:.1e}."
    )
    return [heading, Text(f"{said} {counts} {also}"), Figure(collision_figure(output))]


def collision_figure(collision: "Collision") -> "go.Figure":
    """Both neighbourhoods row by row, and both outputs."""
    from plotly.subplots import make_subplots

    names = ["centre", *(f"neighbour {i}" for i in range(1, len(collision.first)))]
    first, second = collision.first.x, collision.second.x
    limit = float(max(first.abs().max(), second.abs().max()))
    figure = make_subplots(
        2,
        2,
        row_heights=[len(names), 2],
        vertical_spacing=0.28,
        horizontal_spacing=0.03,
        shared_yaxes=True,
        specs=[[{}, {}], [{"colspan": 2}, None]],
        subplot_titles=["first", "second", "outputs"],
    )
    for column, x in enumerate((first, second), start=1):
        figure.add_heatmap(
            z=x.tolist(),
            y=names,
            zmin=-limit,
            zmax=limit,
            colorscale="RdBu",
            showscale=column == 2,
            colorbar={"title": "feature", "len": 0.6, "y": 0.75, "thickness": 12},
            texttemplate="%{z:.2f}" if x.size(1) <= 6 else None,
            hovertemplate="%{y}, feature %{x}: %{z:.6f}<extra></extra>",
            row=1,
            col=column,
        )
    for name, output, dash in zip(
        ("first", "second"), collision.outputs, ("solid", "dot"), strict=True
    ):
        figure.add_scatter(
            y=output.tolist(),
            name=name,
            mode="lines+markers",
            line={"dash": dash, "color": PALETTE[0 if dash == "solid" else 1]},
            marker={"size": 9 if dash == "solid" else 5},
            hovertemplate="output %{x}: %{y:.12f}",
            row=2,
            col=1,
        )
    figure.update_yaxes(autorange="reversed", row=1)
    figure.update_xaxes(title="feature", dtick=_step(first.size(1)), row=1)
    count = len(collision.outputs[0])
    figure.update_xaxes(title="output", dtick=_step(count), row=2, col=1)
    return figure.update_layout(
        height=420,
        margin={"t": 40, "b": 50, "l": 90, "r": 10},
        legend={"orientation": "h", "y": -0.15},
    )


def _step(count: int) -> int:
    """About eight ticks at integers."""
    return max(1, count // 8)
