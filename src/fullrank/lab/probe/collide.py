"""Find two different neighbourhoods that a layer cannot distinguish."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fullrank.errors import ConfigError
from fullrank.lab.precision import frozen_copy
from fullrank.lab.probe.neighborhood import Neighborhood
from fullrank.lab.probe.reader import Reader
from fullrank.lab.running import Runner, runner_of
from fullrank.lab.theory.coefficient_rank import null_space
from fullrank.lab.theory.distance import multiset_distance, nearest_reordering

TOLERANCE = 1e-9
REPLAY_TOLERANCE = 1e-6
NEWTON_STEPS = 40


@dataclass(frozen=True)
class Collision:
    """Two neighbourhoods and what a layer makes of them.

    Attributes:
        found: Whether what was compared agrees to 1e-9 of its size. Aggregates count
            only if the layer, run on both, also gives the same output to 1e-6.
        first: The given neighbourhood.
        second: The other one, with the same centre, size, degrees and edges.
        outputs: What was compared, the layer's output or aggregate for each, in
            float64.
        gap: Largest difference of the two; if nothing was found, the smallest that
            was reached.
        distance: How far the neighbours of the second are from every reordering of
            those of the first.
        starts: How many starting points were tried.
        free: How many numbers the search may change, the neighbours' features.
        sensed: On how many of them the output depends near the first neighbourhood,
            the rank of its Jacobian; if fewer than `free`, a collision is near.
        replayed: Largest difference of the layer's outputs for the two.
    """

    found: bool
    first: Neighborhood
    second: Neighborhood
    outputs: tuple[Tensor, Tensor]
    gap: float
    distance: float
    starts: int
    free: int
    sensed: int
    replayed: float

    def __str__(self) -> str:
        if self.found:
            return (
                f"two neighbourhoods of {len(self.first)}, {self.distance:.2g} apart, "
                f"with outputs {self.gap:.1e} apart"
            )
        return f"none found in {self.starts} starts; smallest gap {self.gap:.1e}"


def collide(
    layer: torch.nn.Module,
    neighborhood: Neighborhood | Tensor,
    of: str = "output",
    distance: float = 0.5,
    starts: int = 20,
    seed: int = 0,
    call: Runner | None = None,
) -> Collision:
    """Look for a second neighbourhood that a layer maps where it maps the first.

    The search leaves the first neighbourhood along directions that the layer ignores
    (the null space of its Jacobian), which already arrives if the layer is linear, and
    then returns to the wanted output by Newton steps that are kept at a distance from
    every reordering of the first. What is found is run through the layer once more.

    A layer whose output has fewer numbers than the neighbours have free features
    always collides, ours included: that is counting, not weakness. What differs is the
    *aggregate*, from which the output is computed: the sum of the expansion for our
    layers without Re-SUM. With Re-SUM the messages after the MLP are summed, so that
    aggregate and output are the same.

    Args:
        layer: A layer called as ``layer(x, edge_index[, edge_attr])``, or a model
            called with a graph.
        neighborhood: The first one; a tensor holds the centre's features in row 0.
        of: Compare the layer's ``"output"``, or the ``"aggregate"`` it comes from.
        distance: How different the second must be from every reordering.
        starts: How many starting points to try, each in a different direction.
        seed: Seeds the directions.
        call: How to run the layer on a graph, ``call(layer, data)``, if it is called in
            another way. The output is the graph's, or that of its first node.
    """
    if isinstance(neighborhood, Tensor):
        neighborhood = Neighborhood(neighborhood)
    if len(neighborhood) < 2:
        raise ValueError("collide needs at least one neighbour, got only the centre")
    if not neighborhood.x.is_floating_point():
        raise ConfigError(
            f"collide moves features, and {neighborhood.x.dtype} holds categories; "
            f"collide the layers behind the encoder instead"
        )
    first = neighborhood.double()
    layer, run = frozen_copy(layer), runner_of(layer, call)
    read = Reader(layer, first, of, run)
    origin = first.x[1:].clone()  # [n - 1, d]
    wanted = read(origin)
    search = _Search(read, origin, wanted, distance)
    ignored = null_space(read.jacobian(origin), rtol=1e-9)
    count = 0
    for start in _starting_points(origin, ignored, distance, starts, seed):
        count += 1
        if search.descend(start):
            break
    output = read if of == "output" else Reader(layer, first, "output", run)
    outputs = output(origin), output(search.best)
    replayed = float((outputs[0] - outputs[1]).abs().max())
    same = replayed <= REPLAY_TOLERANCE * (float(outputs[0].abs().max()) or 1.0)
    return Collision(
        found=search.gap <= search.tolerance and same,
        first=first,
        second=first.with_neighbors(search.best),
        outputs=(wanted, read(search.best)),
        gap=search.gap,
        distance=multiset_distance(origin, search.best),
        starts=count,
        free=origin.numel(),
        sensed=origin.numel() - ignored.size(1),
        replayed=replayed,
    )


class _Search:
    """Newton steps towards a wanted output, away from all reorderings of the origin."""

    def __init__(
        self,
        read: Reader,
        origin: Tensor,
        wanted: Tensor,
        distance: float,
    ):
        self.read, self.origin, self.wanted = read, origin, wanted
        self.distance = distance
        self.tolerance = TOLERANCE * (float(wanted.abs().max()) or 1.0)
        self.gap = float("inf")
        self.best = origin

    def descend(self, point: Tensor) -> bool:
        """Take steps from a point; return whether a collision was reached."""
        point = self._away(point)
        error = self._error(point)
        for _ in range(NEWTON_STEPS):
            self._remember(point, error)
            if self.gap <= self.tolerance:
                return True
            point, next_error = self._step(point, error)
            if next_error.norm() > 0.999 * error.norm():
                break
            error = next_error
        self._remember(point, self._error(point))
        return self.gap <= self.tolerance

    def _step(self, point: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
        slope = self.read.jacobian(point)  # [outputs, (n - 1) d]
        step = (torch.linalg.pinv(slope, rtol=1e-10) @ error).view_as(point)
        for size in (1.0, 0.5, 0.25, 0.1):
            candidate = self._away(point - size * step)
            candidate_error = self._error(candidate)
            if candidate_error.norm() < error.norm():
                break
        return candidate, candidate_error

    def _error(self, point: Tensor) -> Tensor:
        return self.read(point) - self.wanted

    def _away(self, point: Tensor) -> Tensor:
        """Push a point out of the forbidden balls around the reorderings."""
        nearest = nearest_reordering(self.origin, point)
        apart = float((point - nearest).norm())
        if apart >= self.distance:
            return point
        return nearest + (point - nearest) * (1.001 * self.distance / max(apart, 1e-12))

    def _remember(self, point: Tensor, error: Tensor) -> None:
        gap = float(error.abs().max())
        if gap < self.gap and multiset_distance(self.origin, point) >= self.distance:
            self.gap, self.best = gap, point


def _starting_points(
    origin: Tensor, ignored: Tensor, distance: float, starts: int, seed: int
) -> Iterator[Tensor]:
    """Points beyond the distance, along ignored directions where there are any."""
    generator = torch.Generator().manual_seed(seed)
    for index in range(starts):
        if ignored.size(1):
            weights = _directions(ignored.size(1), index, generator)
            direction = ignored @ weights
        else:
            direction = _directions(origin.numel(), index, generator)
        size = distance * (1.1 + 0.2 * index)
        yield origin + size * direction.view_as(origin) / direction.norm()


def _directions(count: int, index: int, generator: torch.Generator) -> Tensor:
    """Alternately a random mixture of all directions and one of them alone."""
    mixture = torch.randn(count, generator=generator, dtype=torch.float64)
    if index % 2 == 0:
        return mixture
    alone = torch.zeros(count, dtype=torch.float64)
    chosen = int(torch.randint(count, (1,), generator=generator))
    alone[chosen] = mixture[chosen].sign()
    return alone
