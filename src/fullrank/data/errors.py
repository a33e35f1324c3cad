"""The one exception of this room, and a hint that often helps."""

import difflib
from collections.abc import Iterable


class DataError(ValueError):
    """What is wrong with a file, a name or a graph, and what to do about it."""


def nearest(name: str, known: Iterable[str]) -> str:
    """``" (did you mean 'MUTAG'?)"``, or nothing if nothing is near."""
    by_lower = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f" (did you mean {by_lower[found[0]]!r}?)" if found else ""
