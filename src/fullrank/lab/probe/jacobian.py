"""The Jacobian of a layer's output, unfolded over the neighbours of each node."""

import torch
from torch import Tensor
from torch_geometric.data import Batch

from fullrank.lab.probe.hooks import aggregates, hooked
from fullrank.lab.running import Runner, runner_of


def neighbor_slopes(
    layer: torch.nn.Module, stars: Batch, call: Runner | None = None
) -> Tensor:
    """Derivatives of each star's centre with respect to each of its nodes.

    Attention that the layer computes per edge is held fixed. Every node belongs to only
    one star, so one backward pass per output is sufficient for all stars.

    Args:
        layer: A layer in float64.
        stars: Stars whose first node is the centre.
        call: Runs the layer.

    Returns:
        One row per node, ``[N, out * in]``.
    """
    stars = stars.clone()
    stars.x = stars.x.clone().requires_grad_()
    with hooked(layer, "edge_update", lambda part, inputs, out: out.detach()):
        out = runner_of(layer, call)(layer, stars)[stars.ptr[:-1]]
    total = out.flatten(1).sum(dim=0)
    slopes = [torch.autograd.grad(one, stars.x, retain_graph=True)[0] for one in total]
    return torch.cat(slopes, dim=1)


def has_fixed_weights(
    layer: torch.nn.Module, stars: Batch, call: Runner | None = None
) -> bool:
    """Whether the aggregate is affine in the features once attention is held fixed."""
    generator = torch.Generator().manual_seed(0)
    change = torch.randn(stars.x.shape, generator=generator, dtype=stars.x.dtype)
    attention: dict[torch.nn.Module, Tensor] = {}
    run = runner_of(layer, call)

    def aggregate(step: float) -> Tensor:
        moved = stars.clone()
        moved.x = stars.x + step * change
        seen = aggregates(layer, lambda: run(layer, moved))
        return torch.cat([out.flatten() for out in seen])

    with hooked(
        layer, "edge_update", lambda part, inputs, out: attention.setdefault(part, out)
    ):
        low, middle, high = map(aggregate, (0.0, 0.5, 1.0))
    return torch.allclose(2 * middle, low + high, rtol=1e-9, atol=1e-9)
