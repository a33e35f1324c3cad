import pytest

from fullrank.data import DataError
from fullrank.data.options import Options


class Base(Options):
    """What it is.

    Attributes:
        size: How many,
            at most.
        name: Of it.
    """

    size: int = 1
    name: str = ""


class Special(Base):
    """More of it.

    Attributes:
        name: Of the special one.
        color: Its ``colour``.
    """

    color: str = "red"


def test_documentation_is_inherited_and_replaced():
    assert Special.documentation() == {
        "size": "How many, at most.",
        "name": "Of the special one.",
        "color": "Its ``colour``.",
    }


def test_wrong_options_are_named_with_their_value():
    assert Special.checked("it", size=2).size == 2
    with pytest.raises(DataError, match="it.*size.*'x'"):
        Special.checked("it", size="x")
    with pytest.raises(DataError, match="'colour'.*'color'"):
        Special.checked("it", colour="blue")
