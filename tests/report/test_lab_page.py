import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

from browser import drawn, loaded_from_elsewhere, opened
from fullrank.lab import examine, reach
from fullrank.nn import GraphNet
from fullrank.report.lab_page import (
    NOT,
    _by_degree_figure,
    collision_figure,
    glance,
    lab_page,
)


@pytest.fixture(scope="module")
def findings():
    torch.manual_seed(0)
    graphs = []
    for _ in range(6):
        edges = torch.randint(0, 8, (2, 14))
        edges = torch.cat([edges, edges.flip(0)], dim=1).unique(dim=1)
        graphs.append(Data(x=torch.randn(8, 3), edge_index=edges))
    batch = Batch.from_data_list(graphs)
    return {
        conv: examine(GraphNet(3, 6, 1, 2, conv=conv), batch)
        for conv in ("gcn", "expc", "combc", "sage", "gen")
    }


def reaches():
    edges = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    path = Data(x=torch.randn(4, 3), edge_index=edges)
    return {
        conv: reach(GraphNet(3, 4, 1, 2, conv=conv), path) for conv in ("gcn", "expc")
    }


def test_the_glance_has_a_row_for_each_layer_and_never_mixes_jacobians(findings):
    columns, rows = glance(findings)
    assert [row[:2] for row in rows[:3]] == [
        ["gcn", "convs.0"],
        ["gcn", "convs.1"],
        ["expc", "convs.0"],
    ]
    cells = [dict(zip(columns, row, strict=True)) for row in rows]
    for cell in cells:
        ranks = [cell[name] for name in ("rank M", "rank J", "rank J (moving)")]
        assert sum(not rank.startswith(NOT) for rank in ranks) == 1
        # What is not there says why.
        assert all(len(text) > len(NOT) for text in cell.values())
    gcn = cells[0]
    assert gcn["rank M"] == gcn["rank R"] == "1.00"
    assert gcn["outputs collide"].startswith("yes, gap ")
    assert not cells[2]["sampling"].startswith(NOT)
    assert "never M H" in cells[2]["kept"]


def test_lines_that_coincide_stay_visible(findings):
    twice = {"one": findings["gcn"], "other": findings["gcn"]}
    first, *_, last = _by_degree_figure(twice, "kept", "kept").data
    assert list(first.x) == list(last.x) or first.name == last.name
    assert first.line.width > last.line.width


def test_the_picture_of_a_collision_shows_both_neighbourhoods_and_both_outputs(
    findings,
):
    collision = findings["gcn"][0].output
    figure = collision_figure(collision)
    first, second, said_first, said_second = figure.data
    assert np.array_equal(first.z, collision.first.x)
    assert np.array_equal(second.z, collision.second.x)
    assert not np.allclose(first.z, second.z, atol=1e-3)
    assert np.allclose(said_first.y, said_second.y, atol=1e-9)


def test_the_page_in_a_browser(findings, tmp_path):
    page = tmp_path / "lab.html"
    html = lab_page("A lab page", "five models", findings, {"seed": "0"}, reaches())
    page.write_text(html, encoding="utf-8")
    layers = sum(len(layers) for layers in findings.values())
    with opened(page, tmp_path / "profile") as browser:
        # Three panels of ranks, one of distances, one of sampling, one for each layer.
        drawn(browser, 5 + layers)
        assert loaded_from_elsewhere(browser) == []
        headings = [
            element.text for element in browser.find_elements("css selector", "h2")
        ]
        assert headings == [
            "At a glance",
            "How much rank is kept",
            "How far information travels",
            "Sampling of Re-SUM",
            "Two neighbourhoods, one output",
        ]
        rows = browser.find_elements("css selector", "tbody tr")
        assert len(rows) == layers
        caption = browser.find_element("css selector", "caption").text
        assert "a: " in caption
        assert "never M H" in caption
