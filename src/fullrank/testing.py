"""Assertions about graph layers, for the tests of this package and of yours.

>>> from torch_geometric.nn import GCNConv
>>> assert_permutation_equivariant(GCNConv(3, 4), *random_graph(3))
"""

from collections.abc import Callable

import torch
from torch import Tensor

Layer = Callable[..., Tensor]


def random_graph(
    channels: int,
    num_nodes: int = 8,
    num_edges: int = 20,
    edge_dim: int | None = None,
    seed: int = 0,
) -> tuple[Tensor, ...]:
    """Return ``(x, edge_index)``, and ``edge_attr`` if there is an ``edge_dim``."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_nodes, channels, generator=generator)
    edge_index = torch.randint(num_nodes, (2, num_edges), generator=generator)
    if edge_dim is None:
        return x, edge_index
    return x, edge_index, torch.randn(num_edges, edge_dim, generator=generator)


def permute_graph(
    permutation: Tensor, x: Tensor, edge_index: Tensor, *edge_arguments: Tensor
) -> tuple[Tensor, ...]:
    """Renumber the nodes of a graph, and list its edges in another order.

    The old node ``permutation[i]`` becomes the new node ``i``.
    """
    position = permutation.argsort()
    order = torch.arange(edge_index.size(1)).flip(0)
    edges = position[edge_index][:, order]
    return x[permutation], edges, *(argument[order] for argument in edge_arguments)


def assert_permutation_equivariant(
    layer: Layer,
    x: Tensor,
    edge_index: Tensor,
    *edge_arguments: Tensor,
    trials: int = 4,
    tolerance: float = 1e-5,
) -> None:
    """Assert that renumbering the nodes renumbers the output and does nothing else.

    Args:
        layer: Called with ``(x, edge_index, *edge_arguments)``; returns one row for
            each node. A layer with randomness must be in evaluation mode.
        x: Node features.
        edge_index: The edges.
        *edge_arguments: Anything with one row for each edge, such as ``edge_attr``.
        trials: How many random permutations to try.
        tolerance: Largest allowed difference, relative to the largest output.
    """
    expected = layer(x, edge_index, *edge_arguments)
    for permutation in _permutations(len(x), trials):
        output = layer(*permute_graph(permutation, x, edge_index, *edge_arguments))
        message = f"the output does not follow the permutation {permutation.tolist()}"
        _assert_close(output, expected[permutation], tolerance, message)


def assert_same_on_isomorphic_graphs(
    model: Layer,
    x: Tensor,
    edge_index: Tensor,
    *edge_arguments: Tensor,
    trials: int = 4,
    tolerance: float = 1e-5,
) -> None:
    """Assert that a graph-level model does not depend on how the nodes are numbered.

    Args are those of :func:`assert_permutation_equivariant`; the model's output has no
    row for each node.
    """
    expected = model(x, edge_index, *edge_arguments)
    for permutation in _permutations(len(x), trials):
        output = model(*permute_graph(permutation, x, edge_index, *edge_arguments))
        message = f"the output depends on the numbering {permutation.tolist()}"
        _assert_close(output, expected, tolerance, message)


def assert_layers_agree(
    first: Layer,
    second: Layer,
    *inputs: Tensor,
    tolerance: float = 1e-10,
    gradients: bool = True,
) -> None:
    """Assert that two layers give the same output and the same gradients.

    Args:
        first: Called with the inputs.
        second: Called with the inputs.
        *inputs: The floating-point ones among them are differentiated.
        tolerance: Largest allowed difference, relative to the largest entry.
        gradients: Whether the gradients by the inputs are compared as well.
    """
    results = []
    names = ["outputs"]
    if gradients:
        floating = [i for i, t in enumerate(inputs) if t.is_floating_point()]
        names += [f"gradients by input number {i}" for i in floating]
    for layer in (first, second):
        copies = [
            t.detach().clone().requires_grad_(t.is_floating_point()) for t in inputs
        ]
        output = layer(*copies)
        wanted = [t for t in copies if t.requires_grad]
        found: tuple = ()
        if gradients and wanted:
            weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype)
            loss = (output * weights.view_as(output).to(output.device)).sum()
            found = torch.autograd.grad(loss, wanted, allow_unused=True)
        results.append((output, *found))
    for what, a, b in zip(names, *results, strict=True):
        if (a is None) != (b is None):
            raise AssertionError(f"only one of the layers has {what}")
        if a is not None:
            _assert_close(a, b, tolerance, f"the {what} differ")


def relative_difference(a: Tensor, b: Tensor) -> float:
    """Return the largest difference, relative to the largest entry of ``b``."""
    if a.shape != b.shape:
        raise AssertionError(f"shapes differ: {list(a.shape)} and {list(b.shape)}")
    if not a.numel():
        return 0.0
    scale = b.detach().abs().max().clamp(min=torch.finfo(b.dtype).tiny)
    return float((a - b).detach().abs().max() / scale)


def _permutations(size: int, trials: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randperm(size, generator=generator) for _ in range(trials)]


def _assert_close(a: Tensor, b: Tensor, tolerance: float, message: str) -> None:
    difference = relative_difference(a, b)
    if not difference <= tolerance:
        raise AssertionError(
            f"{message}: relative difference {difference:.2e}, allowed {tolerance:.0e}"
        )
