"""Where the real data sets are that lie beside the project."""

import os
from pathlib import Path

import pytest


def shared_data() -> Path:
    """The folder ``../shared/data``, or ``$FULLRANK_SHARED_DATA``; skips if absent."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("FULLRANK_SHARED_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no shared data in {folder}")
    return folder
