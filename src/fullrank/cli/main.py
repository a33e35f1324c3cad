"""The ``fullrank`` program: runs a command and reports errors in one line."""

import importlib
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console

from fullrank import interrupt
from fullrank.allocator import keep_memory
from fullrank.errors import FullrankError, nearest
from fullrank.extras import EXTRAS, missing
from fullrank.version import __version__

# The module fullrank.cli.<verb> defines the Typer application `app`. It is imported
# only when the command is called, so that `fullrank --help` is fast.
VERBS = {
    "quickstart": "Train four small models on QM9 and compare them.",
    "train": "Train on a table of molecules or by a configuration, or resume a run.",
    "tune": "Search for a better configuration, and train it.",
    "evaluate": "Recompute the metrics of a finished run.",
    "models": "List the models that come with the package, and show their cards.",
    "predict": "Predict for your own molecules or graphs.",
    "serve": "Serve predictions and the lab as a web page and an HTTP interface.",
    "explain": "Show the contributions of atoms and bonds to a prediction.",
    "embed": "Write the readout vector of each molecule.",
    "export": "Write a trained network as an ONNX file.",
    "inspect": "Show what a layer or a trained model cannot distinguish.",
    "expressiveness": "Count the pairs of graphs that each layer distinguishes.",
    "reproduce": "Run a table of the paper and compare it with the published numbers.",
    "report": "Create a page and a Markdown file from run folders.",
    "data": "List, prepare, describe and verify data sets.",
    "bench": "Measure speed, memory and accuracy beside PyG and chemprop.",
}


class _Verbs(typer.core.TyperGroup):
    """A command group that imports a command when it is needed."""

    def list_commands(self, ctx) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx, cmd_name: str):
        if cmd_name not in VERBS:
            ctx.fail(f"there is no command {cmd_name!r}{nearest(cmd_name, VERBS)}")
        module = importlib.import_module(f"fullrank.cli.{cmd_name}")
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        command.help = command.help or VERBS[cmd_name]
        return command

    def format_commands(self, ctx, formatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"fullrank {__version__}")
        raise typer.Exit()


app = typer.Typer(
    cls=_Verbs,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def fullrank(
    version: bool = typer.Option(
        False,
        "--version",
        callback=_show_version,
        is_eager=True,
        help="Show the version and exit.",
    ),
    debug: bool = typer.Option(
        False, "--debug", help="Show the traceback of an error."
    ),
) -> None:
    """Graph neural networks whose aggregators keep the rank of what they aggregate."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the program.

    Errors that the user can fix are reported in one line, with status 2. Any other
    exception is reported as a bug, with status 1.
    """
    keep_memory()
    given = sys.argv[1:] if args is None else list(args)
    try:
        app(args=given)
    except Exception as error:
        if interrupt.asked():  # the consequence of an interrupted call
            sys.exit(interrupt.STATUS)
        if "--debug" in given:
            traceback.print_exc()
        sentence = _sentence(error)
        if sentence is None:
            _print(_report_bug(error))
            sys.exit(1)
        _print(f"error: {sentence}")
        sys.exit(2)


def _sentence(error: Exception) -> str | None:
    """The message for the user, or None if the error is a bug."""
    if isinstance(error, FullrankError):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        return str(missing(package)) if package in EXTRAS else None
    if isinstance(error, OSError) and error.strerror:  # such as a full disk
        if error.filename is None:
            return error.strerror
        return f"cannot open {str(error.filename)!r}: {error.strerror}"
    return None


def _report_bug(error: Exception) -> str:
    """Write the traceback to a file, and return a message that names it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    handle, name = tempfile.mkstemp(prefix="fullrank-bug-", suffix=".txt", text=True)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        traceback.print_exception(error, file=stream)
    return (
        f"bug in fullrank: {type(error).__name__}: {error} ({Path(place.filename).name}"
        f", line {place.lineno}). The full traceback is in {name}; please report it"
    )


def _print(text: str) -> None:
    Console(stderr=True).print(
        text, style="bold red", markup=False, highlight=False, soft_wrap=True
    )
