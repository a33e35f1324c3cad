"""Data sources: one options class each, chosen by ``kind`` or by the name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from fullrank.data.dataset import GraphDataset
from fullrank.data.sources.base import Source, absolute
from fullrank.data.sources.csv import CsvSource
from fullrank.data.sources.ogb import OGBSource
from fullrank.data.sources.python_code import PythonCodeSource
from fullrank.data.sources.qm9 import QM9Source
from fullrank.data.sources.tu import TUFolderSource, TUSource
from fullrank.errors import DataError, nearest

SOURCES: tuple[type[Source], ...] = (
    QM9Source,
    TUSource,
    OGBSource,
    CsvSource,
    TUFolderSource,
    PythonCodeSource,
)


def _kind(source: type[Source]) -> str:
    return source.model_fields["kind"].default


def _with_kind(options: Any) -> Any:
    """The options, with the kind inferred from the name if it is missing."""
    if isinstance(options, Mapping) and not options.get("kind"):
        name = options.get("name")
        if isinstance(name, str | Path):
            return {**options, "kind": _kind(source_class(name))}
    return options


AnySource = Annotated[
    QM9Source | TUSource | OGBSource | CsvSource | TUFolderSource | PythonCodeSource,
    Field(discriminator="kind"),
    BeforeValidator(_with_kind),
]


def known_names() -> dict[str, str]:
    """All data sets that are known by name, each with a short description."""
    return {k: about for s in SOURCES for k, about in s.known_names().items()}


def source_class(name: str | Path) -> type[Source]:
    """The source of the data set ``name``, or the one that can read this path."""
    for source in SOURCES:
        if isinstance(name, str) and name in source.known_names():
            return source
    path = absolute(name)
    for source in SOURCES:
        if source.reads(path):
            return source
    if path.is_dir():
        raise DataError(
            f"the folder {str(name)!r} contains neither NAME_A.txt (TU layout) nor "
            f"Python sources"
        )
    raise DataError(
        f"there is no data set and no folder {str(name)!r}"
        f"{nearest(str(name), known_names())}; `fullrank data list` shows all sets"
    )


def source(name: str | Path, kind: str | None = None, **options: Any) -> Source:
    """The options of a data set.

    Args:
        name: ``"qm9"``, a set of the TU collection such as ``"MUTAG"``, an OGB set such
            as ``"ogbg-molhiv"``, ``"python-stdlib"``; or the path of a table of
            molecules, a folder in TU layout or a folder of Python sources. A folder
            with the name of a known set is ``"./MUTAG"`` or ``Path("MUTAG")``.
        kind: The kind of source; inferred from the name by default.
        options: The options of `QM9Source`, `TUSource`, `OGBSource`, `CsvSource`,
            `TUFolderSource` or `PythonCodeSource`.
    """
    kinds = {_kind(known): known for known in SOURCES}
    if kind is not None and kind not in kinds:
        raise DataError(f"kind must be one of {', '.join(kinds)}, got {kind!r}")
    chosen = kinds[kind] if kind else source_class(name)
    return chosen.checked(str(name), name=str(name), **options)


def load_dataset(
    name: str | Path, labelled: bool = True, progress: bool = True, **options: Any
) -> GraphDataset:
    """Load a data set, and prepare it on the first call.

    Args:
        name: As in `source`.
        labelled: If false, a table can be read without targets.
        progress: Whether to show a progress bar during preparation.
        options: As in `source`.
    """
    return source(name, **options).load(labelled, progress)
