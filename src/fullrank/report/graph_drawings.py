"""Drawings of molecules and graphs as SVG."""

from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING

import networkx as nx

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from fullrank.data import GraphDataset

SIZE = 220


def drawer(dataset: "GraphDataset") -> Callable[[int, "Data"], str]:
    """A function that draws graph i of a data set: as a molecule if RDKit can,
    otherwise as nodes and edges."""
    smiles = (
        dataset.texts("smiles") if "text.smiles.utf8" in dataset.graphs.arrays else None
    )

    def draw(place: int, graph: "Data") -> str:
        drawn = None if smiles is None else draw_molecule(smiles[place])
        return drawn or draw_graph(graph)

    return draw


def draw_molecule(smiles: str) -> str | None:
    """A molecule as SVG; None without RDKit, or if it cannot read the SMILES."""
    try:
        from rdkit import Chem, rdBase
        from rdkit.Chem.Draw import rdMolDraw2D
    except ModuleNotFoundError:
        return None
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(smiles)
    if mol is None:
        return None
    canvas = rdMolDraw2D.MolDraw2DSVG(SIZE, SIZE)
    rdMolDraw2D.PrepareAndDrawMolecule(canvas, mol)
    canvas.FinishDrawing()
    return canvas.GetDrawingText().partition("?>")[2]


def draw_graph(graph: "Data") -> str:
    """Nodes and edges as SVG."""
    plain = nx.empty_graph(graph.num_nodes)
    plain.add_edges_from(graph.edge_index.T.tolist())
    places = nx.spring_layout(plain, seed=0, scale=SIZE / 2 - 8, center=(SIZE / 2,) * 2)
    lines = [
        f'<line x1="{places[u][0]:.1f}" y1="{places[u][1]:.1f}" '
        f'x2="{places[v][0]:.1f}" y2="{places[v][1]:.1f}" stroke="#5c6b7a"/>'
        for u, v in plain.edges
    ]
    dots = [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#0072B2"/>'
        for x, y in places.values()
    ]
    size = f'width="{SIZE}" height="{SIZE}"'
    return f"<svg {size}>{''.join(lines + dots)}</svg>"


def side_by_side(pictures: list[tuple[str, str]]) -> str:
    """Pictures in a row, each with a line of text below it, as HTML."""
    cells = [
        f'<div style="max-width:{SIZE}px">{svg}<br><small>{escape(text)}</small></div>'
        for svg, text in pictures
    ]
    return f'<div style="display:flex;gap:2rem;flex-wrap:wrap">{"".join(cells)}</div>'
