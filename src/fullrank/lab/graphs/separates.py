"""Count the graph pairs that a model distinguishes beyond rounding."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.nn import global_mean_pool

from fullrank.errors import ConfigError, ModelError
from fullrank.lab.graphs.pairs import PairSuite, relabel
from fullrank.lab.precision import double, frozen_copy
from fullrank.lab.running import Runner, runner_of

SPREAD_FACTOR = 100.0
SMALLEST_RELATIVE_GAP = 1e-9
NODES_AT_ONCE = 20_000


@dataclass(frozen=True)
class Separation:
    """Which pairs of a suite a model distinguishes.

    Attributes:
        suite: The pairs.
        gap: Distance between the two mean embeddings, shape ``[P]``.
        spread: Largest distance of a relabeled graph from its own mean, ``[P]``.
        scale: Larger norm of the two mean embeddings, ``[P]``.
    """

    suite: PairSuite
    gap: Tensor
    spread: Tensor
    scale: Tensor

    @property
    def separated(self) -> Tensor:
        """Pairs distinguished beyond what rounding can explain, shape ``[P]``."""
        beyond_relabeling = self.gap > SPREAD_FACTOR * self.spread
        return beyond_relabeling & (self.gap > SMALLEST_RELATIVE_GAP * self.scale)

    @property
    def count(self) -> int:
        return int(self.separated.sum())

    def by_group(self) -> dict[str, tuple[int, int]]:
        """For each category: the numbers of distinguished pairs and of all pairs."""
        told = self.suite.count_by_group(self.separated)
        total = Counter(self.suite.groups)
        return {group: (told[group], total[group]) for group in total}

    def __str__(self) -> str:
        return f"{self.count} of {len(self.suite)} pairs of {self.suite.name}"


@torch.no_grad()
def separates(
    model: torch.nn.Module,
    suite: PairSuite,
    relabelings: int = 32,
    transform: Callable[[Batch], Batch] | None = None,
    seed: int = 0,
    call: Runner | None = None,
) -> Separation:
    """Embed every graph under many relabelings and compare the pairs of a suite.

    The model runs as a copy, in float64 and evaluation mode. A pair counts as
    distinguished if the gap between its mean embeddings exceeds both 100 times the
    spread that relabeling causes and 1e-9 of their norm: rounding is never counted as
    expressiveness.

    Args:
        model: Takes a PyG batch and returns one row per graph; or a layer.
        suite: The pairs.
        relabelings: Number of random relabelings per graph.
        transform: Applied to each batch after relabeling, for features computed from
            the structure: features that are not invariant appear as spread.
        seed: Seed of the relabelings.
        call: Runs the model, ``call(model, batch)``; ``model(batch)`` by default. For a
            module that returns one row per node, such as a layer, their mean is
            compared.
    """
    if relabelings < 2:
        raise ConfigError(f"relabelings must be at least 2, got {relabelings}")
    model, run = frozen_copy(model), runner_of(model, call)
    generator = torch.Generator().manual_seed(seed)
    means, spreads = [], []
    for batch in _batches(suite.graphs):
        rows = []
        for _ in range(relabelings):
            relabeled = relabel(batch, generator)
            out = run(model, transform(relabeled) if transform else relabeled)
            rows.append(_per_graph(out, batch))
        embeddings = torch.stack(rows)  # [R, G, k]
        mean = embeddings.mean(dim=0)
        means.append(mean)
        spreads.append((embeddings - mean).norm(dim=-1).amax(dim=0))
    first, second = suite.pairs.T
    mean, spread = torch.cat(means), torch.cat(spreads)
    if not mean.isfinite().all():
        raise ModelError("the model embeds some graphs as NaN or infinity")
    return Separation(
        suite,
        gap=(mean[first] - mean[second]).norm(dim=-1),
        spread=torch.maximum(spread[first], spread[second]),
        scale=torch.maximum(mean[first].norm(dim=-1), mean[second].norm(dim=-1)),
    )


def _per_graph(out: Tensor, batch: Batch) -> Tensor:
    """One row for each graph: the graph's, or the mean of its nodes' rows."""
    if out.dim() == 0 or out.size(0) not in (batch.num_graphs, batch.num_nodes):
        raise ConfigError(
            f"a model must return a row for each of {batch.num_graphs} graphs or "
            f"{batch.num_nodes} nodes, got shape {list(out.shape)}"
        )
    rows = out.reshape(out.size(0), -1)
    if len(rows) == batch.num_graphs:
        return rows
    return global_mean_pool(rows, batch.batch, batch.num_graphs)


def _batches(graphs: list[Data]) -> Iterator[Batch]:
    """Collect consecutive graphs into batches of bounded size, in float64."""
    chunk: list[Data] = []
    nodes = 0
    for graph in graphs:
        if chunk and nodes + graph.num_nodes > NODES_AT_ONCE:
            yield double(Batch.from_data_list(chunk))
            chunk, nodes = [], 0
        chunk.append(graph)
        nodes += graph.num_nodes
    yield double(Batch.from_data_list(chunk))
