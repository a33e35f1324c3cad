"""``fullrank bench structure``: the cost of structural colours, by level."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from fullrank.bench.provenance import provenance
from fullrank.data import QM9, AddStructuralColors, PackedGraphs

_NODES, _EDGES = 400, 1_000  # of the random graph
_FEWER_MOLECULES = 10_000  # for three and four marks


@dataclass(frozen=True)
class Row:
    """One line of the table: a level on a set of graphs."""

    level: str
    graphs: str
    seconds: float
    edges: int
    distinct: int


def structural_levels(**labels: Any) -> dict[str, AddStructuralColors]:
    """The levels by name, from degrees to the whole graph."""
    return {
        "degrees": AddStructuralColors(0, **labels),
        "1 hop, v marked": AddStructuralColors(1, mark="center", **labels),
        "1 hop": AddStructuralColors(1, **labels),
        "2 hops, v marked": AddStructuralColors(2, mark="center", **labels),
        "2 hops": AddStructuralColors(2, **labels),
        "3 hops": AddStructuralColors(3, **labels),
        "whole, v marked": AddStructuralColors(None, mark="center", **labels),
        "whole": AddStructuralColors(None, **labels),
        "whole, 3 marks": AddStructuralColors(None, mark="triple", **labels),
        "whole, 4 marks": AddStructuralColors(None, mark="quadruple", **labels),
    }


def run(quick: bool, json_file: Path | None) -> list[Row]:
    """Measure, print, and write the rows as JSON if a file is given."""
    qm9 = QM9(limit=500 if quick else None).graphs
    fewer = QM9(limit=100 if quick else _FEWER_MOLECULES).graphs
    levels = structural_levels(node_labels="z", edge_labels="edge.bond")
    rows = []
    for level, colors in levels.items():
        graphs = fewer if level.endswith(" marks") else qm9
        name = f"QM9, {len(graphs):,} molecules"
        rows.append(measure(level, name, colors, graphs))
    name = f"a random one, {_NODES} nodes, {_EDGES:,} edges"
    rows.append(measure("2 hops", name, AddStructuralColors(2), random_graph()))
    table = Table("level", "graphs", title="Structural colours, one core")
    for column in ("seconds", "edges", "distinct colours"):
        table.add_column(column, justify="right")
    for row in rows:
        counts = (f"{row.edges:,}", f"{row.distinct:,}")
        table.add_row(row.level, row.graphs, f"{row.seconds:.2f}", *counts)
    Console().print(table)
    if json_file is not None:
        result = {"provenance": provenance(), "rows": rows}
        json_file.write_text(json.dumps(result, default=asdict, indent=1) + "\n")
    return rows


def measure(
    level: str, name: str, colors: AddStructuralColors, graphs: PackedGraphs
) -> Row:
    """Measure the CPU time of colouring the graphs once."""
    started = time.process_time()
    found = colors.pack(graphs, progress=True).array("edge_color")
    seconds = time.process_time() - started
    return Row(level, name, seconds, len(found), len(np.unique(found)))


def random_graph() -> PackedGraphs:
    """One graph, with every edge in both directions."""
    edges = np.random.default_rng(0).integers(0, _NODES, (2, _EDGES))
    return PackedGraphs.pack(np.array([_NODES]), np.hstack([edges, edges[::-1]]))
