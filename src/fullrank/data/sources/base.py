"""The base class of data sources: validated, documented options."""

import os
from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    NonNegativeInt,
    PositiveInt,
    Tag,
    field_validator,
)

from fullrank.data.dataset import GraphDataset
from fullrank.data.descriptors import DescriptorKind
from fullrank.data.options import Options
from fullrank.data.packed.graphs import PackedGraphs
from fullrank.errors import DataError


def absolute(path: str | Path) -> Path:
    """The absolute path, with ``~`` expanded."""
    return Path(os.path.expanduser(path)).absolute()


Location = Annotated[Path, AfterValidator(absolute)]


class StructureOptions(Options):
    """The colours that structural coefficients read, see
    `fullrank.data.AddStructuralColors`.

    Attributes:
        hops: Radius of the subgraph around a node, or ``all`` for the whole graph.
        mark: The nodes from which distances are marked: ``center``, ``pair``,
            ``triple`` or ``quadruple``.
        node_labels: The node attribute that colours depend on, such as ``x``.
        edge_labels: The edge attribute that colours depend on, such as ``edge_attr``.
        memory_limit: Maximum memory for the subgraphs of one node, in bytes.
    """

    hops: NonNegativeInt | Literal["all"] = 2
    mark: Literal["center", "pair", "triple", "quadruple"] = "pair"
    node_labels: str | None = None
    edge_labels: str | None = None
    memory_limit: PositiveInt = 2**30

    def add_to(self, graphs: PackedGraphs, progress: bool = False) -> PackedGraphs:
        """The graphs with their structural colours."""
        from fullrank.data.transforms import AddStructuralColors

        hops = None if self.hops == "all" else self.hops
        others = self.model_dump(exclude={"hops"})
        return AddStructuralColors(hops, **others).pack(graphs, progress)


class ContinuousStructureOptions(Options):
    """The numbers that continuous structural coefficients read, see
    `fullrank.data.AddContinuousStructure`.

    Attributes:
        kind: ``continuous`` for numbers; omitted for colours.
        walk_length: ``continuous``: length of the longest random walk.
        max_ring: ``continuous``: size of the largest ring that is detected.
    """

    kind: Literal["continuous"]
    walk_length: PositiveInt = 8
    max_ring: Annotated[int, Field(ge=3)] = 8

    def add_to(self, graphs: PackedGraphs, progress: bool = False) -> PackedGraphs:
        """The graphs with their continuous structure."""
        from fullrank.data.transforms import AddContinuousStructure

        options = self.model_dump(exclude={"kind"})
        return AddContinuousStructure(**options).pack(graphs, progress)


def _kind_of_structure(options: Any) -> str:
    if isinstance(options, dict):
        return ("Continuous" if "kind" in options else "") + "StructureOptions"
    return type(options).__name__


AnyStructure = Annotated[
    Annotated[StructureOptions, Tag("StructureOptions")]
    | Annotated[ContinuousStructureOptions, Tag("ContinuousStructureOptions")],
    Discriminator(_kind_of_structure),
]


class Source(Options):
    """Which graphs to load, and which targets to predict.

    Attributes:
        kind: The kind of source; inferred from the name by default.
        name: The name of a data set, or the path of a file or folder.
        targets: Names of the targets to predict; all by default.
        root: The folder of prepared sets; the user's cache by default.
        structure: Structural information for each edge: none by default, ``{}`` for
            2-hop colours, ``{kind: continuous}`` for numbers.
    """

    kind: str
    name: str
    targets: list[str] | None = None
    root: Location | None = None
    structure: AnyStructure | None = None

    #: Options that specify a location and not the content.
    locations: ClassVar[Collection[str]] = ("root",)

    @field_validator("targets")
    @classmethod
    def _different(cls, targets: list[str] | None) -> list[str] | None:
        if targets is not None and not 0 < len(set(targets)) == len(targets):
            raise ValueError("at least one target is required, without duplicates")
        return targets

    @classmethod
    def known_names(cls) -> dict[str, str]:
        """The data sets of this source by name, each with a short description."""
        return {}

    @classmethod
    def reads(cls, path: Path) -> bool:
        """Whether this source can read the file or folder at ``path``."""
        return False

    @property
    def is_path(self) -> bool:
        """Whether the name is the path of a file or folder."""
        return False

    @property
    def label(self) -> str:
        """A short name in lower case."""
        return Path(self.name).name.lower()

    def load(
        self,
        labelled: bool = True,
        progress: bool = True,
        descriptors: Sequence[DescriptorKind] = (),
    ) -> GraphDataset:
        """The data set with the selected targets and structural colours.

        Args:
            labelled: If false, a table can be read without targets.
            progress: Whether to show a progress bar during preparation.
            descriptors: What is computed for each molecule beside its graph.
        """
        if descriptors:
            dataset = self._load_described(labelled, progress, tuple(descriptors))
        else:
            dataset = self._load(labelled, progress)
        known = [target.name for target in dataset.targets]
        if self.targets is not None and self.targets != known:
            dataset = dataset.select_targets(self.targets)
        if self.structure is None:
            return dataset
        return replace(dataset, graphs=self.structure.add_to(dataset.graphs, progress))

    @abstractmethod
    def _load(self, labelled: bool, progress: bool) -> GraphDataset:
        """The data set with all targets."""

    def _load_described(
        self, labelled: bool, progress: bool, descriptors: tuple[DescriptorKind, ...]
    ) -> GraphDataset:
        """The same with descriptors of its molecules."""
        raise DataError(
            f"{self.name!r} is not a table of molecules, so descriptors "
            f"({', '.join(descriptors)}) cannot be computed; use none"
        )

    def determining(self) -> dict[str, Any]:
        """The options that affect the result, besides the content of the data."""
        locations = [*self.locations, *(["name"] if self.is_path else [])]
        return self.model_dump(
            mode="json",
            exclude_none=True,
            exclude={
                **dict.fromkeys(locations, True),
                "structure": {"memory_limit"},
            },
        )


class PathSource(Source):
    """A source whose name is the path of a file or folder."""

    name: Annotated[str, AfterValidator(lambda name: str(absolute(name)))]

    @property
    def is_path(self) -> bool:
        return True
