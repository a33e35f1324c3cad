"""Suites of graph pairs by name: generated, or read from published files."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path

import networkx as nx
import torch
from networkx.generators.atlas import graph_atlas_g
from torch_geometric.data import Data

from fullrank.errors import ConfigError, DataError, nearest
from fullrank.lab.graphs import families
from fullrank.lab.graphs.pairs import Graph, PairSuite, as_data, wl_graph_classes

BREC_CATEGORIES = ("basic", "regular", "str", "extension", "cfi", "4vtx", "dr")
CSL_NODES = 41
CSL_SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
WHERE_FROM = "docs/beyond-1wl.md says where the files come from"


def load_suite(name: str, folder: str | Path | None = None) -> PairSuite:
    """Load a suite by name.

    Args:
        name: ``atlas``, ``csl`` and ``classic`` are generated; ``brec``, ``exp``,
            ``sr25`` and ``graph8c`` are read from `folder`.
        folder: Folder that contains ``brec/*.g6``, ``EXP.txt``, ``sr251256.g6``,
            ``graph8c.g6``.
    """
    if name in _GENERATED:
        return _GENERATED[name]()
    if name not in _READ:
        raise ConfigError(
            f"unknown suite {name!r}{nearest(name, SUITES)}; choose one of "
            f"{', '.join(SUITES)}"
        )
    if folder is None:
        raise ConfigError(
            f"suite {name!r} is read from files: pass the folder that contains them "
            f"({WHERE_FROM})"
        )
    suite = _READ[name](Path(folder))
    if not len(suite):
        raise DataError(f"suite {name!r}: the files in {folder} contain no pairs")
    return suite


def atlas_pairs() -> PairSuite:
    """All graphs of up to 7 nodes; pairs with equal numbers of nodes and edges."""
    graphs = graph_atlas_g()[1:]
    sizes = [(len(graph), graph.number_of_edges()) for graph in graphs]
    return PairSuite.from_classes("atlas", _classes("atlas", graphs, sizes))


def csl_pairs() -> PairSuite:
    """Circular skip links: rings of 41 nodes with chords of ten different lengths."""
    graphs = [nx.circulant_graph(CSL_NODES, [1, skip]) for skip in CSL_SKIPS]
    return PairSuite.from_classes("csl", [("csl", graphs)])


def classic_pairs() -> PairSuite:
    """Textbook examples of non-isomorphic graphs that 1-WL does not distinguish.

    Two cycles and one of twice the length, such as two triangles and a hexagon; decalin
    and bicyclopentyl; strongly regular graphs with equal parameters; CFI graphs.
    """
    latin = [families.latin_square_graph(square) for square in families.LATIN_SQUARES]
    strongly_regular = [
        [families.rook_graph(4), families.shrikhande_graph()],
        [*latin, nx.complement(latin[1])],
        families.chang_graphs(),
    ]
    cycles = [families.cfi_pair(nx.cycle_graph(n)) for n in (3, 5, 7, 9)]
    bases = [
        nx.diamond_graph(),
        nx.ladder_graph(3),
        nx.ladder_graph(4),
        nx.circular_ladder_graph(3),
        nx.complete_graph(5),
    ]
    classes = [
        *(("cycles", pair) for pair in cycles),
        ("molecules", (families.decalin(), families.bicyclopentyl())),
        *(("srg", graphs) for graphs in strongly_regular),
        *(("cfi", families.cfi_pair(base)) for base in bases),
    ]
    return PairSuite.from_classes("classic", classes)


def brec_pairs(folder: Path) -> PairSuite:
    """BREC: 400 pairs in seven categories; lines 2i and 2i+1 of a file are a pair."""
    classes = [
        (category, pair)
        for category in BREC_CATEGORIES
        for pair in _read_pairs(folder / "brec" / f"{category}.g6", _read_graph6)
    ]
    return PairSuite.from_classes("brec", classes)


def exp_pairs(folder: Path) -> PairSuite:
    """EXP: 600 pairs of formulas as graphs; each node has one of two types."""
    pairs = _read_pairs(folder / "EXP.txt", _read_typed_graphs)
    return PairSuite.from_classes("exp", [("exp", pair) for pair in pairs])


def sr25_pairs(folder: Path) -> PairSuite:
    """All pairs of the 15 strongly regular graphs srg(25, 12, 5, 6)."""
    graphs = _read_graph6(folder / "sr251256.g6")
    return PairSuite.from_classes("sr25", [("sr25", graphs)])


def graph8c_pairs(folder: Path) -> PairSuite:
    """The pairs of connected graphs of 8 nodes that 1-WL cannot distinguish."""
    graphs = [as_data(graph) for graph in _read_graph6(folder / "graph8c.g6")]
    classes = _classes("graph8c", graphs, wl_graph_classes(graphs).tolist())
    confused = [(group, same) for group, same in classes if len(same) > 1]
    return PairSuite.from_classes("graph8c", confused)


_GENERATED: dict[str, Callable[[], PairSuite]] = {
    "atlas": atlas_pairs,
    "csl": csl_pairs,
    "classic": classic_pairs,
}
_READ: dict[str, Callable[[Path], PairSuite]] = {
    "brec": brec_pairs,
    "exp": exp_pairs,
    "sr25": sr25_pairs,
    "graph8c": graph8c_pairs,
}
SUITES = (*_GENERATED, *_READ)


def _classes(
    group: str, graphs: Iterable[Graph], keys: Iterable[Hashable]
) -> list[tuple[str, list[Graph]]]:
    """Graphs with the same key form a class."""
    members: dict[Hashable, list[Graph]] = {}
    for graph, key in zip(graphs, keys, strict=True):
        members.setdefault(key, []).append(graph)
    return [(group, same) for same in members.values()]


def _read_pairs(
    path: Path, read: Callable[[Path], Sequence[Graph]]
) -> list[tuple[Graph, Graph]]:
    """Graphs 1 and 2 of a file, 3 and 4, and so on."""
    graphs = read(path)
    if len(graphs) % 2:
        raise DataError(
            f"{path} contains {len(graphs)} graphs, which cannot be paired; "
            f"{WHERE_FROM}"
        )
    return list(zip(graphs[::2], graphs[1::2], strict=True))


def _read_lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}; {WHERE_FROM}") from None


def _read_graph6(path: Path) -> list[nx.Graph]:
    graphs = []
    for number, line in enumerate(_read_lines(path), start=1):
        line = line.strip().removeprefix(b">>graph6<<")
        try:
            if not all(63 <= byte <= 126 for byte in line):
                raise ValueError("characters outside of ?, @, A, ..., ~")
            if line:
                graphs.append(nx.from_graph6_bytes(line))
        except (nx.NetworkXError, IndexError, ValueError) as error:
            raise DataError(
                f"{path}, line {number} is not in graph6 format ({error}): "
                f"{line[:40]!r}; {WHERE_FROM}"
            ) from None
    if not graphs:
        raise DataError(f"{path} contains no graphs; {WHERE_FROM}")
    return graphs


def _read_typed_graphs(path: Path) -> list[Data]:
    """Read EXP's format: the number of graphs, then for each graph a line with its
    number of nodes and its label, and for each node a line with its type, its degree
    and its neighbours."""
    lines = [*_read_lines(path), b"the end of the file"]
    rows = [_integers(line) for line in lines]

    def damaged(row: int, expected: str) -> DataError:
        found = lines[row][:40].decode(errors="replace")
        return DataError(
            f"{path}, line {row + 1}: expected {expected}, got {found!r}; {WHERE_FROM}"
        )

    if len(rows[0]) != 1:
        raise damaged(0, "the number of graphs")
    graphs = []
    start = 1
    for _ in range(rows[0][0]):
        if len(rows[start]) != 2 or rows[start][0] < 1:
            raise damaged(start, "a number of nodes and a label")
        num_nodes = rows[start][0]
        nodes = range(start + 1, start + 1 + num_nodes)
        for row in nodes:
            if not _is_typed_node(rows[row], num_nodes):
                raise damaged(
                    row, f"a type (0 or 1), a degree and neighbours below {num_nodes}"
                )
        graph = _typed_graph([rows[row] for row in nodes])
        if not graph.is_undirected():
            raise damaged(start, "a graph with every edge in both directions")
        graphs.append(graph)
        start = nodes.stop
    if start != len(lines) - 1:
        raise damaged(start, "no more lines")
    return graphs


def _integers(line: bytes) -> list[int]:
    """The integers of a line; none if it contains anything else."""
    try:
        return [int(word) for word in line.split()]
    except ValueError:
        return []


def _is_typed_node(row: list[int], num_nodes: int) -> bool:
    return (
        len(row) >= 2
        and row[0] in (0, 1)
        and row[1] == len(row) - 2
        and all(0 <= other < num_nodes for other in row[2:])
    )


def _typed_graph(rows: list[list[int]]) -> Data:
    types = torch.tensor([row[0] for row in rows])
    edges = [(node, other) for node, row in enumerate(rows) for other in row[2:]]
    return Data(
        x=torch.nn.functional.one_hot(types, 2).float(),
        edge_index=torch.tensor(edges, dtype=torch.long).view(-1, 2).T.contiguous(),
    )
