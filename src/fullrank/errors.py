"""What a user can put right. The program turns these, and nothing else, into one
sentence; any other exception is a bug and is shown as one."""

import difflib
from collections.abc import Iterable

LONGEST_QUOTE = 60


class FullrankError(ValueError):
    """What is wrong, and what to do about it."""


class DataError(FullrankError):
    """A file, a table, a folder or a graph that cannot be read as it is."""


class ConfigError(FullrankError):
    """A configuration or an argument that cannot be run."""


class RunError(FullrankError):
    """A run, or a folder of runs, that cannot be read or continued."""


class ModelError(FullrankError):
    """A model file that cannot be used."""


class MissingPackage(FullrankError, ModuleNotFoundError):
    """A package that an optional part of fullrank needs."""


def nearest(name: str, known: Iterable[str]) -> str:
    """``" (did you mean 'MUTAG'?)"``, or nothing if nothing is near."""
    by_lower = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f" (did you mean {by_lower[found[0]]!r}?)" if found else ""


def quoted(text: str) -> str:
    """The text in quotes, shortened if it is long."""
    if len(text) <= LONGEST_QUOTE:
        return repr(text)
    return f"{text[:LONGEST_QUOTE]!r}… ({len(text):,} characters)"
