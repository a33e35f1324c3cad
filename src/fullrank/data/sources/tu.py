"""The TU collection, and any folder in its layout."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from fullrank.data.cache import data_root, prepared
from fullrank.data.dataset import Description, GraphDataset, Target, Task
from fullrank.data.features import Features
from fullrank.data.featurizers import GraphFeaturizer
from fullrank.data.files import (
    content_digest,
    downloaded,
    in_mirror,
    read_column,
    read_numbers,
    unpacked,
)
from fullrank.data.packed.graphs import Field, PackedGraphs, Part
from fullrank.data.sources.base import Location, PathSource, Source
from fullrank.data.tu_files import files_in, name_in, read_columns, stored_columns
from fullrank.errors import DataError

ADDRESS = "https://www.chrsmrrs.com/graphkerneldatasets/{name}.zip"
NAMES = (
    "COLLAB",
    "REDDIT-BINARY",
    "REDDIT-MULTI-5K",
    "REDDIT-MULTI-12K",
    "IMDB-BINARY",
    "IMDB-MULTI",
    "MUTAG",
    "PROTEINS",
    "ENZYMES",
    "NCI1",
    "NCI109",
    "DD",
    "PTC_MR",
)


class TUSource(Source):
    """A set of the TU collection.

    Nodes without labels and attributes get their degree as a feature, as in the
    paper: one-hot if the maximum is below 1,000, standardised otherwise.

    Attributes:
        name: The name in the collection, such as ``IMDB-BINARY``.
        mirror: A folder that contains ``NAME.zip`` or ``NAME/``, used instead of
            downloading; ``$FULLRANK_MIRROR`` by default.
    """

    kind: Literal["tu"] = "tu"
    mirror: Location | None = None

    locations = ("root", "mirror")

    @classmethod
    def known_names(cls) -> dict[str, str]:
        return dict.fromkeys(NAMES, "TU collection")

    def _load(self, labelled: bool, progress: bool) -> GraphDataset:
        home, address = data_root(self.root), ADDRESS.format(name=self.name)
        held = in_mirror(address, self.mirror)
        variant = f"-{content_digest(held)[:12]}" if held else ""

        def prepare(folder: Path) -> None:
            with unpacked(held or downloaded(address, home), home) as raw:
                _pack(files_in(raw, self.name), self.name, address).save(folder)

        return GraphDataset.described(prepared(home / f"{self.name}{variant}", prepare))


class TUFolderSource(PathSource):
    """A folder of graphs in the layout of the TU collection.

    Attributes:
        name: The path of the folder.
    """

    kind: Literal["tu_folder"] = "tu_folder"

    @classmethod
    def reads(cls, path: Path) -> bool:
        return any(path.glob("*_A.txt"))

    def _load(self, labelled: bool, progress: bool) -> GraphDataset:
        name = name_in(self.name)
        files = files_in(Path(self.name), name)
        return GraphDataset.described(_pack(files, name, self.name))


def TU(
    name: str, root: str | Path | None = None, mirror: str | Path | None = None
) -> GraphDataset:
    """A set of the TU collection, prepared on the first call; see `TUSource`."""
    return TUSource.checked(name, name=name, root=root, mirror=mirror).load()


def read_tu_folder(folder: str | Path) -> GraphDataset:
    """Your own graphs in the layout of the TU collection."""
    return TUFolderSource.checked(str(folder), name=str(folder)).load()


def _pack(files: Mapping[str, Path], name: str, source: str) -> PackedGraphs:
    num_nodes, edges, columns = read_columns(files)
    node_features = Features("float", columns["node"].names)
    edge_names = columns["edge"].names
    edge_features = Features("float", edge_names) if edge_names else Features()
    task, y, targets = _targets(files, len(num_nodes))
    multiclass = task == "multiclass"
    description = Description(
        name=name,
        task=task,
        targets=targets,
        node_features=node_features,
        edge_features=edge_features,
        metric="accuracy" if multiclass else "mae",
        default_split="folds" if multiclass else "random",
        num_classes=int(y.max()) + 1 if multiclass else None,
        featurizer=GraphFeaturizer(
            node_features=node_features,
            edge_features=edge_features,
            degree_moments=columns["node"].moments,
        ),
        source=source,
    )
    arrays, fields = stored_columns(columns)
    arrays["graph.y"] = y
    fields["y"] = Field((Part("graph.y"),), "int64" if multiclass else "float32")
    return PackedGraphs.pack(num_nodes, edges, arrays, fields, description.to_json())


def _targets(
    files: Mapping[str, Path], num_graphs: int
) -> tuple[Task, np.ndarray, tuple[Target, ...]]:
    if "graph_attributes" in files:
        values = read_numbers(files["graph_attributes"], np.float64, num_graphs)
        names = tuple(Target(f"attribute {i}") for i in range(values.shape[1]))
        return "regression", values, names
    if "graph_labels" not in files:
        raise DataError(f"no graph_labels or graph_attributes beside {files['A']}")
    labels = read_column(files["graph_labels"], rows=num_graphs)
    return "multiclass", np.unique(labels, return_inverse=True)[1], (Target("class"),)
