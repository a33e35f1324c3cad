"""Draw docs/picture.svg: two neighbourhoods, and which layers distinguish them.

The second neighbourhood is solved for: it has the sum of the first, so that GCN, GIN
and GraphSAGE cannot differ, and the output of one GAT layer. All numbers are computed
by the layers with fresh weights, in float64. Run it with ``python docs/picture.py``.
"""

from pathlib import Path

import numpy as np
import torch
from scipy.optimize import least_squares
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv

from fullrank.nn import CombConv, ExpandingConv

CENTER = (0.5, 0.3)
FIRST = ((1.2, 0.9), (-1.1, 0.8), (0.5, -1.4))
START = ((1.5, -0.4), (0.2, 1.4), (-1.1, -0.7))  # of the search for the second
SAME, DIFFERENT, INK = "#b3261e", "#1b6e3c", "#333333"


def layers() -> dict[str, torch.nn.Module]:
    """The layers by name, from 2 to 8 features."""
    mlp = torch.nn.Sequential(
        torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8)
    )
    return {
        "GCN": GCNConv(2, 8),
        "GIN": GINConv(mlp),
        "GraphSAGE": SAGEConv(2, 8),
        "GAT": GATConv(2, 8),
        "ExpandingConv": ExpandingConv(2, 8, num_aggregators=4),
        "CombConv": CombConv(2, 8),
    }


@torch.no_grad()
def output(layer: torch.nn.Module, neighbours: np.ndarray) -> np.ndarray:
    """What a layer returns for the centre."""
    x = torch.tensor(np.vstack([CENTER, neighbours]))
    return layer(x, torch.tensor([[1, 2, 3], [0, 0, 0]]))[0].numpy()


def second_neighbourhood(gat: torch.nn.Module) -> np.ndarray:
    """Other neighbours with the same sum and the same output of a GAT layer."""
    total, wanted = np.sum(FIRST, axis=0), output(gat, np.array(FIRST))

    def gap(flat: np.ndarray) -> np.ndarray:
        neighbours = flat.reshape(-1, 2)
        return np.append(neighbours.sum(0) - total, output(gat, neighbours) - wanted)

    found = least_squares(gap, np.ravel(START), xtol=1e-15, ftol=1e-15, gtol=1e-15)
    return found.x.reshape(-1, 2)


def star(neighbours: np.ndarray, left: int, title: str) -> str:
    """A neighbourhood, each node at the place that its two features say."""

    def place(point) -> tuple[float, float]:
        return round(left + 100 + 52 * point[0]), round(128 - 52 * point[1])

    x, y = place(CENTER)
    lines, dots = [], []
    for point in neighbours:
        a, b = place(point)
        lines.append(f'<path d="M{x} {y}L{a} {b}" stroke="#999" stroke-width="2"/>')
        dots.append(f'<circle cx="{a}" cy="{b}" r="9" fill="#4c78a8"/>')
    center = f'<circle cx="{x}" cy="{y}" r="11" fill="#f2a93b"/>'
    text = f'<text x="{left + 100}" y="28" text-anchor="middle">{title}</text>'
    return "".join([text, *lines, *dots, center])


def table(differences: dict[str, float], left: int) -> str:
    """A row for each layer."""
    rows = [f'<text x="{left}" y="28">Outputs of an untrained layer</text>']
    for row, (name, found) in enumerate(differences.items()):
        y = 62 + 26 * row
        same = found < 1e-10
        colour, text = (
            (SAME, "identical")
            if same
            else (DIFFERENT, f"differ by {100 * found:.0f}%")
        )
        rows.append(
            f'<text x="{left}" y="{y}">{name}</text>'
            f'<text x="{left + 130}" y="{y}" fill="{colour}" font-weight="bold">'
            f"{text}</text>"
        )
    return "".join(rows)


def main() -> None:
    torch.manual_seed(0)
    modules = {name: layer.double() for name, layer in layers().items()}
    first = np.array(FIRST)
    second = second_neighbourhood(modules["GAT"])
    differences = {}
    for name, layer in modules.items():
        one, other = output(layer, first), output(layer, second)
        differences[name] = float(np.linalg.norm(one - other) / np.linalg.norm(one))
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 222" '
        f'font-family="sans-serif" font-size="15" fill="{INK}">'
        '<rect width="720" height="222" rx="8" fill="#fafafa"/>'
        + star(first, 10, "A node and its neighbours")
        + star(second, 215, "Another neighbourhood")
        + table(differences, 452)
        + "</svg>\n"
    )
    Path(__file__).with_suffix(".svg").write_text(svg)
    print(second, differences)


if __name__ == "__main__":
    main()
