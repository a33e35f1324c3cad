"""The raw files of OGB's graph property sets, read in blocks.

A set is a folder with ``raw/edge.csv.gz``, ``raw/num-node-list.csv.gz``,
``raw/num-edge-list.csv.gz``, ``raw/graph-label.csv.gz``, features beside them, and
``split/KIND/{train,valid,test}.csv.gz``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from fullrank.data.dataset import Description, Target, Task
from fullrank.data.features import Features
from fullrank.data.featurizers import MoleculeFeaturizer
from fullrank.data.files import NumberStream, read_column, read_numbers, reading
from fullrank.data.molecules import molecule_features
from fullrank.data.packed.graphs import (
    Field,
    PackedGraphs,
    Part,
    over_all_graphs,
    text_arrays,
)
from fullrank.data.sources import tokens
from fullrank.data.splits import PARTS
from fullrank.errors import DataError

METRICS = {"acc": "accuracy", "F1": "f1"}
TASKS: dict[str, Task] = {
    "binary classification": "binary",
    "multiclass classification": "multiclass",
    "regression": "regression",
    "subtoken prediction": "tokens",
}
_ROWS_AT_ONCE = 2_000_000


class RawSet:
    """What all graph sets of OGB have in common.

    Args:
        name: Of the set.
        known: Its column in OGB's table of sets.
        folder: The folder that contains ``raw`` and ``split``, or its parent.
    """

    node_features: Features
    edge_features: Features

    def __init__(self, name: str, known: Mapping[str, str], folder: Path) -> None:
        homes = [folder, *sorted(f for f in folder.iterdir() if f.is_dir())]
        self.folder = next((home for home in homes if (home / "raw").is_dir()), folder)
        self.name, self.known = name, known
        self.task = TASKS[known["task type"]]
        self.num_nodes = read_column(self.raw("num-node-list"))
        graphs = len(self.num_nodes)
        self.num_edges = read_column(self.raw("num-edge-list"), rows=graphs)
        for file, counts, least in (
            (self.raw("num-node-list"), self.num_nodes, 1),
            (self.raw("num-edge-list"), self.num_edges, 0),
        ):
            for row in np.flatnonzero(counts < least)[:1]:
                raise DataError(
                    f"{file}, line {row + 1}: {counts[row]} is less than {least}"
                )
        self.part = self._part_of_graphs()
        self.texts: dict[str, list[str]] = {}
        self.y = self._labels()
        self._edges = NumberStream(self.raw("edge"), 2)

    def raw(self, name: str) -> Path:
        """One of the raw files."""
        return self.folder / "raw" / f"{name}.csv.gz"

    def description(self) -> Description:
        """The description of the data set."""
        metric = self.known["eval metric"]
        columns = self.y.shape[1] if self.y.ndim == 2 else 1
        return Description(
            name=self.name,
            task=self.task,
            targets=tuple(Target(f"task {i}") for i in range(columns)),
            node_features=self.node_features,
            edge_features=self.edge_features,
            metric=METRICS.get(metric, metric),
            default_split="given",
            source=self.known["url"],
        )

    def blocks(self) -> Iterator[PackedGraphs]:
        """All graphs in blocks, so that large sets do not have to fit in memory."""
        rows = np.cumsum(self.num_nodes + self.num_edges)
        starts = np.unique(rows // _ROWS_AT_ONCE, return_index=True)[1].tolist()
        for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
            yield self._block(slice(start, end))
        for stream in (s for s in vars(self).values() if isinstance(s, NumberStream)):
            stream.finish()

    def _block(self, graphs: slice) -> PackedGraphs:
        num_nodes, num_edges = self.num_nodes[graphs], self.num_edges[graphs]
        within = self._edges.take(int(num_edges.sum())).T  # [2, E]
        limit = np.repeat(num_nodes, num_edges)
        self._edges.check(
            np.all((within >= 0) & (within < limit), axis=0),
            lambda edge: f"an edge of a graph with {limit[edge]} nodes, counted from 0",
        )
        edge_index = over_all_graphs(num_nodes, num_edges, within)
        edge_index, arrays = self._features(num_nodes, edge_index)
        arrays |= {"graph.y": self.y[graphs], "graph.split": self.part[graphs]}
        for name, texts in self.texts.items():
            arrays |= text_arrays(name, texts[graphs])
        floats = self.task in ("regression", "binary")
        ids = self.edge_features.kind == "categorical"
        fields = {
            "x": Field((Part("node.x"),), "int64"),
            "edge_attr": Field((Part("edge.attr"),), "int64" if ids else "float32"),
            "y": Field((Part("graph.y"),), "float32" if floats else "int64"),
        }
        return PackedGraphs.pack(num_nodes, edge_index, arrays, fields)

    def _features(
        self, num_nodes: np.ndarray, edge_index: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """All edges of a block, and the arrays of its nodes and edges."""
        raise NotImplementedError

    def _part_of_graphs(self) -> np.ndarray:
        """0 train, 1 valid, 2 test, 255 none: ``[G]``."""
        part_of_graph = np.full(len(self.num_nodes), 255, dtype=np.uint8)
        for number, part in enumerate(PARTS):
            file = self.folder / "split" / self.known["split"] / f"{part}.csv.gz"
            graphs = read_column(file)
            outside = (graphs < 0) | (graphs >= len(part_of_graph))
            for row in np.flatnonzero(outside)[:1]:
                raise DataError(
                    f"{file}, line {row + 1}: graph {graphs[row]} of a set of "
                    f"{len(part_of_graph)}"
                )
            twice = (part_of_graph[graphs] != 255) | (np.bincount(graphs)[graphs] > 1)
            for row in np.flatnonzero(twice)[:1]:
                raise DataError(
                    f"{file}, line {row + 1}: graph {graphs[row]} is in the split twice"
                )
            part_of_graph[graphs] = number
        return part_of_graph

    def _labels(self) -> np.ndarray:
        file = self.raw("graph-label")
        values = read_numbers(file, np.float64, len(self.num_nodes), missing=True)
        if self.task == "binary":
            others = np.argwhere(~(np.isin(values, (0, 1)) | np.isnan(values)))
            if len(others):
                row, column = others[0]
                raise DataError(
                    f"{file}, line {row + 1}: {values[row, column]:g} is not 0 or 1"
                )
        return values

    def _check_length(self, file: Path, lines: int) -> None:
        if lines != len(self.num_nodes):
            raise DataError(
                f"{file} has {lines} lines instead of {len(self.num_nodes)}"
            )


class Molecules(RawSet):
    """``ogbg-mol*``: molecules with categorical atom and bond features."""

    def __init__(self, name: str, known: Mapping[str, str], folder: Path) -> None:
        self.node_features, self.edge_features = molecule_features()
        super().__init__(name, known, folder)
        self._atoms = NumberStream(self.raw("node-feat"), self.node_features.dim)
        self._bonds = NumberStream(self.raw("edge-feat"), self.edge_features.dim)
        mapping = self.folder / "mapping" / "mol.csv.gz"
        if mapping.exists():
            import pandas as pd

            with reading(mapping):
                smiles = pd.read_csv(
                    mapping, usecols=["smiles"], dtype=str, keep_default_na=False
                )["smiles"]
            self._check_length(mapping, len(smiles))
            self.texts["smiles"] = smiles.str.strip().tolist()

    def description(self) -> Description:
        return replace(super().description(), featurizer=MoleculeFeaturizer())

    def _features(
        self, num_nodes: np.ndarray, edge_index: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        atoms = take_categories(self._atoms, num_nodes.sum(), self.node_features)
        bonds = take_categories(self._bonds, edge_index.shape[1], self.edge_features)
        both_ways, twice = with_inverse(edge_index, bonds)
        return both_ways, {"node.x": atoms, "edge.attr": twice}


class Proteins(RawSet):
    """``ogbg-ppa``: seven association scores per edge, no node features."""

    node_features = Features("categorical", ("node",), (1,))
    edge_features = Features("float", tuple(f"association {i}" for i in range(7)))

    def __init__(self, name: str, known: Mapping[str, str], folder: Path) -> None:
        super().__init__(name, known, folder)
        self._kinds = NumberStream(self.raw("edge-feat"), 7, np.float64)

    def description(self) -> Description:
        return replace(super().description(), num_classes=self._num_classes)

    @property
    def _num_classes(self) -> int:
        return int(self.known["num classes"])

    def _labels(self) -> np.ndarray:
        file = self.raw("graph-label")
        labels = read_column(file, rows=len(self.num_nodes))
        outside = np.flatnonzero((labels < 0) | (labels >= self._num_classes))
        for row in outside[:1]:
            raise DataError(
                f"{file}, line {row + 1}: class {labels[row]} of {self._num_classes}"
            )
        return labels

    def _features(
        self, num_nodes: np.ndarray, edge_index: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        kinds = self._kinds.take(edge_index.shape[1]).astype(np.float32)
        both_ways, twice = with_inverse(edge_index, kinds)
        nothing = np.zeros((num_nodes.sum(), 1), dtype=np.uint8)
        return both_ways, {"node.x": nothing, "edge.attr": twice}


class Code(RawSet):
    """``ogbg-code2`` and the withdrawn ``ogbg-code``: syntax trees of functions."""

    edge_features = tokens.EDGE_FEATURES

    def __init__(self, name: str, known: Mapping[str, str], folder: Path) -> None:
        super().__init__(name, known, folder)
        self.node_features = tokens.node_features(
            self._size_of("typeidx2type"), self._size_of("attridx2attr")
        )
        self._nodes = NumberStream(self.raw("node-feat"), 2)
        self._depth = NumberStream(self.raw("node_depth"), 1)
        self._is_token = NumberStream(self.raw("node_is_attributed"), 1)
        self._order = NumberStream(self.raw("node_dfs_order"), 1)

    def description(self) -> Description:
        return replace(
            super().description(),
            targets=(Target("name"),),
            num_classes=len(self._vocabulary) + 2,
            num_tokens=tokens.NUM_TOKENS,
            vocabulary=self._vocabulary,
        )

    def _labels(self) -> np.ndarray:
        import pandas as pd

        file = self.raw("graph-label")
        with reading(file):
            lines = pd.read_csv(file, header=None, dtype=str, keep_default_na=False)
        names = lines[0].tolist()
        self._check_length(self.raw("graph-label"), len(names))
        self.texts["name"] = names
        words = [name.split(" ") for name in names]
        in_training = np.flatnonzero(self.part == 0)
        self._vocabulary = tokens.vocabulary_of(words[i] for i in in_training)
        return tokens.encode_names(words, self._vocabulary)

    def _size_of(self, mapping: str) -> int:
        import pandas as pd

        file = self.folder / "mapping" / f"{mapping}.csv.gz"
        with reading(file):
            return len(pd.read_csv(file, keep_default_na=False))

    def _features(
        self, num_nodes: np.ndarray, edge_index: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        rows = int(num_nodes.sum())
        kind = Features("categorical", ("", ""), self.node_features.cardinalities[:2])
        x = take_categories(self._nodes, rows, kind)
        depth = self._depth.take(rows).clip(max=tokens.LARGEST_DEPTH)
        graph_of_node = np.repeat(np.arange(len(num_nodes)), num_nodes)
        edges, kinds = tokens.code_edges(
            edge_index,
            self._is_token.take(rows)[:, 0],
            self._order.take(rows)[:, 0],
            graph_of_node,
        )
        nodes = np.concatenate([x, depth.astype(x.dtype)], axis=1)
        return edges, {"node.x": nodes, "edge.attr": kinds}


def with_inverse(
    edge_index: np.ndarray, features: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Every edge in both directions, with the same features."""
    both = np.concatenate([edge_index, edge_index[::-1]], axis=1)
    return both, np.concatenate([features, features])


def take_categories(stream: NumberStream, rows: int, features: Features) -> np.ndarray:
    """The next rows of category ids, checked, in the smallest sufficient dtype."""
    values = stream.take(int(rows))
    sizes = np.array(features.cardinalities)
    stream.check(
        np.all((values >= 0) & (values < sizes), axis=1),
        lambda row: f"ids outside {features.cardinalities}",
    )
    return values.astype(np.min_scalar_type(int(sizes.max()) - 1))
