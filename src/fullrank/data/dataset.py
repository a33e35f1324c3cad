"""A data set: packed graphs and what a model must know about them."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import TypeAdapter, ValidationError

from fullrank.data.features import Features
from fullrank.data.featurizers import AnyFeaturizer
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

if TYPE_CHECKING:
    from torch_geometric.data import Data

_log = logging.getLogger(__name__)
Task = Literal["regression", "binary", "multiclass", "tokens"]
METRICS: dict[str, str] = {
    "regression": "mae",
    "binary": "rocauc",
    "multiclass": "accuracy",
    "tokens": "f1",
}


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
        featurizer: Converts new molecules or files to such graphs; None if that is not
            possible.
        source: Where the data came from.
        notes: How the data were processed.
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
    featurizer: AnyFeaturizer | None = None
    source: str = ""
    notes: Mapping[str, Any] | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, where they have names."""
        return tuple(str(name) for name in (self.notes or {}).get("classes", ()))

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        return _DESCRIPTION.dump_python(self, mode="json")

    @staticmethod
    def from_json(info: Mapping[str, Any]) -> "Description":
        """The description that `to_json` wrote."""
        try:
            return _DESCRIPTION.validate_python(info)
        except ValidationError as error:
            first = error.errors()[0]
            place = " ".join(map(str, first["loc"]))
            raise DataError(
                f"the description of a data set is malformed: {place!r}: {first['msg']}"
            ) from error


_DESCRIPTION = TypeAdapter(Description)


@dataclass(eq=False, kw_only=True)
class GraphDataset(Description):
    """Packed graphs with their task.

    Args:
        graphs: The graphs; their field ``y`` holds the targets. Regression and binary:
            floats ``[B, T]`` where NaN is missing. Multiclass: integers ``[B]``.
            Tokens: integers ``[B, num_tokens]``.
    """

    graphs: PackedGraphs

    @classmethod
    def described(cls, graphs: PackedGraphs, **changes: Any) -> Self:
        """A packed set with the description that is stored in it."""
        try:
            about = Description.from_json(graphs.info)
        except DataError as error:
            raise DataError(f"{graphs.folder or 'a set'}: {error}") from None
        known = {f.name: getattr(about, f.name) for f in fields(about)}
        return cls(**{**known, "graphs": graphs, **changes})

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, index: int) -> "Data":
        return self.graphs[index]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.name!r}, {len(self)} graphs, {self.task}, "
            f"{len(self.targets)} targets)"
        )

    @property
    def labels(self) -> np.ndarray:
        """The targets of all graphs as they are stored: ``[G, T]`` or ``[G]``."""
        columns = self.graphs.fields["y"].parts[0].columns
        stored = self.graphs.array("graph.y")
        return stored if columns is None else stored[:, columns]

    @property
    def fingerprint(self) -> str:
        """A hash of what training sees: arrays, fields, task, targets, classes.

        The same content has the same fingerprint, wherever it was read from.
        """
        content = {
            "arrays": self.graphs.fingerprints(),
            "fields": {name: asdict(f) for name, f in self.graphs.fields.items()},
            "task": self.task,
            "targets": [target.name for target in self.targets],
            "node features": asdict(self.node_features),
            "edge features": asdict(self.edge_features),
            "classes": [self.num_classes, self.num_tokens, self.classes],
            "vocabulary": self.vocabulary,
        }
        text = json.dumps(content, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def has_text(self, name: str) -> bool:
        """Whether there is one such string per graph."""
        return f"text.{name}.utf8" in self.graphs.arrays

    def texts(self, name: str) -> Texts:
        """One string per graph, such as ``"smiles"``."""
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

    def split(
        self, kind: str | None = None, seed: int = 0, apart: bool = False
    ) -> Split:
        """Training, validation and test graphs; by default in the set's own way.

        Args:
            kind: ``random``, ``scaffold`` or ``given``.
            seed: Of the random split.
            apart: Whether the rows of one molecule may be in different parts of a
                random split.
        """
        kind = kind or self.default_split
        if kind == "random":
            split = random_split(len(self), seed=seed, molecules=self._molecules(apart))
        elif kind == "scaffold":
            split = scaffold_split(self.texts("smiles"))
        elif kind == "given" and "graph.split" in self.graphs.arrays:
            split = given_split(self.graphs.array("graph.split"))
        else:
            raise DataError(
                f"{self.name} has no split {kind!r}; it can be 'random', 'scaffold' "
                f"for molecules, 'given' where the set has one, or use folds()"
            )
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

    def _molecules(self, apart: bool) -> Sequence[str] | None:
        """What each graph is, if equal molecules are to stay together."""
        if apart or "text.canonical.utf8" not in self.graphs.arrays:
            return None
        return self.texts("canonical")

    def leaks(self, split: Split) -> list[str]:
        """The molecules, as canonical SMILES, that are in training and in testing."""
        if not self.has_text("canonical"):
            return []
        canonical = self.texts("canonical")
        seen = {canonical[i] for i in split.train}
        return sorted(seen & {canonical[i] for i in split.test})

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
