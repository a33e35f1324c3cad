"""A data set: packed graphs and what a model must know about them."""

import logging
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self

import numpy as np
from torch_geometric.data import Data

from fullrank.data.packed.graphs import Field, PackedGraphs, Part, Texts
from fullrank.data.packed.loader import PackedLoader
from fullrank.data.splits import (
    Split,
    given_split,
    random_split,
    scaffold_split,
    stratified_folds,
)
from fullrank.errors import DataError

_log = logging.getLogger(__name__)
Task = Literal["regression", "binary", "multiclass", "tokens"]
METRICS: dict[str, str] = {
    "regression": "mae",
    "binary": "rocauc",
    "multiclass": "accuracy",
    "tokens": "f1",
}


@dataclass(frozen=True)
class Features:
    """What the columns of ``x`` or ``edge_attr`` mean.

    Args:
        kind: ``"float"`` numbers, ``"categorical"`` ids, or ``"none"``.
        names: One for each column.
        cardinalities: How many ids each categorical column has.
    """

    kind: Literal["float", "categorical", "none"] = "none"
    names: tuple[str, ...] = ()
    cardinalities: tuple[int, ...] = ()

    @property
    def dim(self) -> int:
        """The number of columns."""
        return len(self.names)


@dataclass(frozen=True)
class Target:
    """What is to be predicted."""

    name: str
    unit: str = ""


@dataclass(eq=False, kw_only=True)
class Description:
    """What a model must know about a set of graphs.

    Args:
        name: Of the set.
        task: What kind of prediction.
        targets: The ``T`` targets; one for multiclass and tokens.
        node_features, edge_features: The columns of ``x`` and ``edge_attr``.
        metric: ``mae``, ``rmse``, ``accuracy``, ``rocauc``, ``ap`` or ``f1``.
        default_split: ``random``, ``scaffold``, ``given`` or ``folds``.
        num_classes: For multiclass; for tokens the vocabulary, unknown and end.
        num_tokens: For tokens: how many of them are predicted.
        vocabulary: For tokens: the words by id; then come unknown and end.
        source: Where the data came from.
        notes: What became of it on the way.
    """

    name: str
    task: Task
    targets: tuple[Target, ...]
    node_features: Features
    edge_features: Features
    metric: str
    default_split: str = "random"
    num_classes: int | None = None
    num_tokens: int | None = None
    vocabulary: tuple[str, ...] = ()
    source: str = ""
    notes: Mapping[str, Any] | None = None


@dataclass(eq=False, kw_only=True)
class GraphDataset(Description):
    """Packed graphs with their task.

    Args:
        graphs: The graphs; their field ``y`` holds the targets. Regression and binary:
            floats ``[B, T]`` where NaN is missing. Multiclass: integers ``[B]``.
            Tokens: integers ``[B, num_tokens]``.
    """

    graphs: PackedGraphs

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, index: int) -> Data:
        return self.graphs[index]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.name!r}, {len(self)} graphs, {self.task}, "
            f"{len(self.targets)} targets)"
        )

    @property
    def fingerprint(self) -> str:
        import hashlib

        d = hashlib.sha256()
        for k in sorted(self.graphs.arrays):
            d.update(k.encode())
            d.update(self.graphs.arrays[k].tobytes())
        d.update(repr((self.task, self.targets)).encode())
        return d.hexdigest()

    @property
    def featurizer(self):
        if "smiles" in str(list(self.graphs.arrays)):
            from fullrank.data.featurizers import MoleculeFeaturizer

            return MoleculeFeaturizer()
        from fullrank.data.featurizers import GraphFeaturizer

        return GraphFeaturizer(
            node_features=self.node_features, edge_features=self.edge_features
        )

    @property
    def labels(self) -> np.ndarray:
        """The targets of all graphs as they are stored: ``[G, T]`` or ``[G]``."""
        columns = self.graphs.fields["y"].parts[0].columns
        stored = self.graphs.array("graph.y")
        return stored if columns is None else stored[:, columns]

    def texts(self, name: str) -> Texts:
        """One string a graph, such as ``"smiles"``."""
        return self.graphs.texts(name)

    def select_targets(self, names: Sequence[str]) -> "GraphDataset":
        """The same set with only these targets, in this order."""
        known = [target.name for target in self.targets]
        for name in names:
            if name not in known:
                raise DataError(f"no target {name!r}; there are {', '.join(known)}")
        chosen = [known.index(name) for name in names]
        y = self.graphs.fields["y"]
        before = y.parts[0].columns or range(len(known))
        part = Part("graph.y", columns=tuple(before[c] for c in chosen))
        given_out = {**self.graphs.fields, "y": Field((part,), y.dtype)}
        # A plain set: an evaluator of its own is for all of its targets.
        kept = {f.name: getattr(self, f.name) for f in fields(GraphDataset)}
        kept["graphs"] = replace(self.graphs, fields=given_out)
        kept["targets"] = tuple(self.targets[c] for c in chosen)
        return GraphDataset(**kept)

    def with_graphs(self, graphs: PackedGraphs) -> Self:
        """The same task on other graphs, such as these with something added."""
        changed = copy(self)
        changed.graphs = graphs
        return changed

    def split(self, kind: str | None = None, seed: int = 0) -> Split:
        """Training, validation and test graphs; by default in the set's own way."""
        kind = kind or self.default_split
        if kind == "random":
            split = random_split(len(self), seed=seed)
        elif kind == "scaffold":
            split = scaffold_split(self.texts("smiles"))
        elif kind == "given" and "graph.split" in self.graphs.arrays:
            split = given_split(self.graphs.array("graph.split"), {"kind": "given"})
        else:
            raise DataError(
                f"{self.name} has no split {kind!r}; it can be 'random', 'scaffold' "
                f"for molecules, 'given' where the set has one, or use folds()"
            )
        return self._report_leaks(split)

    def leaks(self, split: Split) -> list[str]:
        """The molecules, as canonical SMILES, that are in training and in testing."""
        if "text.canonical.utf8" not in self.graphs.arrays:
            return []
        canonical = self.texts("canonical")
        seen = {canonical[i] for i in split.train}
        return sorted(seen & {canonical[i] for i in split.test})

    def _report_leaks(self, split: Split) -> Split:
        found = self.leaks(split)
        if not found:
            return split
        _log.warning(
            "%d molecules of %s are in training and in testing, such as %s",
            len(found),
            self.name,
            found[0],
        )
        return replace(split, how={**split.how, "in train and test": found})

    def folds(self, k: int = 10, seed: int = 0) -> list[Split]:
        """``k`` folds, stratified on the labels of a multiclass set."""
        if self.task != "multiclass":
            raise DataError(
                f"folds are stratified on classes; {self.name} is {self.task}"
            )
        return stratified_folds(self.labels, k, seed)

    def loader(self, indices: np.ndarray | None = None, **options: Any) -> PackedLoader:
        """Batches of these graphs; the options are those of `PackedLoader`."""
        return PackedLoader(self.graphs, indices, **options)


def described(info: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `Description` out of what JSON holds of them."""
    arguments = dict(info)
    arguments["targets"] = tuple(Target(**target) for target in info["targets"])
    arguments["vocabulary"] = tuple(info["vocabulary"])
    for features in ("node_features", "edge_features"):
        entry = info[features]
        arguments[features] = Features(
            entry["kind"], tuple(entry["names"]), tuple(entry["cardinalities"])
        )
    return arguments
