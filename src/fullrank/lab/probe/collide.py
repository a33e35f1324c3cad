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
    """Two neighbourhoods and a layer's outputs for them.

    Attributes:
        found: Whether the compared values agree to 1e-9 of their size. Aggregates count
            only if the layer's outputs for both also agree to 1e-6.
        first: The given neighbourhood.
        second: The other one, with the same centre, size, degrees and edges.
        outputs: The compared values, the layer's output or aggregate for each, in
            float64.
        gap: Largest difference of the two; if no collision was found, the smallest one
            reached.
        distance: Distance of the neighbours of the second from those of the first,
            minimised over permutations.
        starts: Number of starting points tried.
        free: Number of features that the search may change, those of the neighbours.
        sensed: Number of them that the output depends on near the first neighbourhood,
            the rank of its Jacobian; if less than `free`, there are collisions nearby.
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
    """Search for a second neighbourhood with the same output of a layer.

    The search moves away from the first neighbourhood along directions that the layer
    ignores (the null space of its Jacobian), which is sufficient if the layer is
    linear, and then returns to the output by Newton steps that keep a distance from
    every permutation of the first. A result is verified by running the layer.

    A layer whose output has fewer numbers than the neighbours have free features
    always has collisions, including ours: this follows from counting dimensions. Layers
    differ in the *aggregate*, from which the output is computed: the sum of the
    expansion for our layers without Re-SUM. With Re-SUM the messages after the MLP are
    summed, so that aggregate and output are the same.

    Args:
        layer: A layer called as ``layer(x, edge_index[, edge_attr])``, or a model
            called with a graph.
        neighborhood: The first one; a tensor has the centre's features in row 0.
        of: Whether to compare the layer's ``"output"`` or its ``"aggregate"``.
        distance: Minimum distance of the second from every permutation of the first.
        starts: Number of starting points, each in a different direction.
        seed: Seed of the directions.
        call: Runs the layer on a graph, ``call(layer, data)``. The output is that of
            the graph, or of its first node.
    """
    if isinstance(neighborhood, Tensor):
        neighborhood = Neighborhood(neighborhood)
    if len(neighborhood) < 2:
        raise ValueError("collide needs at least one neighbour, got only the centre")
    if not neighborhood.x.is_floating_point():
        raise ConfigError(
            f"collide moves features, but those of type {neighborhood.x.dtype} are "
            f"categories; apply it to the layers after the encoder instead"
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
    """Newton steps towards an output, away from all permutations of the origin."""

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
        """Move a point out of the excluded balls around the permutations."""
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
    """Points beyond the distance, along ignored directions if there are any."""
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
    """Alternate between random combinations of all directions and single directions."""
    mixture = torch.randn(count, generator=generator, dtype=torch.float64)
    if index % 2 == 0:
        return mixture
    alone = torch.zeros(count, dtype=torch.float64)
    chosen = int(torch.randint(count, (1,), generator=generator))
    alone[chosen] = mixture[chosen].sign()
    return alone
