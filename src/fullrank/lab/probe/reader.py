"""A layer as a function of the neighbours' features."""

from copy import copy

import torch
from torch import Tensor
from torch.autograd.functional import jacobian
from torch_geometric.data import Batch

from fullrank.errors import ConfigError
from fullrank.lab.probe.hooks import aggregates
from fullrank.lab.probe.neighborhood import Neighborhood, batch_of
from fullrank.lab.running import Runner, centers

AT_ONCE = 256


class Reader:
    """Runs a layer on stars that differ in their neighbours' features.

    Args:
        layer: A layer or model in float64.
        neighborhood: Everything except the neighbours' features.
        of: Whether to read the ``"output"`` or the ``"aggregate"``.
        run: Runs the layer.
    """

    def __init__(
        self, layer: torch.nn.Module, neighborhood: Neighborhood, of: str, run: Runner
    ) -> None:
        if of not in ("output", "aggregate"):
            raise ValueError(f"of must be 'output' or 'aggregate', got {of!r}")
        self.layer, self.neighborhood, self.of, self.run = layer, neighborhood, of, run
        self._stars: dict[int, Batch] = {}
        self._side_by_side = self._runs_side_by_side()

    def __call__(self, neighbors: Tensor) -> Tensor:
        """The value for one star, ``[n - 1, d]`` to ``[out]``."""
        return self._read(neighbors[None])[0]

    def jacobian(self, neighbors: Tensor) -> Tensor:
        """The derivative at one star, ``[out, (n - 1) d]``.

        Copy k of the star is used for output k, so that one backward pass
        differentiates many outputs, if the layer treats the graphs of a batch
        independently.

        Raises:
            ConfigError: If the layer cannot be differentiated.
        """
        try:
            return self._jacobian(neighbors)
        except RuntimeError as error:
            raise ConfigError(
                f"{type(self.layer).__name__} cannot be differentiated, as the search "
                f"for collisions requires: {error}"
            ) from error

    def _jacobian(self, neighbors: Tensor) -> Tensor:
        if not self._side_by_side:
            return jacobian(self, neighbors).flatten(1)
        count = self(neighbors).numel()
        blocks = []
        for outputs in torch.arange(count).split(AT_ONCE):
            copies = neighbors.expand(len(outputs), -1, -1).clone().requires_grad_()
            with torch.enable_grad():
                total = self._read(copies).gather(1, outputs[:, None]).sum()
            blocks.append(torch.autograd.grad(total, copies)[0].flatten(1))
        return torch.cat(blocks)

    def _read(self, points: Tensor) -> Tensor:
        """``[K, n - 1, d]`` to ``[K, out]``."""
        batch = self._batch(points)
        if self.of == "output":
            return centers(self.run(self.layer, batch), batch)
        seen = aggregates(self.layer, lambda: self.run(self.layer, batch))
        if not seen:
            raise ConfigError(
                f"{type(self.layer).__name__} never calls MessagePassing.aggregate, so "
                f"it has no aggregate to read; read its output instead"
            )
        return torch.cat([centers(part, batch) for part in seen], dim=1)

    def _batch(self, points: Tensor) -> Batch:
        """Stars with these neighbours; everything except the features is cached."""
        count = len(points)
        if count not in self._stars:
            self._stars[count] = batch_of([self.neighborhood] * count)
        batch = copy(self._stars[count])
        x = batch.x.view(count, -1, points.size(2))
        rim = len(self.neighborhood)
        batch.x = torch.cat([x[:, :1], points, x[:, rim:]], dim=1).flatten(0, 1)
        return batch

    @torch.no_grad()
    def _runs_side_by_side(self) -> bool:
        origin = self.neighborhood.x[1:]
        points = torch.stack([origin, 1.5 * origin + 0.5])
        try:
            both = self._read(points)
        except (ConfigError, RuntimeError, IndexError, ValueError):
            return False  # some layers accept only one graph
        alone = torch.stack([self(point) for point in points])
        return torch.allclose(both, alone, rtol=1e-9, atol=1e-12)
