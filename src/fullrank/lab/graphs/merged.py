"""Which graphs of a data set a model cannot distinguish, and the cost of that."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from fullrank.errors import ConfigError, DataError, ModelError
from fullrank.lab.graphs.isomorphism import isomorphism_classes
from fullrank.lab.precision import double, frozen_copy
from fullrank.lab.running import Runner, runner_of

TOLERANCE = 1e-9
PROJECTIONS = 8
GRAPHS_AT_ONCE = 256
OF = ("embedding", "prediction")

SAME = "the same graph"
BY_WL = "merged by 1-WL"
BY_MODEL = "merged by the model"
KINDS = (SAME, BY_WL, BY_MODEL)


@dataclass(frozen=True)
class Group:
    """Graphs that a model cannot distinguish.

    Attributes:
        kind: ``"the same graph"`` if all are isomorphic; ``"merged by 1-WL"``, and
            therefore by every layer that reads only features and edges, if some are
            not, but 1-WL cannot distinguish them either; ``"merged by the model"`` if
            it can.
        members: Their indices in the data set.
        pair: Two of them that show the kind, not isomorphic unless all are.
    """

    kind: str
    members: tuple[int, ...]
    pair: tuple[int, int]


@dataclass(frozen=True)
class Merging:
    """The graphs that a model merges in a data set.

    Attributes:
        group: The group of each graph, ``[G]``; graphs of a group have the same
            embedding.
        wl: The 1-WL class of each graph, ``[G]``; a graph that is alone in its group
            has its own class.
        same: The isomorphism class of each graph, ``[G]``, likewise.
        graphs: The graphs of the groups of more than one, by index.
        tolerance: Two embeddings are the same if no number differs by more than this
            times the largest number in them.
        coarser: Number of groups at 1000 times the tolerance; equal to that at the
            tolerance if no further graphs are almost merged.
    """

    group: Tensor
    wl: Tensor
    same: Tensor
    graphs: dict[int, Data]
    tolerance: float
    coarser: int

    def __len__(self) -> int:
        return len(self.group)

    @property
    def count(self) -> int:
        """The number of groups, including those of a single graph."""
        return _number(self.group)

    @property
    def groups(self) -> list[Group]:
        """All groups of more than one graph, the largest first."""
        members: dict[int, list[int]] = {}
        for place in sorted(self.graphs):
            members.setdefault(int(self.group[place]), []).append(place)
        found = [self._group(tuple(places)) for places in members.values()]
        return sorted(found, key=lambda group: (-len(group.members), group.members))

    def _group(self, members: tuple[int, ...]) -> Group:
        first = members[0]
        for kind, classes in ((BY_MODEL, self.wl), (BY_WL, self.same)):
            for other in members[1:]:
                if classes[other] != classes[first]:
                    return Group(kind, members, (first, other))
        return Group(SAME, members, (first, members[1]))

    def counts(self) -> dict[str, tuple[int, int]]:
        """The number of groups of each kind, and of graphs in them."""
        found = dict.fromkeys(KINDS, (0, 0))
        for group in self.groups:
            groups, graphs = found[group.kind]
            found[group.kind] = groups + 1, graphs + len(group.members)
        return found

    def best_accuracy(self, labels: Tensor, up_to: str = "group") -> float:
        """The best accuracy that any function of the embeddings can reach.

        It predicts the most frequent label of each group: the sum of their counts
        divided by the number of graphs.

        Args:
            labels: One class per graph, ``[G]``; NaN if missing.
            up_to: ``"group"``, or ``"same"`` for the best accuracy of any function of
                the graphs, which cannot assign two labels to one graph.
        """
        group, labels = self._labelled(labels, up_to)
        if not len(labels):
            raise DataError("no graph has a label")
        kinds = labels.unique(return_inverse=True)[1]
        cells = group * _number(kinds) + kinds
        cell, count = cells.unique(return_counts=True)
        best = torch.zeros(_number(group), dtype=torch.long)
        best = best.scatter_reduce(0, cell // _number(kinds), count, "amax")
        return int(best.sum()) / len(labels)

    def least_squared_error(self, labels: Tensor, up_to: str = "group") -> float:
        """The least mean squared error that any function of the embeddings can reach:
        the variance of the labels within the groups.

        Args:
            labels: One number per graph, ``[G]``; NaN if missing.
            up_to: As in :meth:`best_accuracy`.
        """
        group, labels = self._labelled(labels.double(), up_to)
        if not len(labels):
            raise DataError("no graph has a label")
        size = torch.zeros(_number(group), dtype=torch.double)
        size = size.index_add(0, group, torch.ones_like(labels)).clamp(min=1)
        total = torch.zeros_like(size).index_add(0, group, labels)
        return float(((labels - (total / size)[group]) ** 2).mean())

    def _labelled(self, labels: Tensor, up_to: str) -> tuple[Tensor, Tensor]:
        if up_to not in ("group", "same"):
            raise ConfigError(f"up_to must be 'group' or 'same', got {up_to!r}")
        classes = getattr(self, up_to).unique(return_inverse=True)[1]
        labels = labels.flatten().cpu()
        if len(labels) != len(self):
            raise DataError(f"{len(labels)} labels for {len(self)} graphs")
        known = ~labels.isnan() if labels.is_floating_point() else slice(None)
        return classes[known], labels[known]

    def __str__(self) -> str:
        lines = [
            f"{len(self)} graphs, {self.count} different to the model "
            f"({self.coarser} at {1000 * self.tolerance:g} instead of "
            f"{self.tolerance:g})"
        ]
        for kind, (groups, graphs) in self.counts().items():
            lines.append(f"  {kind}: {groups} groups of {graphs} graphs")
        return "\n".join(lines)


@torch.no_grad()
def merged(
    model: torch.nn.Module,
    dataset: Iterable[Data],
    of: str = "embedding",
    tolerance: float = TOLERANCE,
    call: Runner | None = None,
    progress: Callable[[int], object] | None = None,
) -> Merging:
    """Find the graphs of a data set with the same embedding.

    The model runs as a copy in float64 and evaluation mode. Embeddings are sorted along
    random projections and compared with the next ones; finally every graph is compared
    with the first of its group, number by number.

    Graphs are the same if they are isomorphic with all features of nodes (``x``, ``z``,
    ``node_type``) and edges (``edge_attr``, ``edge_weight``, ``edge_type``).

    Args:
        model: Takes a PyG batch and returns one row per graph.
        dataset: Graphs, or batches of graphs; iterated once.
        of: ``"embedding"``, the input of the model's ``head`` if it has one and its
            output otherwise, or ``"prediction"``, its output.
        tolerance: Maximum difference of two embeddings, relative to the largest number
            in them.
        call: Runs the model, ``call(model, batch)``; ``model(batch)`` by default.
        progress: Called with the number of graphs done so far.
    """
    embed = embedder(frozen_copy(model), of, runner_of(model, call))
    rows, kept, done = [], [], 0
    for batch in batches(dataset):
        rows.append(embed(double(batch)))
        kept.append(batch)
        done += batch.num_graphs
        if progress is not None:
            progress(done)
    if not rows:
        raise DataError("there are no graphs to embed")
    embedding = torch.cat(rows)
    if not embedding.isfinite().all():
        raise ModelError("the model embeds some graphs as NaN or infinity")
    group = group_rows(embedding, tolerance)
    places, graphs = _graphs_of_groups(group, kept)
    wl, same = torch.arange(len(group)), torch.arange(len(group))
    if len(places):
        classes = isomorphism_classes(graphs)
        wl[places], same[places] = (len(group) + number for number in classes)
    coarser = _number(group_rows(embedding, 1000 * tolerance))
    by_place = dict(zip(places.tolist(), graphs, strict=True))
    return Merging(group, wl, same, by_place, tolerance, coarser)


def batches(dataset: Iterable[Data]) -> Iterator[Batch]:
    """Collect graphs into batches, in order; batches are not changed."""
    graphs: list[Data] = []
    for item in dataset:
        full = len(graphs) == GRAPHS_AT_ONCE or isinstance(item, Batch)
        if graphs and full:
            yield Batch.from_data_list(graphs)
            graphs = []
        if isinstance(item, Batch):
            yield item
        else:
            graphs.append(item)
    if graphs:
        yield Batch.from_data_list(graphs)


def embedder(model: torch.nn.Module, of: str, run: Runner) -> Callable[[Batch], Tensor]:
    """A function from a batch to one row per graph, see :func:`merged`.

    Args:
        model: A copy of the model, which may be hooked.
        of: As in :func:`merged`.
        run: Runs the model.
    """
    if of not in OF:
        raise ConfigError(f"of must be one of {', '.join(OF)}, got {of!r}")
    head = getattr(model, "head", None)
    seen: list[Tensor] = []
    if of == "embedding" and isinstance(head, torch.nn.Module):
        head.register_forward_pre_hook(lambda _, args: seen.append(args[0]))

    def embed(batch: Batch) -> Tensor:
        seen.clear()
        out = run(model, batch)
        rows = seen[-1] if seen else out
        if rows.size(0) != batch.num_graphs:
            raise ConfigError(
                f"a model must return one row for each of {batch.num_graphs} graphs, "
                f"got shape {list(rows.shape)}"
            )
        return rows.flatten(1).double().cpu()

    return embed


def group_rows(rows: Tensor, tolerance: float) -> Tensor:
    """Number rows so that rows with the same number are equal up to rounding.

    Every row is within the tolerance of the first of its group. A chain of rows that
    are each close to the next but not to the first is cut.

    Args:
        rows: ``[G, k]`` in float64.
        tolerance: Maximum difference, relative to the largest number of both rows.
    """
    size = rows.abs().amax(dim=1) if rows.size(1) else rows.new_zeros(len(rows))
    generator = torch.Generator().manual_seed(0)
    group = torch.zeros(len(rows), dtype=torch.long)
    for _ in range(PROJECTIONS):
        direction = torch.rand(rows.size(1), generator=generator, dtype=rows.dtype)
        weights = 2 * direction - 1
        reach = tolerance * float(weights.abs().sum())
        group = _cut(group, rows @ weights, size, reach)
    return _compared_with_first(group, rows, size, tolerance)


def _cut(group: Tensor, value: Tensor, size: Tensor, reach: float) -> Tensor:
    """Cut groups where sorted values are further apart than the tolerance allows."""
    order = value.argsort()
    order = order[group[order].argsort(stable=True)]
    before, after = order[:-1], order[1:]
    near = value[after] - value[before] <= reach * torch.maximum(
        size[after], size[before]
    )
    start = torch.ones(len(order), dtype=torch.long)
    start[1:] = ~(near & (group[after] == group[before]))
    out = torch.empty_like(group)
    out[order] = start.cumsum(0) - 1
    return out


def _compared_with_first(
    group: Tensor, rows: Tensor, size: Tensor, tolerance: float
) -> Tensor:
    """Move rows that are not close to the first of their group to a new group, until
    there are none."""
    while True:
        first = torch.full((_number(group),), len(rows)).scatter_reduce(
            0, group, torch.arange(len(rows)), "amin"
        )[group]
        reach = tolerance * torch.maximum(size, size[first])
        gap = (rows - rows[first]).abs()
        far = (gap > reach[:, None]).any(dim=1)
        if not far.any():
            return group.unique(return_inverse=True)[1]
        group = group + far * _number(group)
        group = group.unique(return_inverse=True)[1]


def _graphs_of_groups(group: Tensor, kept: list[Batch]) -> tuple[Tensor, list[Data]]:
    """The indices and graphs of the groups of more than one."""
    _, which, size = group.unique(return_inverse=True, return_counts=True)
    shared = size[which] > 1
    graphs, start = [], 0
    for batch in kept:
        inside = shared[start : start + batch.num_graphs].nonzero().flatten()
        if len(inside):
            graphs += batch.index_select(inside)
        start += batch.num_graphs
    return shared.nonzero().flatten(), graphs


def _number(group: Tensor) -> int:
    return int(group.max()) + 1 if len(group) else 0
