"""The pages of the docs refer to each other by links that lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILT = {ROOT / "docs" / "_build", ROOT / "docs" / "generated"}
PAGES = [
    *ROOT.glob("*.md"),
    *(file for file in ROOT.glob("docs/**/*.md") if not BUILT & set(file.parents)),
]


def without_code(page):
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.S)


def anchors(page):
    """The anchors of the headings, as GitHub makes them."""
    text = without_code(page)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page)):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link
