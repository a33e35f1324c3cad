import re

import plotly.graph_objects as go
import pytest

from browser import drawn, loaded_from_elsewhere, opened
from fullrank.report.page import Figure, Heading, Section, Table, Text, render_page


@pytest.fixture
def page():
    blocks = [
        Heading("<b>heading</b>"),
        Text("a < b & c"),
        Table(["name", "value"], [["x<y", "1.5"]], caption="numbers"),
        Figure(go.Figure(go.Scatter(y=[1, 3, 2])), caption="a line"),
        Figure(go.Figure(go.Heatmap(z=[[1, 2], [3, 4]]))),
    ]
    return render_page("A title", "the lead", [Section("Part", blocks)], {"seed": "7"})


def test_all_blocks_are_there_and_text_is_escaped(page):
    body = page[page.index("<body>") :]
    assert "<h1>A title</h1>" in body
    assert "a &lt; b &amp; c" in body
    assert "&lt;b&gt;heading&lt;/b&gt;" in body
    assert "<td>x&lt;y</td><td>1.5</td>" in body
    assert "<figcaption>a line</figcaption>" in body
    assert "<dt>seed</dt><dd>7</dd>" in body
    assert body.count("Plotly.newPlot") == 2


def test_no_element_points_outside(page):
    without_scripts = re.sub(r"<script\b.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", without_scripts)
    assert "default-src 'none'" in page


def test_the_browser_draws_the_figures_and_asks_nobody(page, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(page, encoding="utf-8")
    with opened(file, tmp_path / "profile") as browser:
        boxes = drawn(browser, 2)
        assert all(width > 600 and height > 100 for width, height in boxes)
        assert loaded_from_elsewhere(browser) == []


def test_figures_shrink_with_the_window(page, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(page, encoding="utf-8")
    with opened(file, tmp_path / "profile") as browser:
        drawn(browser, 2)
        browser.set_window_size(500, 900)
        browser.refresh()
        assert all(width < 500 for width, _ in drawn(browser, 2))
        overflow = "return document.documentElement.scrollWidth > window.innerWidth"
        assert not browser.execute_script(overflow)
