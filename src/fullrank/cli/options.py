"""Options that several verbs share."""

import logging
from functools import partial
from pathlib import Path

import typer

from fullrank.errors import ConfigError


def writable(file: Path | None) -> Path | None:
    """A file to write, refused before any work if its folder is not there."""
    if file is not None and not file.parent.is_dir():
        raise ConfigError(f"cannot write {file}: there is no folder {file.parent}")
    return file


def _errors_only(context: typer.Context, quiet: bool) -> bool:
    log = logging.getLogger("fullrank")
    context.call_on_close(partial(log.setLevel, log.level))
    if quiet:
        log.setLevel(logging.ERROR)
    return quiet


QUIET = typer.Option(False, "--quiet", "-q", callback=_errors_only, help="Errors only.")
