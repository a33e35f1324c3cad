"""The paper in one's hands: a neighbourhood in the plane, and what a layer makes of it.

Everything is computed with `fullrank.lab`, by running the layer. A second neighbourhood
is shown only if the layer, run on both, gives the same output.
"""

from functools import lru_cache
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, Field, StrictBool

from fullrank.lab import Neighborhood, collide, profile
from fullrank.lab.precision import frozen_copy
from fullrank.nn.conv.base import RankConv
from fullrank.nn.resolver import make_conv

#: Wider than eight neighbours in the plane have coordinates: with fewer outputs every
#: layer collides, which is counting.
WIDTH = 18
#: How far the second neighbourhood is from every reordering of the first.
DISTANCE = 1.0
STARTS = 8
QUANTITIES = ("rank M", "rank H", "rank R", "kept")

Coordinate = Annotated[float, Field(ge=-10, le=10, strict=True)]
Point = tuple[Coordinate, Coordinate]


class LabQuestion(BaseModel):
    """A layer with random weights, and a node with its neighbours in the plane.

    Attributes:
        layer: The name of a layer.
        s: How many aggregators ``expc``, or heads ``gat``, has.
        re_sum: Whether the MLP runs before the sum, in ``expc`` and ``combc``.
        points: The node, then its neighbours.
        seed: Of the weights.
    """

    layer: Literal["gcn", "gin0", "gat", "expc", "combc"] = "gcn"
    s: int = Field(1, ge=1, le=8, strict=True)
    re_sum: StrictBool = False
    points: list[Point] = Field(
        min_length=2, max_length=9, examples=[[(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]]
    )
    seed: int = Field(0, ge=0, le=1_000_000, strict=True)


class Quantity(BaseModel):
    """A number that the lab measured, or why it could not."""

    name: str
    value: float | None
    why_not: str


class LabAnswer(BaseModel):
    """What the layer makes of the neighbourhood.

    Attributes:
        found: Whether a second neighbourhood has the same output.
        second: Its node and neighbours, if so.
        gap: How far the outputs are apart; if nothing was found, how close they came.
        distance: How far the two neighbourhoods are apart in any order.
        starts: How many searches were begun.
        outputs: The layer's output for the first, and for the second if found.
        free: How many coordinates the neighbours have.
        sensed: On how many of them the output depends.
        ranks: The ranks of the coefficients M, of the features H, of M H, and how much
            of the rank of H is kept.
        coefficients: M: a row for each aggregator, a column for each point.
        sums: For each dimension of the output whether it sums each of the points;
            None for layers without Re-SUM, whose dimensions sum all of them.
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
    """Look for a second neighbourhood, and measure ranks and sampling."""
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
    """A layer from the plane, always with the same weights."""
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
