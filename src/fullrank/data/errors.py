"""The one exception of this room."""


class DataError(ValueError):
    """What is wrong with a file, a name or a graph, and what to do about it."""
