import networkx as nx
import pytest
import torch
from torch_geometric.data import Data

from browser import loaded_from_elsewhere, opened
from fullrank.data import load_dataset
from fullrank.lab import cannot_count, cfi_pair, merged
from fullrank.lab.graphs.pairs import as_data
from fullrank.nn import GraphNet
from fullrank.report.merging import (
    WholeGraphs,
    cost_rows,
    merged_counts,
    whole_graph_sections,
)
from fullrank.report.page import render_page


@pytest.fixture(scope="module")
def molecules(tmp_path_factory):
    """1-WL cannot tell decalin from bicyclopentyl; toluene is there twice."""
    folder = tmp_path_factory.mktemp("molecules")
    rows = [
        ("C1CCC2CCCCC2C1", 1.0),
        ("C1CCC(C1)C1CCCC1", 3.0),
        ("Cc1ccccc1", 5.0),
        ("c1ccccc1C", 5.0),
        ("CCO", 7.0),
    ]
    file = folder / "mine.csv"
    file.write_text("smiles,y\n" + "".join(f"{s},{y}\n" for s, y in rows))
    return load_dataset(file, targets=["y"], root=folder, progress=False)


class Skeleton(torch.nn.Module):
    """A network that sees which atoms are joined, and nothing else."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = GraphNet(1, 8, 4, 3, conv="expc")

    def forward(self, batch):
        ones = torch.ones(batch.num_nodes, 1, dtype=self.net.encoder.weight.dtype)
        return self.net(ones, batch.edge_index, batch=batch.batch)


@pytest.fixture(scope="module")
def studies(molecules):
    model = Skeleton()
    merging = merged(model, molecules.loader(batch_size=3))
    return {"skeleton": WholeGraphs(merging, cannot_count(model))}


def test_how_many_are_merged_and_what_it_costs(studies, molecules):
    columns, (row,) = merged_counts(studies)
    assert dict(zip(columns, row, strict=True)) == {
        "model": "skeleton",
        "graphs": "5",
        "embeddings": "3",
        "at 1000 × tolerance": "3",
        "the same graph": "2 in 1 groups",
        "merged by 1-WL": "2 in 1 groups",
        "merged by the model": "none",
    }
    ((model, target, _, merged_error, least_error),) = cost_rows(studies, molecules)
    assert (model, target) == ("skeleton", "y")
    assert float(merged_error) == pytest.approx(2 / 5)
    assert float(least_error) == 0


def test_the_sections_in_a_browser(studies, molecules, tmp_path):
    sections = whole_graph_sections(studies, molecules)
    page = tmp_path / "page.html"
    page.write_text(render_page("Merged", "", sections, {}), encoding="utf-8")
    with opened(page, tmp_path / "profile") as browser:
        assert loaded_from_elsewhere(browser) == []
        assert len(browser.find_elements("css selector", "svg")) == 2 * 2 + 2
        text = browser.find_element("css selector", "body").text
        assert "distinguished by" in text
        assert "no witness among" in text


def test_graphs_that_are_no_molecules_are_drawn_too():
    from fullrank.report.graph_drawings import draw_graph, draw_molecule

    first, second = map(as_data, cfi_pair(nx.cycle_graph(3)))
    for graph in (first, second):
        assert draw_graph(graph).count("<circle") == graph.num_nodes
        assert draw_graph(graph).count("<line") == graph.num_edges // 2
    assert draw_molecule("no molecule") is None
    empty = Data(x=torch.ones(1, 1), edge_index=torch.empty(2, 0).long())
    assert draw_graph(empty).count("<circle") == 1
