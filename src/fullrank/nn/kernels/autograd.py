"""Kernels as functions that autograd and ``torch.func`` differentiate and batch.

A kernel brings its value and its first gradient. Everything else that may be asked of
it, from second derivatives to tangents and batches, comes from the same function by
ordinary operations. So nothing has to find out under which transform it runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor


class Kernel:
    """A sum over edges. ``args`` are tensors, numbers or :obj:`None`."""

    #: How many tensors the forward pass leaves for the backward pass.
    kept: ClassVar[int] = 0

    @staticmethod
    def forward(*args: Any) -> tuple[Tensor, ...]:
        """Return the sum, and what is kept."""
        raise NotImplementedError

    @staticmethod
    def backward(
        needed: Sequence[bool], grad: Tensor, *args_and_kept: Any
    ) -> tuple[Any, ...]:
        """Return a gradient for each of ``args``, or :obj:`None` where none is
        needed."""
        raise NotImplementedError


def apply(kernel: type[Kernel], function: Callable[..., Tensor], *args: Any) -> Tensor:
    """Run a kernel for a function that computes the same by ordinary operations."""
    return _Function.apply(_Sum(kernel, function), *args)[0]


def is_in_memory(x: Tensor) -> bool:
    """Whether a tensor lies plainly in memory: it is not sparse, and no
    transform, of ``torch.func`` or by ``is_grads_batched``, has wrapped it."""
    try:
        x.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return False
    return True


@dataclass(frozen=True)
class _Sum:
    """The value of a kernel."""

    kernel: type[Kernel]
    function: Callable[..., Tensor]

    @property
    def kept(self) -> int:
        return self.kernel.kept

    def run(self, *args: Any) -> tuple[Tensor, ...]:
        return self.kernel.forward(*args)

    def portable(self, *args: Any) -> tuple[Tensor, ...]:
        return (self.function(*args),)

    def vjp(
        self, needed: Sequence[bool], grads: Sequence[Tensor], *saved: Any
    ) -> tuple[Tensor, ...]:
        return _Function.apply(_Gradient(self, tuple(needed)), grads[0], *saved)


@dataclass(frozen=True)
class _Gradient:
    """The gradients of a kernel with respect to the arguments that need one."""

    of: _Sum
    needed: tuple[bool, ...]
    kept: ClassVar[int] = 0

    def run(self, grad: Tensor, *saved: Any) -> tuple[Tensor, ...]:
        if not is_in_memory(grad):  # is_grads_batched
            return self.portable(grad, *saved)
        found = self.of.kernel.backward(self.needed, grad.contiguous(), *saved)
        pairs = zip(found, self.needed, strict=True)
        return tuple(x for x, need in pairs if need)

    def portable(self, grad: Tensor, *saved: Any) -> tuple[Tensor, ...]:
        args = saved[: len(self.needed)]
        return _vjp(self.of.portable, self.needed, (grad,), *args)

    def vjp(
        self, needed: Sequence[bool], grads: Sequence[Tensor | None], *args: Any
    ) -> tuple[Tensor, ...]:
        _, *saved = args
        like = [x for x, need in zip(saved, self.needed, strict=False) if need]
        pairs = zip(like, grads, strict=True)
        full = [torch.zeros_like(x) if grad is None else grad for x, grad in pairs]
        return _vjp(self.portable, needed, full, *args)


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(function, *args):
        return function.run(*args)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.function, *args = inputs
        kept = output[len(output) - ctx.function.kept :]
        ctx.mark_non_differentiable(*kept)
        ctx.set_materialize_grads(False)  # what is kept is large, and has none
        ctx.others = [None if isinstance(arg, Tensor) else arg for arg in args]
        tensors = [arg if isinstance(arg, Tensor) else None for arg in args]
        ctx.save_for_backward(*tensors, *kept)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx, *grads):
        _, *needed = ctx.needs_input_grad
        if all(grad is None for grad in grads):
            return None, *(None for _ in needed)
        args, kept = _arguments(ctx)
        found = iter(ctx.function.vjp(needed, grads, *args, *kept))
        return None, *(next(found) if need else None for need in needed)

    @staticmethod
    def jvp(ctx, _, *tangents):
        args, _ = _arguments(ctx)
        found = _jvp(ctx.function.portable, tangents, *args)
        return *found, *(None,) * ctx.function.kept

    @staticmethod
    def vmap(info, in_dims, function, *args):
        found = torch.vmap(function.portable, in_dims[1:])(*args)
        unused = (found[0].new_empty(0),) * function.kept  # portable needs nothing kept
        return (*found, *unused), (0,) * len(found) + (None,) * function.kept


def _arguments(ctx) -> tuple[list[Any], Sequence[Tensor]]:
    """Return the arguments of a function, and what its forward pass kept."""
    saved, count = ctx.saved_tensors, len(ctx.others)
    pairs = zip(saved[:count], ctx.others, strict=True)
    return [other if x is None else x for x, other in pairs], saved[count:]


def _vjp(
    function: Callable[..., tuple[Tensor, ...]],
    needed: Sequence[bool],
    grads: Sequence[Tensor],
    *args: Any,
) -> tuple[Tensor, ...]:
    """The gradients of a function with respect to the needed arguments."""
    of_chosen, chosen = _of_chosen(function, needed, args)
    _, pull, *_ = torch.func.vjp(of_chosen, *chosen)
    return pull(tuple(grads))


def _jvp(
    function: Callable[..., tuple[Tensor, ...]],
    tangents: Sequence[Tensor | None],
    *args: Any,
) -> tuple[Tensor, ...]:
    """The tangents of a function: the transpose of its gradients, which are linear in
    what they are given. (``torch.func.jvp`` refuses to run within a dual level.)"""
    given = [tangent is not None for tangent in tangents]
    of_chosen, chosen = _of_chosen(function, given, args)

    def gradients(*grads: Tensor) -> tuple[Tensor, ...]:
        return torch.func.vjp(of_chosen, *chosen)[1](grads)

    zeros = [torch.zeros_like(x) for x in of_chosen(*chosen)]
    _, push, *_ = torch.func.vjp(gradients, *zeros)
    return push(tuple(tangent for tangent in tangents if tangent is not None))


def _of_chosen(
    function: Callable[..., tuple[Tensor, ...]], flags: Sequence[bool], args: Sequence
) -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor]]:
    """Return a function of the chosen arguments alone, and those arguments."""
    places = [i for i, flag in enumerate(flags) if flag]

    def of_chosen(*chosen: Tensor) -> tuple[Tensor, ...]:
        full = list(args)
        for place, value in zip(places, chosen, strict=True):
            full[place] = value
        return function(*full)

    return of_chosen, [args[place] for place in places]
