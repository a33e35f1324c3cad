"""An interactive experiment: a layer on a neighbourhood in the plane.

Everything is computed with `fullrank.lab`, by running the layer. A second neighbourhood
is shown only if the layer has the same output for both.
"""

from functools import lru_cache
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, Field, StrictBool

from fullrank.lab import Neighborhood, collide, profile
from fullrank.lab.precision import frozen_copy
from fullrank.nn.conv.base import RankConv
from fullrank.nn.resolver import make_conv

#: More outputs than eight neighbours in the plane have coordinates: with fewer, every
#: layer has collisions, by counting dimensions.
WIDTH = 18
#: Minimum distance of the second neighbourhood from every permutation of the first.
DISTANCE = 1.0
STARTS = 8
QUANTITIES = ("rank M", "rank H", "rank R", "kept")

Coordinate = Annotated[float, Field(ge=-10, le=10, strict=True)]
Point = tuple[Coordinate, Coordinate]


class LabQuestion(BaseModel):
    """A layer with random weights, and a node with its neighbours in the plane.

    Attributes:
        layer: Name of the layer.
        s: Number of aggregators of ``expc``, or of heads of ``gat``.
        re_sum: Whether to apply the MLP before the sum, in ``expc`` and ``combc``.
        points: The node, then its neighbours.
        seed: Seed of the weights.
    """

    layer: Literal["gcn", "gin0", "gat", "expc", "combc"] = "gcn"
    s: int = Field(1, ge=1, le=8, strict=True)
    re_sum: StrictBool = False
    points: list[Point] = Field(
        min_length=2, max_length=9, examples=[[(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]]
    )
    seed: int = Field(0, ge=0, le=1_000_000, strict=True)


class Quantity(BaseModel):
    """A number measured by the lab, or the reason why it is missing."""

    name: str
    value: float | None
    why_not: str


class LabAnswer(BaseModel):
    """The result of an experiment.

    Attributes:
        found: Whether a second neighbourhood with the same output was found.
        second: Its node and neighbours, if found.
        gap: Difference of the outputs; the smallest one reached if none was found.
        distance: Distance of the two neighbourhoods, minimised over permutations.
        starts: Number of searches.
        outputs: The layer's output for the first neighbourhood, and for the second if
            found.
        free: Number of coordinates of the neighbours.
        sensed: Number of coordinates that the output depends on.
        ranks: The ranks of the coefficients M, of the features H and of M H, and the
            rank kept.
        coefficients: M, with a row for each aggregator and a column for each point.
        sums: Whether each dimension of the output sums each of the points; None for
            layers without Re-SUM, whose dimensions sum all points.
    """

    found: bool
    second: list[tuple[float, float]] | None
    gap: float
    distance: float
    starts: int
    outputs: list[list[float]]
    free: int
    sensed: int
    ranks: list[Quantity]
    coefficients: list[list[float]]
    sums: list[list[bool]] | None


def experiment(question: LabQuestion) -> LabAnswer:
    """Search for a second neighbourhood, and measure ranks and sampling."""
    layer = plane_layer(question.layer, question.s, question.re_sum, question.seed)
    first = Neighborhood(torch.tensor(question.points, dtype=torch.float64))
    found = collide(layer, first, distance=DISTANCE, starts=STARTS)
    graph = first.graph()
    (measured,) = profile(layer, graph, rtol=1e-9)
    known = measured.values
    ranks = [
        Quantity(
            name=name,
            value=float(known[name][0]) if name in known else None,
            why_not=measured.why_not(name),
        )
        for name in QUANTITIES
    ]
    with torch.no_grad():
        messages, local = layer.messages(graph.x, graph.edge_index)
        of_center = local.dst == 0
        order = local.src[of_center].argsort()  # the node, then its neighbours
        coefficients = layer.read_coefficients(local)[of_center][order]  # [n, s]
    sums = None
    if layer.re_sum:
        sums = (messages[of_center][order] > 0).T.tolist()  # [out, n]
    return LabAnswer(
        found=found.found,
        second=found.second.x.tolist() if found.found else None,
        gap=found.gap,
        distance=found.distance,
        starts=found.starts,
        outputs=[out.tolist() for out in found.outputs[: 1 + found.found]],
        free=found.free,
        sensed=found.sensed,
        ranks=ranks,
        coefficients=coefficients.T.tolist(),
        sums=sums,
    )


@lru_cache(maxsize=64)
def plane_layer(name: str, s: int, re_sum: bool, seed: int) -> RankConv:
    """A layer with two input features and reproducible weights."""
    options: dict[str, dict[str, Any]] = {
        "gat": {"heads": s},
        "expc": {"num_aggregators": s, "re_sum": re_sum},
        "combc": {"re_sum": re_sum},
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = make_conv(name, 2, WIDTH, None, **options.get(name, {}))
    frozen = frozen_copy(layer)
    assert isinstance(frozen, RankConv)
    return frozen
