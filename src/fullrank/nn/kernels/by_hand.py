"""Two forms of one computation over edges: plain, and by hand for the CPU.

The *plain* form is made of ordinary tensor operations: it runs on any device, compiles,
exports, and has derivatives of any order and mode. The form *by hand* goes through the
edges in blocks that stay in the processor's cache, forward and backward, and writes
nothing down that it can add up at once. Which one runs is not the caller's concern.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

BLOCK_BYTES = 1 << 21  # of one block x width tensor: a few of them fit the cache


class Computation:
    """A sum over edges in its two forms. ``args`` are tensors, numbers or None."""

    @staticmethod
    def plain(*args) -> Tensor:
        """Compute it with ordinary operations."""
        raise NotImplementedError

    @staticmethod
    def forward(ctx, *args) -> Tensor:
        """Compute it by hand, and keep in ``ctx`` what the backward pass needs."""
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad: Tensor, *args) -> tuple:
        """Return the gradients by all ``args`` by hand."""
        raise NotImplementedError


def compute(computation: type[Computation], *args) -> Tensor:
    """Compute a sum over edges in the form that fits."""
    floats = [arg for arg in args if _is_float(arg)]
    if _plain_needed(floats):
        return computation.plain(*args)
    return _ByHand.apply(computation, *args)


def _is_float(arg) -> bool:
    return isinstance(arg, Tensor) and arg.is_floating_point()


def _plain_needed(floats: list[Tensor]) -> bool:
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch.is_autocast_enabled("cpu")
        or any(x.device.type != "cpu" for x in floats)
        or len({x.dtype for x in floats}) > 1
        or floats[0].dtype not in (torch.float32, torch.float64)
        or any(unpack_dual(x).tangent is not None for x in floats)
    )


def _is_batched(x: Tensor) -> bool:
    functorch = torch._C._functorch
    return functorch.is_batchedtensor(x) or functorch.is_legacy_batchedtensor(x)


class _ByHand(torch.autograd.Function):
    """Runs a computation by hand; a backward pass that is itself differentiated or
    batched goes through the plain form."""

    @staticmethod
    def forward(ctx, computation, *args):
        ctx.computation = computation
        ctx.others = tuple(None if isinstance(arg, Tensor) else arg for arg in args)
        ctx.save_for_backward(*(a if isinstance(a, Tensor) else None for a in args))
        return computation.forward(ctx, *args)

    @staticmethod
    def backward(ctx, grad):
        args = [
            other if saved is None else saved
            for saved, other in zip(ctx.saved_tensors, ctx.others, strict=True)
        ]
        if not (torch.is_grad_enabled() or _is_batched(grad)):
            return None, *ctx.computation.backward(ctx, grad.contiguous(), *args)
        needed = ctx.needs_input_grad[1:]
        with torch.enable_grad():
            # A view of each input, so that the graph of this backward pass ends at
            # the inputs themselves and goes on from there.
            args = [
                arg.view_as(arg) if need else arg
                for arg, need in zip(args, needed, strict=True)
            ]
            out = ctx.computation.plain(*args)
        wanted = [arg for arg, need in zip(args, needed, strict=True) if need]
        found = iter(torch.autograd.grad(out, wanted, grad, create_graph=True))
        return None, *(next(found) if need else None for need in needed)


class EdgeOrder:
    """Edges in the order of one of their ends, cut into blocks between nodes."""

    def __init__(self, index: Tensor, size: int) -> None:
        self.index, self.permutation = torch.sort(index, stable=True)
        self.ptr = torch.searchsorted(self.index, torch.arange(size + 1))
        self.size = size

    def sort(self, x: Tensor | None) -> Any:
        """Bring something with a row for each edge into this order."""
        return None if x is None else x.detach().index_select(0, self.permutation)

    def unsort(self, x: Tensor | None) -> Any:
        """Bring it back into the order it came in."""
        return (
            None
            if x is None
            else torch.empty_like(x).index_copy_(0, self.permutation, x)
        )

    def blocks(self, width: int, itemsize: int) -> Iterator[tuple[slice, slice]]:
        """Yield ``(nodes, edges)``: ranges of nodes, all together, with their edges."""
        rows = max(256, BLOCK_BYTES // (width * itemsize))
        edges = self.index.numel()
        # Two blocks are not worth their overhead.
        steps = torch.arange(0, edges if edges > 2 * rows else 0, rows)[1:]
        cuts = torch.searchsorted(self.ptr, steps).unique().tolist()
        if cuts and self.ptr[cuts[-1]] == edges:
            cuts.pop()  # the nodes at the end that have no edges are no block
        for first, last in pairwise([0, *cuts, self.size]):
            yield slice(first, last), slice(int(self.ptr[first]), int(self.ptr[last]))

    def bags(self, m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the edges of each node once per coefficient, as bags for
        ``F.embedding_bag``: ``(edges, offsets, weights)``, all ``s`` times as long as
        the edges and the nodes. ``m`` and the edges are in this order."""
        s = m.size(1)
        edges = torch.arange(len(m))
        counts = self.ptr.diff()[:, None]  # [N, 1]
        offsets = self.ptr[:-1, None] * s + counts * torch.arange(s)  # [N, s]
        first = offsets - self.ptr[:-1, None]
        places = (first[self.index] + edges[:, None]).flatten()  # [E * s]
        index = torch.empty_like(places)
        index[places] = edges.repeat_interleave(s)
        weights = m.new_empty(len(places))
        weights[places] = m.flatten()
        return index, offsets.flatten(), weights


def weighted_bags(
    rows: Tensor, index: Tensor, offsets: Tensor | None, weights: Tensor | None
) -> Tensor:
    """Add up weighted rows, bag by bag, without writing the weighted rows down."""
    if not len(rows):
        bags = len(index) if offsets is None else len(offsets)
        return rows.new_zeros(bags, rows.size(1))
    return F.embedding_bag(
        index, rows.detach(), offsets, mode="sum", per_sample_weights=weights
    )


def row_products(a: Tensor, b: Tensor, index_a: Tensor, index_b: Tensor) -> Tensor:
    """Return ``(a[index_a] * b[index_b]).sum(-1)`` without the two gathers."""
    return torch.ops.aten._embedding_bag_per_sample_weights_backward(
        a, b, index_b, index_b[:0], index_a, 0
    )


def rows_of(index: Tensor, s: int) -> Tensor:
    """Number the ``s`` rows of each node in ``index``: ``[E]`` to ``[E, s]``."""
    return index[:, None] * s + torch.arange(s)
