"""Kernels as torch operators, with derivatives of any order and mode.

A kernel implements a sum and its first gradient. Both become operators of
``torch.library``, which ``torch.compile`` does not trace into, called from a function
that autograd and ``torch.func`` differentiate and batch. Everything else (second
derivatives, tangents, batches) is derived from the same sum in ordinary operations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual


class Kernel:
    """A sum over pairs. ``args`` are tensors, numbers or :obj:`None`."""

    @staticmethod
    def keep(*args: Any) -> list[Tensor]:
        """Allocate the tensors that the backward pass needs besides ``args``."""
        return []

    @staticmethod
    def forward(kept: list[Tensor], *args: Any) -> Tensor:
        """Return the sum, and fill the tensors of :meth:`keep`."""
        raise NotImplementedError

    @staticmethod
    def backward(
        needed: Sequence[bool], grad: Tensor, kept: list[Tensor], *args: Any
    ) -> tuple[Any, ...]:
        """Return a contiguous gradient for each of ``args``, or :obj:`None` where none
        is needed."""
        raise NotImplementedError


@dataclass(frozen=True)
class Operator:
    """A sum by a kernel.

    Attributes:
        function: The same sum in ordinary operations.
        forward: Maps ``args`` to the sum and the kept tensors.
        backward: Maps ``needed``, the gradient, the kept tensors and ``args`` to the
            needed gradients.
    """

    function: Callable[..., Tensor]
    forward: Callable[..., list[Tensor]]
    backward: Callable[..., list[Tensor]]

    def __call__(self, *args: Any) -> Tensor:
        if torch.compiler.is_compiling():
            return self.forward(*args)[0]
        return _apply(_Sum(self), *args)[0]


def register(
    prefix: str, function: Callable[..., Tensor], kernel: type[Kernel]
) -> Operator:
    """Register a kernel for ``function`` with torch as ``fullrank::{prefix}_...``."""
    name = f"fullrank::{prefix}_{function.__name__}"
    schema = torch.library.infer_schema(function, mutates_args=())
    arguments = schema[1 : schema.rindex(")")]

    def forward(*args: Any) -> list[Tensor]:
        kept = kernel.keep(*args)
        return [kernel.forward(kept, *args), *kept]

    def fake_forward(*args: Any) -> list[Tensor]:
        return [function(*args), *kernel.keep(*args)]

    def backward(
        needed: list[bool], grad: Tensor, kept: list[Tensor], *args: Any
    ) -> list[Tensor]:
        found = kernel.backward(needed, grad.contiguous(), kept, *args)
        return [x for x, need in zip(found, needed, strict=True) if need]

    def fake_backward(
        needed: list[bool], grad: Tensor, kept: list[Tensor], *args: Any
    ) -> list[Tensor]:
        pairs = zip(args, needed, strict=True)
        return [x.new_empty(x.shape) for x, need in pairs if need]

    def differentiate(ctx, grads):
        args, kept = _saved(ctx)
        needed = list(ctx.needs_input_grad)
        found = iter(operator.backward(needed, grads[0], kept, *args))
        return tuple(next(found) if need else None for need in needed)

    def setup_context(ctx, inputs, output):
        _save(ctx, inputs, output[1:])

    for which, body, fake, signature in (
        (name, forward, fake_forward, arguments),
        (
            f"{name}_backward",
            backward,
            fake_backward,
            f"bool[] needed, Tensor grad, Tensor[] kept, {arguments}",
        ),
    ):
        torch.library.define(which, f"({signature}) -> Tensor[]")
        torch.library.impl(which, "default", body)
        torch.library.register_fake(which, fake)
    # Only for torch.compile, which cannot trace _Function because of its tangents; here
    # they would silently be zero.
    torch.library.register_autograd(name, differentiate, setup_context=setup_context)
    namespace = torch.ops.fullrank
    short = name.removeprefix("fullrank::")
    operator = Operator(
        function, getattr(namespace, short), getattr(namespace, f"{short}_backward")
    )
    return operator


def is_in_memory(x: Tensor) -> bool:
    """Whether a tensor is neither sparse nor wrapped by a transform (``torch.func`` or
    ``is_grads_batched``)."""
    try:
        x.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return False
    return True


def has_tangent(x: Tensor) -> bool:
    """Whether a tensor is a dual number of forward-mode differentiation."""
    return unpack_dual(x).tangent is not None


class _Probe(torch.autograd.Function):
    """A function that ``torch.func`` rejects, because it has no ``setup_context``."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()


@torch.compiler.assume_constant_result
def is_transformed() -> bool:
    """Whether a transform of ``torch.func`` is being traced by ``torch.compile``."""
    try:
        _Probe.apply(torch.ones(()))
    except RuntimeError:
        return True
    return False


