"""Data sets by name."""

from typing import Any

from fullrank.data.dataset import GraphDataset
from fullrank.data.errors import DataError
from fullrank.data.qm9 import QM9


def load(name: str, **options: Any) -> GraphDataset:
    """The data set ``name``, prepared at the first call."""
    if name == "qm9":
        return QM9(**options)
    raise DataError(f"there is no data set {name!r}")
