"""Packages that only molecules need."""

import importlib.util
from functools import cache

from fullrank.errors import MissingPackage


@cache
def need(package: str) -> None:
    """Say how to install a package that is not there."""
    if importlib.util.find_spec(package) is None:
        raise MissingPackage(f"molecules need {package}: pip install 'fullrank[chem]'")
