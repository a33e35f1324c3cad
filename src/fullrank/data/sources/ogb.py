"""The graph property sets of the Open Graph Benchmark by name.

The ``ogb`` package gives names, addresses and evaluators; its own loader is not used,
for it cannot read its cache with torch ≥ 2.6.
"""

import csv
import hashlib
import importlib.util
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fullrank.data.cache import data_root, prepared, shown
from fullrank.data.dataset import GraphDataset, described
from fullrank.data.files import local_copy, unpacked
from fullrank.data.packed.storage import write
from fullrank.data.sources.ogb_raw import METRICS, Code, Molecules, Proteins, RawSet
from fullrank.errors import DataError, MissingPackage

# Withdrawn by OGB because its labels leak; readable from a copy of one's own.
WITHDRAWN = "ogbg-code"


class OGB(GraphDataset):
    """An OGB graph property set, prepared at the first call.

    Args:
        name: Such as ``"ogbg-molhiv"``; the withdrawn ``"ogbg-code"`` with a folder.
        root: Folder of prepared sets; the user's cache by default.
        mirror: A folder to take the archive from instead of OGB's address;
            ``$FULLRANK_MIRROR`` by default.
        folder: Where the unpacked set is.
        progress: Show a bar while preparing.
    """

    def __init__(
        self,
        name: str,
        root: str | Path | None = None,
        mirror: str | Path | None = None,
        folder: str | Path | None = None,
        progress: bool = True,
    ) -> None:
        home, known = data_root(root), _about(name, folder)

        def prepare(target: Path) -> None:
            source = (
                Path(folder)
                if folder
                else local_copy(known["url"], home, mirror, name.replace("-", "_"))
            )
            with unpacked(source, home) as unzipped:
                raw = _reader(known)(name, known, unzipped)
                blocks = shown(raw.blocks(), None, name, progress)
                write(target, blocks, asdict(raw.description()))

        variant = f"-{_fingerprint(Path(folder))}" if folder else ""
        graphs = prepared(home / f"{name}{variant}", prepare)
        super().__init__(graphs=graphs, **described(graphs.info))

    def evaluate(self, y_true: Any, y_pred: Any) -> dict[str, float]:
        """OGB's own measure.

        Args:
            y_true: Targets ``[G, T]``; for code the words of each name.
            y_pred: Scores ``[G, T]``, classes ``[G]``, or words.
        """
        from ogb.graphproppred import Evaluator

        # The withdrawn set is measured like the one that replaced it.
        name = "ogbg-code2" if self.name == WITHDRAWN else self.name
        if self.task == "tokens":
            given = {"seq_ref": list(y_true), "seq_pred": list(y_pred)}
        else:
            tables = (np.asarray(y_true), np.asarray(y_pred))
            y_true, y_pred = (t[:, None] if t.ndim == 1 else t for t in tables)
            given = {"y_true": y_true, "y_pred": y_pred}
        return {
            METRICS.get(key, key): float(value)
            for key, value in Evaluator(name).eval(given).items()
        }


def names() -> list[str]:
    """The graph property sets that OGB offers."""
    return list(_master())


def _master() -> dict[str, dict[str, str]]:
    """OGB's table of sets, by name."""
    # Found, not imported: the package imports all of its loaders.
    spec = importlib.util.find_spec("ogb")
    if spec is None or spec.origin is None:
        raise MissingPackage("OGB sets need ogb: pip install 'fullrank[ogb]'")
    file = Path(spec.origin).parent / "graphproppred" / "master.csv"
    with file.open(encoding="utf-8") as lines:
        header, *rows = csv.reader(lines)
    return {
        name: {row[0]: row[column] for row in rows}
        for column, name in enumerate(header)
        if name
    }


def _about(name: str, folder: str | Path | None) -> Mapping[str, str]:
    known = _master()
    if name == WITHDRAWN:
        if folder is None:
            raise DataError(
                f"{WITHDRAWN} was withdrawn by OGB and cannot be downloaded; use "
                f"ogbg-code2, or give the folder of a copy you have"
            )
        return known["ogbg-code2"]
    if name not in known:
        raise DataError(f"OGB has no graph set {name!r}; it has {', '.join(known)}")
    return known[name]


def _reader(known: Mapping[str, str]) -> type[RawSet]:
    if known["data type"] == "mol":
        return Molecules
    return Code if known["task type"] == "subtoken prediction" else Proteins


def _fingerprint(folder: Path) -> str:
    """Changes when the files do."""
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}")
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    seen = [(str(f.resolve()), f.stat().st_size, f.stat().st_mtime_ns) for f in files]
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:10]
