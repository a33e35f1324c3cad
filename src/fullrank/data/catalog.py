"""Data sets by name."""

import importlib.util
from typing import Any

from fullrank.data import ogb, tu
from fullrank.data.dataset import GraphDataset
from fullrank.data.errors import DataError, nearest
from fullrank.data.python_code import python_code
from fullrank.data.qm9 import QM9

STANDARD_LIBRARY = "python-stdlib"


def known_names() -> dict[str, str]:
    """Every data set that `load` knows, with a line about it."""
    names = {"qm9": "130,831 molecules, 12 properties (package qm9pack)"}
    names |= dict.fromkeys(tu.NAMES, "TU collection")
    if importlib.util.find_spec("ogb"):
        names |= dict.fromkeys(ogb.names(), "Open Graph Benchmark")
        names[ogb.WITHDRAWN] = "withdrawn by OGB; from a folder only"
    names[STANDARD_LIBRARY] = "names of the functions of Python's standard library"
    return names


def load(name: str, **options: Any) -> GraphDataset:
    """The data set ``name``, prepared at the first call.

    Args:
        name: ``"qm9"``, a set of the TU collection such as ``"MUTAG"``, an OGB set such
            as ``"ogbg-molhiv"``, or ``"python-stdlib"``.
        options: Those of `QM9`, `TU`, `OGB` or `python_code`, ``root`` among them.
    """
    if name == "qm9":
        return QM9(**options)
    if name in tu.NAMES:
        return tu.TU(name, **options)
    if name.startswith("ogbg-") and name in known_names():
        return ogb.OGB(name, **options)
    if name == STANDARD_LIBRARY:
        return python_code(**options)
    raise DataError(
        f"there is no data set {name!r}{nearest(name, known_names())}; "
        f"`fullrank data list` shows all"
    )
