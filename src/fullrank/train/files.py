"""Atomic files, and typed records in them."""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from fullrank.data.parsing import parse_json
from fullrank.errors import RunError

_PART = ".part"


@contextlib.contextmanager
def replacing(file: Path, mode: str = "w", **options: Any) -> Iterator[IO]:
    """Open a temporary file that replaces ``file`` once it is written to disk."""
    handle, name = tempfile.mkstemp(_PART, f".{file.name}.", file.parent)
    try:
        with os.fdopen(handle, mode, **options) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, file)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files left by processes that were killed."""
    for file in folder.rglob(f".*{_PART}"):
        file.unlink(missing_ok=True)


def write_text(file: Path, text: str) -> None:
    """Write ``text`` atomically."""
    with replacing(file, encoding="utf-8", newline="") as stream:
        stream.write(text)


def write_json(file: Path, content: Any) -> None:
    """Write ``content`` as JSON atomically."""
    write_text(file, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


class Record(BaseModel):
    """The typed content of a JSON file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def write(self, file: Path) -> None:
        """Write the record atomically."""
        write_json(file, self.model_dump(mode="json"))

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read and validate a record."""
        try:
            return cls.model_validate(parse_json(file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise RunError(f"{file} is missing") from None
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            raise RunError(
                f"{file} is not a file of this version of fullrank: "
                f"{key}: {first['msg']}"
            ) from None
        except ValueError as error:
            raise RunError(f"{file} is damaged: {error}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
