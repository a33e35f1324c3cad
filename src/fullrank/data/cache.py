"""The cache of prepared data sets."""

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from glob import escape
from pathlib import Path
from typing import TypeVar

from filelock import FileLock
from platformdirs import user_cache_path

from fullrank.data.packed.graphs import PackedGraphs
from fullrank.data.packed.storage import HEADER, PackedFileError, read, writing

ROOT_VARIABLE = "FULLRANK_ROOT"
T = TypeVar("T")


def data_root(root: str | Path | None = None) -> Path:
    """``root``, or ``$FULLRANK_ROOT``, or the user's cache folder."""
    chosen = root or os.environ.get(ROOT_VARIABLE)
    return Path(chosen).expanduser() if chosen else user_cache_path("fullrank")


def prepared(folder: Path, prepare: Callable[[Path], None]) -> PackedGraphs:
    """Open the set in ``folder``, which ``prepare`` creates if necessary.

    If several processes need the same set, one prepares it and the others wait. A set
    that is damaged or of another version is prepared again.
    """
    try:
        return PackedGraphs.open(folder)
    except PackedFileError as error:
        found = error
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.with_name(f".{folder.name}.lock")).acquire()
    with lock:
        try:
            return PackedGraphs.open(folder)
        except PackedFileError:
            if folder.exists():
                logging.getLogger(__name__).warning("preparing again: %s", found)
            for unfinished in folder.parent.glob(f".{escape(folder.name)}.*/"):
                shutil.rmtree(unfinished)  # left by a process that was killed
            prepare(folder)
    return PackedGraphs.open(folder)


def prepared_sets(root: Path) -> dict[str, list[Path]]:
    """The folders of the prepared sets in ``root`` by name of the data set."""
    found: dict[str, list[Path]] = {}
    for header in sorted(root.glob(f"[!.]*/{HEADER}")):
        folder = header.parent
        try:
            name = str(read(folder).header["info"]["name"])
        except (PackedFileError, KeyError, TypeError):
            name = folder.name
        found.setdefault(name, []).append(folder)
    return found


def shown(
    items: Iterable[T], total: int | None, what: str, progress: bool
) -> Iterator[T]:
    """Yield ``items`` and show a progress bar if standard error is a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    hidden = not (progress and console.is_terminal)
    yield from track(items, what, total, console=console, disable=hidden)
