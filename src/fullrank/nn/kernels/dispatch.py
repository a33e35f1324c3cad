r"""The only code that chooses how the layers compute their sums over pairs.

============  ==================================================================
``plain``     :mod:`fullrank.nn.functional`: the paper's formula, pair by pair,
              with every module called
``portable``  :mod:`fullrank.nn.kernels.portable`: any device and precision
``cpu``       :mod:`fullrank.nn.kernels.cpu`: float32 or float64 on a CPU
``native``    :mod:`fullrank.nn.kernels.native`: the same with compiled loops, once
              they are built
``auto``      ``native`` or else ``cpu`` where they can run, ``portable`` on other
              devices, in half precision and under autocast
============  ==================================================================

All of them except ``plain`` replace modules by formulas (a linear layer by its weights,
a SumAggregation by a sum), and PyG's ``propagate`` by one function. A module that may
do more than its formula, because it has a hook or overrides ``forward``, is called
instead, and so is ``propagate`` where an explainer, a hook or a subclass needs it.
Where ordinary operations are needed (``torch.export``, ONNX, ``torch.jit.trace``, and
``torch.func`` within ``torch.compile``), the sums are those of
:mod:`fullrank.nn.kernels.sums`.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeGuard, TypeVar

import torch
from torch import Tensor
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.nn.dense.linear import Linear

from fullrank.nn.kernels import cpu, native, portable
from fullrank.nn.kernels.autograd import has_tangent, is_in_memory, is_transformed
from fullrank.nn.kernels.loops import is_built

BACKENDS = ("auto", "plain", "native", "cpu", "portable")

M = TypeVar("M", bound=torch.nn.Module)

# The methods that PyG's propagate calls for a list of edges, and their hooks.
_METHODS = ("message", "aggregate", "update")
_HOOKS = [
    f"_{stage}_forward_{when}hooks"
    for stage in ("propagate", "message", "aggregate")
    for when in ("pre_", "")
]


class backend:
    """Selects the backend of the layers, for a block of code or for the process.

    All backends compute the same up to rounding; they differ in speed and memory. A
    hook on a layer or on one of its modules, and a ``message``, ``aggregate``,
    ``update`` or module's ``forward`` that a subclass overrides, takes effect with any
    of them, at the cost of the plain formula for that part.

    >>> from fullrank.nn import backend
    >>> with backend("plain"):  # for this block, in this thread
    ...     pass
    >>> _ = backend("auto")  # for the process, outside of such blocks

    A compiled layer keeps the backend that it was compiled with.

    Args:
        name: ``"plain"`` for the paper's formula (:mod:`fullrank.nn.functional`),
            ``"cpu"`` for blocks of pairs in float32 or float64 on a CPU, ``"native"``
            for the same with compiled loops (``python -m fullrank.nn.kernels``
            builds them), ``"portable"`` for any device and precision, ``"auto"`` for
            the fastest of these that can run.
    """

    def __init__(self, name: str) -> None:
        if name not in BACKENDS:
            raise ValueError(
                f"there is no backend {name!r} (known: {', '.join(BACKENDS)})"
            )
        self.name = name
        _of_process.append(self)

    def __enter__(self) -> None:
        if self in _of_process:  # a block does not change the process
            _of_process.remove(self)
        self._token = _of_block.set(self.name)

    def __exit__(self, *_: object) -> None:
        _of_block.reset(self._token)


# The last entry is active. A list, so that threads can remove theirs in any order.
_of_process: list[backend] = []
_of_block: ContextVar[str | None] = ContextVar("fullrank.nn.backend", default=None)
backend("auto")


@torch.compiler.assume_constant_result
def current_backend() -> str:
    """Return the name of the selected backend."""
    return _of_block.get() or _of_process[-1].name


def is_plain() -> bool:
    """Whether the selected backend is ``plain``."""
    return current_backend() == "plain"


def run(function: Callable[..., Tensor], *args: Any) -> Tensor:
    """Compute one of the sums of :mod:`fullrank.nn.kernels.sums`."""
    tensors = [x for x in args if isinstance(x, Tensor)]
    name, device = current_backend(), tensors[0].device.type
    why_not = _why_not_cpu(tensors)
    if name == "native" and not is_built():
        why_not = "is not built (python -m fullrank.nn.kernels builds it)"
    if name in ("native", "cpu") and why_not is not None:
        raise ValueError(f"the backend {name!r} {why_not}; choose 'auto' or 'portable'")
    if _needs_ordinary_operations(tensors):
        return function(*args)
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        with torch.autocast(device, enabled=False):
            return run(function, *(_cast(x, dtype) for x in args))
    if name == "portable" or why_not is not None:
        return portable.OPERATORS[function](*args)
    operators = cpu.OPERATORS
    if name == "native" or (name == "auto" and is_built()):
        operators = operators | native.OPERATORS
    return operators[function](*args)


def _needs_ordinary_operations(tensors: list[Tensor]) -> bool:
    """Whether the operations are being recorded or transformed."""
    if torch.compiler.is_compiling() and not is_exporting():
        return is_transformed() or any(map(has_tangent, tensors))
    return is_exporting()


def is_exporting() -> bool:
    """Whether the operations are being exported for another runtime.

    Before torch 2.12, this is also true under ``torch.compile``, so compiled layers use
    ordinary operations there."""
    return torch.compiler.is_exporting() or torch.jit.is_tracing()


def _cast(x: Any, dtype: torch.dtype) -> Any:
    """Cast a tensor as autocast does, which does not change float64."""
    eligible = isinstance(x, Tensor) and x.is_floating_point()
    return x.to(dtype) if eligible and x.dtype != torch.float64 else x


def _why_not_cpu(tensors: list[Tensor]) -> str | None:
    """Return why the blocked kernels cannot run, or :obj:`None` if they can."""
    if torch.is_autocast_enabled("cpu"):
        return "does not work under autocast"
    devices = {x.device.type for x in tensors}
    if devices != {"cpu"}:
        return f"needs tensors on the CPU, got {', '.join(sorted(devices))}"
    dtypes = {x.dtype for x in tensors if x.is_floating_point()}
    if dtypes not in ({torch.float32}, {torch.float64}):
        names = ", ".join(sorted(map(str, dtypes)))
        return f"needs tensors in torch.float32 or torch.float64, got {names}"
    return None


def is_replaceable(module: torch.nn.Module, *kinds: type[M]) -> TypeGuard[M]:
    """Whether a module may be replaced by what one of these classes computes.

    An overridden ``forward`` or any hook (used by pruning and the older spectral norm)
    may do more; parametrisations, which act on the weights, do not.
    """
    forward = type(module).forward
    return any(forward is kind.forward for kind in kinds) and not (
        "forward" in module.__dict__
        or module._forward_pre_hooks
        or module._forward_hooks
        or module._backward_pre_hooks
        or module._backward_hooks
    )


def is_linear(module: torch.nn.Module) -> bool:
    """Whether a module may be replaced by the weights of a linear layer."""
    return is_replaceable(module, Linear, torch.nn.Linear)


def needs_propagate(conv: MessagePassing, base: type[MessagePassing]) -> bool:
    """Whether an explainer, a hook or a subclass of ``base`` needs PyG's propagate."""
    return bool(
        conv.explain
        or any(getattr(conv, hooks) for hooks in _HOOKS)
        or overrides_propagate(conv, base)
    )


def overrides_propagate(conv: MessagePassing, base: type[MessagePassing]) -> bool:
    """Whether a subclass of ``base`` overrides a part of propagate."""
    return any(getattr(type(conv), m) is not getattr(base, m) for m in _METHODS)


def reads_aggregates(conv: MessagePassing) -> bool:
    """Whether a hook receives the result of PyG's aggregate."""
    return any(getattr(conv, hooks) for hooks in _HOOKS if "aggregate" in hooks)


def is_constant(x: Tensor) -> bool:
    """Whether the values of a CPU tensor may be read: it is not differentiated,
    transformed or traced."""
    return (
        not torch.compiler.is_compiling()
        and x.device.type == "cpu"
        and not x.requires_grad
        and is_in_memory(x)
        and not has_tangent(x)
    )