@dataclass(frozen=True)
class _Sum:
    """The value of a kernel, and the kept tensors."""

    operator: Operator

    def run(self, *args: Any) -> tuple[Tensor, ...]:
        return tuple(self.operator.forward(*args))

    def ordinary(self, *args: Any) -> tuple[Tensor, ...]:
        return (self.operator.function(*args),)

    def vjp(
        self,
        needed: Sequence[bool],
        grads: Sequence[Tensor],
        args: list[Any],
        kept: list[Tensor],
    ) -> tuple[Tensor, ...]:
        gradient = _Gradient(self, tuple(needed), len(kept))
        return _apply(gradient, grads[0], *kept, *args)


@dataclass(frozen=True)
class _Gradient:
    """The gradients of a kernel with respect to the arguments that need one."""

    of: _Sum
    needed: tuple[bool, ...]
    num_kept: int

    def run(self, grad: Tensor, *saved: Any) -> tuple[Tensor, ...]:
        if not is_in_memory(grad):  # is_grads_batched
            return self.ordinary(grad, *saved)
        kept, args = list(saved[: self.num_kept]), saved[self.num_kept :]
        return tuple(self.of.operator.backward(list(self.needed), grad, kept, *args))

    def ordinary(self, grad: Tensor, *saved: Any) -> tuple[Tensor, ...]:
        return _vjp(self.of.ordinary, self.needed, (grad,), *saved[self.num_kept :])

    def vjp(
        self,
        needed: Sequence[bool],
        grads: Sequence[Tensor | None],
        args: list[Any],
        kept: list[Tensor],
    ) -> tuple[Tensor, ...]:
        _, *saved = args
        pairs = zip(saved[self.num_kept :], self.needed, strict=True)
        like = [x for x, need in pairs if need]
        full = [
            torch.zeros_like(x) if grad is None else grad
            for x, grad in zip(like, grads, strict=True)
        ]
        return _vjp(self.ordinary, needed, full, *args)


def _apply(function: _Sum | _Gradient, *args: Any) -> tuple[Tensor, ...]:
    tensors = [x for x in args if isinstance(x, Tensor)]
    # A wrapped tensor may hide tangents.
    dual = any(not is_in_memory(x) or has_tangent(x) for x in tensors)
    return _Function.apply(function, dual, *args)


class _Function(torch.autograd.Function):
    """Runs a :class:`_Sum` or a :class:`_Gradient`; ``dual`` says whether there may be
    tangents, which are not visible inside a function."""

    @staticmethod
    def forward(function, dual, *args):
        return function.run(*args)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.function, dual, *args = inputs
        kept = output[1:] if isinstance(ctx.function, _Sum) else ()
        ctx.mark_non_differentiable(*kept)
        _save(ctx, args, kept)
        if dual:  # otherwise this would keep tensors that checkpointing frees
            ctx.save_for_forward(*(x if isinstance(x, Tensor) else None for x in args))

    @staticmethod
    def backward(ctx, *grads):
        _, _, *needed = ctx.needs_input_grad
        if all(grad is None for grad in grads):
            return None, None, *(None for _ in needed)
        found = iter(ctx.function.vjp(needed, grads, *_saved(ctx)))
        return None, None, *(next(found) if need else None for need in needed)

    @staticmethod
    def jvp(ctx, _function, _dual, *tangents):
        args, _ = _saved(ctx)
        found = _jvp(ctx.function.ordinary, tangents, *args)
        return *found, *(None,) * ctx.num_kept

    @staticmethod
    def vmap(info, in_dims, function, dual, *args):
        found = torch.vmap(function.ordinary, in_dims[2:])(*args)
        return found, (0,) * len(found)  # ordinary operations keep what they need


def _save(ctx, args: Sequence[Any], kept: Sequence[Tensor]) -> None:
    ctx.set_materialize_grads(False)  # kept tensors are large and have none
    ctx.others = [None if isinstance(arg, Tensor) else arg for arg in args]
    ctx.num_kept = len(kept)
    tensors = [arg if isinstance(arg, Tensor) else None for arg in args]
    ctx.save_for_backward(*tensors, *kept)


def _saved(ctx) -> tuple[list[Any], list[Tensor]]:
    """Return the arguments of a function, and the tensors its forward pass kept."""
    saved, count = ctx.saved_tensors, len(ctx.others)
    pairs = zip(saved[:count], ctx.others, strict=True)
    return [other if x is None else x for x, other in pairs], list(saved[count:])


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
    their input. (``torch.func.jvp`` does not run within a dual level.)"""
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
    """Return a function of only the chosen arguments, and those arguments."""
    places = [i for i, flag in enumerate(flags) if flag]

    def of_chosen(*chosen: Tensor) -> tuple[Tensor, ...]:
        full = list(args)
        for place, value in zip(places, chosen, strict=True):
            full[place] = value
        return function(*full)

    return of_chosen, [args[place] for place in places]
