"""The graph property sets of the Open Graph Benchmark by name.

The ``ogb`` package provides names, addresses and evaluators. Its loader is not used,
because it cannot read its own cache with torch ≥ 2.6.
"""

import csv
import importlib.util
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fullrank.data.cache import data_root, prepared, shown
from fullrank.data.dataset import GraphDataset
from fullrank.data.files import content_digest, downloaded, in_mirror, unpacked
from fullrank.data.packed.graphs import PackedGraphs
from fullrank.data.sources.base import Location, Source
from fullrank.data.sources.ogb_raw import METRICS, Code, Molecules, Proteins, RawSet
from fullrank.errors import DataError
from fullrank.extras import missing

# Withdrawn by OGB because of label leakage; can be read from an existing copy.
WITHDRAWN = "ogbg-code"


class OGBSource(Source):
    """A graph property set of the Open Graph Benchmark.

    Attributes:
        name: Such as ``ogbg-molhiv``; the withdrawn ``ogbg-code`` needs a folder.
        mirror: A folder that contains the archive or its content, used instead of
            downloading; ``$FULLRANK_MIRROR`` by default.
        folder: The folder of the unpacked set.
    """

    kind: Literal["ogb"] = "ogb"
    mirror: Location | None = None
    folder: Location | None = None

    locations = ("root", "mirror", "folder")

    @classmethod
    def known_names(cls) -> dict[str, str]:
        if importlib.util.find_spec("ogb") is None:
            return {}
        known = dict.fromkeys(_master(), "Open Graph Benchmark")
        return known | {WITHDRAWN: "withdrawn by OGB; read from a folder only"}

    @classmethod
    def reads(cls, path: Path) -> bool:
        # Names are known only to the package; without it, loading names the extra.
        return path.name.startswith("ogbg-") and not cls.known_names()

    def _load(self, labelled: bool, progress: bool) -> "OGBDataset":
        name, home = self.name, data_root(self.root)
        known = self._known()
        held = self.folder or in_mirror(
            known["url"], self.mirror, name.replace("-", "_")
        )
        if held and not held.exists():
            raise DataError(f"there is no folder {held}")
        variant = f"-{content_digest(held)[:12]}" if held else ""

        def prepare(target: Path) -> None:
            with unpacked(held or downloaded(known["url"], home), home) as unzipped:
                raw = _reader(known)(name, known, unzipped)
                blocks = shown(raw.blocks(), None, name, progress)
                PackedGraphs.write(target, blocks, raw.description().to_json)

        return OGBDataset.described(prepared(home / f"{name}{variant}", prepare))

    def _known(self) -> Mapping[str, str]:
        """The entry of the set in OGB's table."""
        known = _master()
        if self.name == WITHDRAWN:
            if self.folder is None:
                raise DataError(
                    f"{WITHDRAWN} was withdrawn by OGB and cannot be downloaded; use "
                    f"ogbg-code2, or set folder to an existing copy"
                )
            return known["ogbg-code2"]
        if self.name not in known:
            raise DataError(
                f"OGB has no graph set {self.name!r}; it has {', '.join(known)}"
            )
        return known[self.name]


class OGBDataset(GraphDataset):
    """A graph property set with OGB's own evaluator."""

    def evaluate(self, y_true: Any, y_pred: Any) -> dict[str, float]:
        """OGB's metric.

        Args:
            y_true: Targets ``[G, T]``; for code the words of each name.
            y_pred: Scores ``[G, T]``, classes ``[G]``, or words.
        """
        from ogb.graphproppred import Evaluator

        # The withdrawn set is scored like its replacement.
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


def OGB(
    name: str,
    root: str | Path | None = None,
    mirror: str | Path | None = None,
    folder: str | Path | None = None,
    progress: bool = True,
) -> GraphDataset:
    """An OGB graph property set, prepared on the first call; see `OGBSource`."""
    options = {"root": root, "mirror": mirror, "folder": folder}
    return OGBSource.checked(name, name=name, **options).load(progress=progress)


@cache
def _master() -> dict[str, dict[str, str]]:
    """OGB's table of data sets by name."""
    # Not imported, because the package imports all of its loaders.
    spec = importlib.util.find_spec("ogb")
    if spec is None or spec.origin is None:
        raise missing("ogb")
    file = Path(spec.origin).parent / "graphproppred" / "master.csv"
    with file.open(encoding="utf-8") as lines:
        header, *rows = csv.reader(lines)
    return {
        name: {row[0]: row[column] for row in rows}
        for column, name in enumerate(header)
        if name
    }


def _reader(known: Mapping[str, str]) -> type[RawSet]:
    if known["data type"] == "mol":
        return Molecules
    return Code if known["task type"] == "subtoken prediction" else Proteins
