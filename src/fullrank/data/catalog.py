"""Data sets by name."""

import importlib.util
import inspect
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fullrank.data.dataset import GraphDataset
from fullrank.data.sources import ogb, tu
from fullrank.data.sources.csv import read_smiles_csv
from fullrank.data.sources.python_code import python_code
from fullrank.data.sources.qm9 import QM9
from fullrank.data.tables import is_table
from fullrank.errors import DataError, nearest

STANDARD_LIBRARY = "python-stdlib"


class UnknownOption(DataError):
    """An option that a data set does not have."""

    def __init__(self, name: str | Path, option: str, known: Iterable[str]) -> None:
        super().__init__(f"{name} has no option {option!r}; it has {', '.join(known)}")
        self.option = option


def known_names() -> dict[str, str]:
    """Every data set that `load` knows, with a line about it."""
    names = {"qm9": "130,831 molecules, 12 properties (package qm9pack)"}
    names |= dict.fromkeys(tu.NAMES, "TU collection")
    if importlib.util.find_spec("ogb"):
        names |= dict.fromkeys(ogb.names(), "Open Graph Benchmark")
        names[ogb.WITHDRAWN] = "withdrawn by OGB; from a folder only"
    names[STANDARD_LIBRARY] = "names of the functions of Python's standard library"
    return names


def load(name: str | Path, **options: Any) -> GraphDataset:
    """The data set ``name``, prepared at the first call.

    Args:
        name: ``"qm9"``, a set of the TU collection such as ``"MUTAG"``, an OGB set such
            as ``"ogbg-molhiv"``, ``"python-stdlib"``; or the path of a CSV of
            molecules, a folder in TU layout or a folder of Python sources.
        options: Those of `QM9`, `TU`, `OGB`, `python_code`, `read_smiles_csv` or
            `read_tu_folder`.
    """
    source, arguments = _source(str(name))
    known = list(inspect.signature(source).parameters)[len(arguments) :]
    for option in options:
        if option not in known:
            raise UnknownOption(name, option, known)
    return source(*arguments, **options)


def _source(name: str) -> tuple[Callable[..., GraphDataset], tuple[str, ...]]:
    """What makes the data set, and its first arguments."""
    if name == "qm9":
        return QM9, ()
    if name in tu.NAMES:
        return tu.TU, (name,)
    if name.startswith("ogbg-") and name in known_names():
        return ogb.OGB, (name,)
    if name == STANDARD_LIBRARY:
        return python_code, (sysconfig.get_paths()["stdlib"],)
    path = Path(name)
    if is_table(path):
        return read_smiles_csv, (name,)
    if any(path.glob("*_A.txt")):
        return tu.read_tu_folder, (name,)
    if any(path.rglob("*.py")):
        return python_code, (name,)
    if path.is_dir():
        raise DataError(
            f"the folder {name!r} holds neither NAME_A.txt, as the TU layout does, nor "
            f"Python sources"
        )
    raise DataError(
        f"there is no data set and no folder {name!r}{nearest(name, known_names())}; "
        f"`fullrank data list` shows all sets"
    )
