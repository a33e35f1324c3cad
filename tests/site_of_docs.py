"""Build the site of the docs, serve it, and look at what was built."""

import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

ROOT = Path(__file__).parents[1]
_COPIED = ("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md")


def build(folder, quick, builder="html"):
    """Build a copy of the docs in ``folder``, as ``make docs`` does, and return it."""
    docs = folder / "docs"
    if not docs.exists():
        ours = shutil.ignore_patterns("_build", "generated", "__pycache__")
        shutil.copytree(ROOT / "docs", docs, ignore=ours)
        (folder / "src").symlink_to(ROOT / "src")
        for name in _COPIED:
            (folder / name).symlink_to(ROOT / name)
    out = docs / "_build" / builder
    flags = ["-q", "-W", "--keep-going", "-d", str(docs / "_build" / "doctrees")]
    process = subprocess.run(
        [sys.executable, "-m", "sphinx", *flags, "-b", builder, str(docs), str(out)],
        env={**os.environ, "FULLRANK_DOCS_QUICK": "1" if quick else "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-6000:]
    return out


@contextmanager
def served(folder):
    """Serve a folder on the loopback interface; yields the address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Page(HTMLParser):
    """The anchors of a page, its links, and what the browser loads for it."""

    _LOADED: ClassVar = {
        "script": "src",
        "img": "src",
        "iframe": "src",
        "source": "src",
    }
    _SHEETS: ClassVar = {"stylesheet", "preload", "icon", "modulepreload", "preconnect"}

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if found.get("id"):
            self.anchors.add(found["id"])
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag == "link" and self._SHEETS & set((found.get("rel") or "").split()):
            self.loaded.append(found["href"])
        if found.get(self._LOADED.get(tag, "")):
            self.loaded.append(found[self._LOADED[tag]])


def pages(site):
    """All pages of a site by name."""
    files = sorted(site.rglob("*.html"))
    shipped = site / "_static"
    return {
        str(file.relative_to(site)): Page(file)
        for file in files
        if shipped not in file.parents
    }


def foreign_addresses_in_styles(site):
    """What the style sheets of a site load from another host."""
    found = []
    for file in site.rglob("*.css"):
        text = file.read_text("utf-8", errors="replace")
        found += re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)", text)
    return found
