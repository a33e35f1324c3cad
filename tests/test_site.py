"""The site of the docs: built without a warning, complete, and whole in a browser.

The fast suite builds the quick form, whose notebooks are not run.
"""

import ast
import importlib
import json
import re
from urllib.parse import unquote, urlsplit

import pytest

from browser import opened
from fullrank.cli.main import VERBS
from fullrank.data import known_names
from fullrank.train.config import documented_keys
from site_of_docs import ROOT, build, foreign_addresses_in_styles, pages, served

DOCS = ROOT / "docs"
MODULES = ("nn", "lab", "data", "train", "sklearn", "testing")
#: A page of each kind, for the browser of the fast suite.
SOME = [
    "index.html",
    "tutorials/why-full-rank.html",
    "tutorials/from-a-spreadsheet-to-predictions.html",
    "guides/troubleshooting.html",
    "what-your-gnn-cannot-see.html",
    "results/results.html",
    "generated/commands/train.html",
    "generated/keys.html",
    "generated/datasets/qm9.html",
    "api/nn.html",
    "generated/api/fullrank.nn.ExpandingConv.html",
    "generated/api/fullrank.nn.StructuralCoefficients.html",
    "api/definitions.html",
    "_modules/fullrank/nn/functional.html",
]


def check_links(site, found):
    for name, page in found.items():
        for link in page.links:
            address = urlsplit(link)
            if address.scheme or link == "#":
                continue
            path = unquote(address.path)
            target = (site / name).parent / path if path else site / name
            assert target.resolve().is_file(), f"{name} links to {link}"
            other = str(target.resolve().relative_to(site.resolve()))
            if address.fragment and other in found:
                anchors = found[other].anchors
                assert unquote(address.fragment) in anchors, f"{name}: {link}"


def check_nothing_is_foreign(site, found):
    for name, page in found.items():
        for address in page.loaded:
            assert not re.match(r"(https?:)?//", address), f"{name} loads {address}"
    assert foreign_addresses_in_styles(site) == []


def check_in_a_browser(site, names, profile):
    with served(site) as host, opened(f"{host}/index.html", profile) as browser:
        for name in names:
            browser.get(f"{host}/{name}")
            broken = browser.execute_script(
                """return [...document.images]
                .filter(image => !(image.complete && image.naturalWidth > 0))
                .map(image => image.src)"""
            )
            assert broken == [], name
            said = [e for e in browser.get_log("browser") if e["level"] != "INFO"]
            assert said == [], f"{name}: {said}"
            events = [
                json.loads(entry["message"])["message"]
                for entry in browser.get_log("performance")
            ]
            asked = [
                event["params"]["request"]["url"]
                for event in events
                if event["method"] == "Network.requestWillBeSent"
            ]
            elsewhere = [
                address
                for address in asked
                if not address.startswith((host, "data:", "blob:", "chrome:"))
            ]
            assert elsewhere == [], name
            if name == SOME[10]:
                _wait_for(browser, "mjx-container svg")
        browser.get(f"{host}/search.html?q=ExpandingConv")
        _wait_for(browser, "#search-results li a")


def _wait_for(browser, selector):
    from selenium.webdriver.support.wait import WebDriverWait

    script = f"return document.querySelectorAll({selector!r}).length"
    WebDriverWait(browser, 60).until(lambda page: page.execute_script(script))


def check_that_all_is_there(site, found):
    for verb in VERBS:
        assert f"generated/commands/{verb}.html" in found
    for name in known_names():
        assert f"generated/datasets/{name}.html" in found
    text = (site / "generated" / "keys.html").read_text("utf-8")
    for key in documented_keys():
        assert key.key in text


@pytest.mark.timeout(1200)
def test_the_quick_form(tmp_path):
    """One test, since each process of the suite would build the site again."""
    site = build(tmp_path, quick=True)
    found = pages(site)
    check_that_all_is_there(site, found)
    check_links(site, found)
    check_nothing_is_foreign(site, found)
    check_in_a_browser(site, SOME, tmp_path / "profile")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_page_of_the_full_site(tmp_path):
    build(tmp_path, quick=False, builder="doctest")
    site = build(tmp_path, quick=False)
    found = pages(site)
    check_links(site, found)
    check_nothing_is_foreign(site, found)
    check_in_a_browser(site, list(found), tmp_path / "profile")


@pytest.mark.parametrize("name", MODULES)
def test_the_api_lists_every_public_name(name):
    module = importlib.import_module(f"fullrank.{name}")
    page = (DOCS / "api" / f"{name}.md").read_text("utf-8")
    listed = set(re.findall(r"^   (?:\w+\.)?(\w+)$", page, re.M))
    public = getattr(module, "__all__", None) or [
        key
        for key, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__ and key[0] != "_"
    ]
    assert set(public) <= listed | {"DataError"}
    assert all(hasattr(module, key) for key in listed)


def messages():
    """Every string of the package; what is filled in is an ellipsis."""
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(
                    part.value if isinstance(part, ast.Constant) else "…"
                    for part in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_the_program_has_the_messages_that_are_explained():
    page = (DOCS / "guides" / "troubleshooting.md").read_text("utf-8")
    explained = re.findall(r"\*\*`(.+?)`\*\*", page)
    assert len(explained) > 30
    known = [re.sub(r"[…\s]+", " ", message) for message in messages()]
    for message in explained:
        # A sentence may be put together from several strings.
        for part in re.split(r"…|, and |%: ", message):
            words = " ".join(part.split())
            assert any(words in text for text in known), f"{message!r}: {words!r}"


def test_every_tutorial_has_a_place():
    index = (DOCS / "tutorials" / "index.md").read_text("utf-8")
    for file in (DOCS / "tutorials").glob("*.md"):
        assert file.stem == "index" or f"\n{file.stem}\n" in index


def test_the_inventories_know_where_pyg_documents_a_layer():
    sphobjinv = pytest.importorskip("sphobjinv")
    file = DOCS / "_site" / "inventories" / "torch_geometric.inv"
    entries = {e.name: e for e in sphobjinv.Inventory(str(file)).objects}
    for name in ("torch_geometric.nn.conv.GCNConv", "torch_geometric.nn.GCNConv"):
        page = "torch_geometric.nn.conv.GCNConv"
        assert entries[name].uri_expanded == f"generated/{page}.html#{page}"
