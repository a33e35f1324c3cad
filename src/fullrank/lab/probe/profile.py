"""The rank that a layer keeps, and the number of neighbours it sums, for each node.

Coefficients are read if the layer is ours. Any other PyG layer is probed by the
Jacobian of its output with respect to each neighbour.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import cumsum, degree

from fullrank.errors import DataError
from fullrank.lab.precision import frozen_copy
from fullrank.lab.probe.calls import Call, record_calls
from fullrank.lab.probe.jacobian import has_fixed_weights, neighbor_slopes
from fullrank.lab.probe.neighborhood import batch_of
from fullrank.lab.running import Runner
from fullrank.lab.theory.coefficient_rank import ranks
from fullrank.nn import CombConv
from fullrank.nn.conv.base import RankConv

RTOL = 1e-5
MAX_NODES = 200
READ = "coefficients"
FIXED = "jacobian"
MOVING = "moving jacobian"
QUANTITIES = (
    "rank M",
    "rank H",
    "rank R",
    "kept",
    "rank J",
    "rank J (moving)",
    "sampling",
)


@dataclass(frozen=True)
class LayerProfile:
    """Measurements of one layer; all tensors have one entry per probed node.

    Attributes:
        name: Name of the layer in the model.
        kind: Class of the layer.
        how: ``"coefficients"`` if M was read; ``"jacobian"`` if it was probed with the
            weights of the neighbours held fixed; ``"moving jacobian"`` if the weights
            could not be held fixed, which is a different quantity that cannot be
            compared; otherwise why nothing could be measured.
        size: Number of neighbours n; for layers that were read it counts the node
            itself, as :math:`\\mathcal{N}(v)` does.
        values: The measured quantities by name: ``rank M``, ``rank H``, ``rank R``,
            ``kept``, ``rank J``, ``rank J (moving)`` and the effective ranks. R = M H
            and the rank kept are defined for layers that form M H: those without
            Re-SUM.
        sampling: For Re-SUM layers, the fraction of neighbours that each dimension sums
            over, ``[N, out]``.
    """

    name: str
    kind: str
    how: str
    size: Tensor
    values: dict[str, Tensor] = field(default_factory=dict)
    sampling: Tensor | None = None

    def mean(self, quantity: str) -> float:
        """Mean over the nodes; ``sampling`` is one of the quantities."""
        return float(self._per_node(quantity).double().mean())

    def by_degree(self, quantity: str) -> dict[int, float]:
        """Mean over the nodes of each neighbourhood size."""
        values = self._per_node(quantity).double()
        sizes = self.size.unique().tolist()
        return {n: float(values[self.size == n].mean()) for n in sizes}

    def quantities(self) -> list[str]:
        """The quantities that :meth:`mean` and :meth:`by_degree` accept."""
        return [*self.values, *(["sampling"] if self.sampling is not None else [])]

    def why_not(self, quantity: str) -> str:
        """Why a quantity was not measured for this layer; empty if it was."""
        if quantity in self.quantities():
            return ""
        if self.how not in (READ, FIXED, MOVING):
            return self.how
        if quantity in ("rank R", "kept") and self.how == READ:
            return (
                "sums messages after the MLP, never M H"
                if "rank H" in self.values
                else "weighs each dimension on its own"
            )
        if quantity.startswith("rank J"):
            return "M was read" if self.how == READ else f"probed as {self.how}"
        if quantity == "sampling":
            return "no ReLU before the sum"
        if quantity == "rank H":
            return "weighs each dimension on its own"
        return "M cannot be read" if quantity in QUANTITIES else "unknown quantity"

    def _per_node(self, quantity: str) -> Tensor:
        if quantity == "sampling" and self.sampling is not None:
            return self.sampling.mean(dim=1)
        if quantity not in self.values:
            raise ValueError(
                f"{self.name} has no {quantity!r} ({self.why_not(quantity)}); choose "
                f"one of {', '.join(self.quantities())}"
            )
        return self.values[quantity]


@torch.no_grad()
def profile(
    model: torch.nn.Module,
    batch: Data,
    rtol: float = RTOL,
    max_nodes: int = MAX_NODES,
    call: Runner | None = None,
) -> list[LayerProfile]:
    """Measure every convolution of a model, or one layer, on a batch of graphs.

    The model runs once, in evaluation mode and its own precision, to see what reaches
    each convolution; the ranks are then computed in float64.

    Args:
        model: A model, or a layer called as ``layer(x, edge_index[, edge_attr])``.
        batch: A PyG graph or batch.
        rtol: Relative tolerance of all ranks; it must exceed the precision of the
            model.
        max_nodes: Maximum number of nodes that are probed by a Jacobian, drawn at
            random.
        call: Runs the model, ``call(model, batch)``; ``model(batch)`` by default.
    """
    calls = record_calls(model, batch, call)
    return [profile_call(recorded, rtol, max_nodes) for recorded in calls]


def profile_call(
    call: Call, rtol: float = RTOL, max_nodes: int = MAX_NODES
) -> LayerProfile:
    """Measure one convolution on the arguments of its call."""
    if isinstance(call.conv, RankConv):
        return _profile_coefficients(call, rtol)
    return _profile_jacobian(call, rtol, max_nodes)


def _profile_coefficients(call: Call, rtol: float) -> LayerProfile:
    """Read M_v and H_v of every node, and R_v = M_v H_v if the layer forms it."""
    conv = frozen_copy(call.conv)
    assert isinstance(conv, RankConv)
    call = call.double()
    inputs = call.x, call.edge_index, call.edge_attr
    local = conv.neighborhoods(*inputs, **call.extra)
    coefficients = conv.read_coefficients(local)
    count = len(local.x_dst)
    size = degree(local.dst, count, dtype=torch.long)
    values: dict[str, Tensor] = {}
    grouped = _Grouped(local.dst, size)
    grouped.measure("M", values, rtol, lambda rows: coefficients[rows].mT)
    if not isinstance(conv, CombConv):
        features = local.neighbors()
        grouped.measure("H", values, rtol, lambda rows: features[rows])
    if not (conv.re_sum or isinstance(conv, CombConv)):
        grouped.measure(
            "R", values, rtol, lambda rows: coefficients[rows].mT @ features[rows]
        )
        values["kept"] = values["rank R"] / values["rank H"].clamp(min=1)
    sampling = None
    if conv.re_sum and _ends_in_relu(conv.mlp):
        messages, _ = conv.messages(*inputs, **call.extra)
        active = (messages > 0).double()
        summed = active.new_zeros(count, active.size(1)).index_add(0, local.dst, active)
        sampling = summed / size.clamp(min=1).unsqueeze(1)
    kind = type(call.conv).__name__
    return LayerProfile(call.name, kind, READ, size, values, sampling)


def _ends_in_relu(mlp: torch.nn.Module) -> bool:
    return isinstance([*mlp.modules()][-1], torch.nn.ReLU)


class _Grouped:
    """Nodes grouped by the size of their neighbourhood, to compute ranks in batches.

    Args:
        dst: The node that each pair belongs to.
        size: Number of pairs of each node.
    """

    def __init__(self, dst: Tensor, size: Tensor):
        order = dst.argsort(stable=True)
        start = cumsum(size)[:-1]
        self.size = size
        self.groups: list[tuple[Tensor, Tensor]] = []
        for n in size[size > 0].unique():
            nodes = (size == n).nonzero().flatten()
            rows = order[start[nodes].unsqueeze(1) + torch.arange(int(n))]  # [B, n]
            self.groups.append((nodes, rows))

    def measure(
        self,
        letter: str,
        values: dict[str, Tensor],
        rtol: float,
        matrices: Callable[[Tensor], Tensor],
    ) -> None:
        """Add rank and effective rank of the matrices of all nodes to `values`."""
        rank = torch.zeros_like(self.size)
        effective = torch.zeros(len(self.size), dtype=torch.float64)
        for nodes, rows in self.groups:
            rank[nodes], effective[nodes] = ranks(matrices(rows), rtol)
        values[f"rank {letter}"] = rank
        values[f"effective rank {letter}"] = effective


def _profile_jacobian(call: Call, rtol: float, max_nodes: int) -> LayerProfile:
    """Unfold the Jacobian of some nodes' outputs over their neighbours."""
    if call.unknown:
        how = f"a neighbourhood alone has no {', '.join(call.unknown)}"
        return LayerProfile(call.name, type(call.conv).__name__, how, torch.empty(0))
    conv = frozen_copy(call.conv)
    call = call.double()
    stars = [call.neighborhood(node) for node in _draw_nodes(call, max_nodes).tolist()]
    union = batch_of(stars)
    how = FIXED if has_fixed_weights(conv, union, call.run) else MOVING
    with torch.enable_grad():
        slopes = neighbor_slopes(conv, union, call.run)  # [N, out * in]
    size = torch.tensor([len(star) - 1 for star in stars])
    # In each star the centre comes first and the neighbours follow.
    star = torch.arange(len(stars)).repeat_interleave(size)
    place = torch.arange(len(star)) - cumsum(size)[star]
    pairs = union.ptr[star] + 1 + place
    grouped = _Grouped(star, size)
    values: dict[str, Tensor] = {}
    letter = "J" if how == FIXED else "J (moving)"
    grouped.measure(letter, values, rtol, lambda rows: slopes[pairs[rows]])
    grouped.measure("H", values, rtol, lambda rows: union.x[pairs[rows]])
    return LayerProfile(call.name, type(call.conv).__name__, how, size, values)


def _draw_nodes(call: Call, max_nodes: int) -> Tensor:
    source, target = call.edge_index
    nodes = target[source != target].unique()
    if not len(nodes):
        raise DataError(
            f"{call.name} cannot be probed: no node of the batch has a neighbour"
        )
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randperm(len(nodes), generator=generator)[:max_nodes]
    return nodes[drawn].sort().values
