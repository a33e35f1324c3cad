"""Options as pydantic models: checked, frozen, documented in one place."""

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from fullrank.errors import DataError, nearest


class Options(BaseModel):
    """What a data source or a featurizer can be told."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @classmethod
    def checked(cls, subject: str, **values: Any) -> Self:
        """The options; a `DataError` names the first wrong one and its value.

        Args:
            subject: What the options belong to, for the message.
        """
        try:
            return cls(**values)
        except ValidationError as error:
            raise DataError("; ".join(cls._complaints(subject, error))) from None

    @classmethod
    def _complaints(cls, subject: str, error: ValidationError) -> Iterator[str]:
        known = [name for name in cls.model_fields if name not in ("kind", "name")]
        for entry in error.errors():
            option = _option(entry["loc"])
            if entry["type"] == "extra_forbidden":
                yield (
                    f"{subject} has no option {option!r}{nearest(option, known)}; it "
                    f"has {', '.join(known)}"
                )
            else:
                reason = entry["msg"].removeprefix("Value error, ")
                reason = reason.replace("Input should be", "it should be")
                yield f"{subject}: {option} is {entry['input']!r}; {reason}"

    @classmethod
    def documentation(cls) -> dict[str, str]:
        """What the ``Attributes`` section of the docstrings says of each option."""
        found: dict[str, str] = {}
        for parent in reversed(cls.__mro__):
            text = inspect.cleandoc(parent.__doc__ or "")
            section = text.partition("\nAttributes:\n")[2]
            entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", section, re.M)
            found |= {name: re.sub(r"\s+", " ", about) for name, about in entries}
        return {name: found[name] for name in cls.model_fields if name in found}


def _option(location: Iterable[Any]) -> str:
    """The keys that lead to an option, without the members of unions that pydantic
    tried."""
    kinds, known = [Options], set[str]()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        known |= kind.model_fields.keys()
    first, *rest = location
    return ".".join([str(first), *(part for part in rest if part in known)])
