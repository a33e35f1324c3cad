"""Errors that the user can fix.

The program shows these, and no others, as a one-line message; any other exception is a
bug and is reported as one.
"""

import difflib
from collections.abc import Iterable

LONGEST_MESSAGE = 2000
LONGEST_QUOTE = 60


class FullrankError(ValueError):
    """What is wrong, and how to fix it.

    The middle of a very long message, which may quote a damaged file, is left out.
    """

    def __str__(self) -> str:
        text = super().__str__()
        if len(text) <= LONGEST_MESSAGE:
            return text
        half = LONGEST_MESSAGE // 2
        return f"{text[:half]} … {text[-half:]}"


class DataError(FullrankError):
    """A file, table, folder or graph that cannot be read."""


class ConfigError(FullrankError):
    """An invalid configuration or argument."""


class RunError(FullrankError):
    """A run, or a folder of runs, that cannot be read or resumed."""


class ModelError(FullrankError):
    """A model file that cannot be used."""


class MissingPackage(FullrankError, ModuleNotFoundError):
    """An optional package that is not installed."""


def nearest(name: str, known: Iterable[str]) -> str:
    """``" (did you mean 'MUTAG'?)"``, or an empty string if no name is similar."""
    by_lower = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f" (did you mean {by_lower[found[0]]!r}?)" if found else ""


def quoted(text: str) -> str:
    """The text in quotes, shortened if it is long."""
    if len(text) <= LONGEST_QUOTE:
        return repr(text)
    return f"{text[:LONGEST_QUOTE]!r}… ({len(text):,} characters)"
