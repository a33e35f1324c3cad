"""OGB's lists of atom and bond features."""

import sys
from functools import cache
from importlib import import_module
from typing import Any

from fullrank.extras import need


@cache
def ogb_features() -> Any:
    """The module ``ogb.utils.features``.

    Importing ``ogb`` starts a thread that asks PyPI for a newer version, unless the
    package for that is missing.
    """
    need("ogb")
    before = sys.modules.get("outdated")
    sys.modules["outdated"] = None  # type: ignore[assignment]
    try:
        return import_module("ogb.utils.features")
    finally:
        if before is None:
            del sys.modules["outdated"]
        else:
            sys.modules["outdated"] = before
