"""The ``fullrank`` program: finds the verb, runs it, turns errors into sentences."""

import difflib
import importlib
import sys
from collections.abc import Sequence

import typer
from rich.console import Console

from fullrank import __version__
from fullrank.allocator import keep_memory

# Each verb lives in fullrank.cli.<verb> as the Typer application `app`; it is
# imported only when it is called, so that `fullrank --help` answers at once.
VERBS = {
    "quickstart": "Train on real molecules and show what keeping the rank does.",
    "train": "Train one model as a configuration says; resume what was interrupted.",
    "evaluate": "Measure a finished run on its data.",
    "predict": "Predict for your own molecules or graphs.",
    "inspect": "Show what a layer or a trained model cannot tell apart.",
    "expressiveness": "Count the pairs of graphs that each layer tells apart.",
    "reproduce": "Run a table of the paper and set it beside the published numbers.",
    "report": "Make a page and a Markdown file from run folders.",
    "data": "List, prepare, describe and verify data sets.",
    "bench": "Measure speed and memory against the plain formula and PyG's layers.",
}


class _Verbs(typer.core.TyperGroup):
    """A command group that imports a verb when it is needed."""

    def list_commands(self, ctx) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx, cmd_name: str):
        if cmd_name not in VERBS:
            nearest = difflib.get_close_matches(cmd_name, VERBS, n=1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            ctx.fail(f"there is no command {cmd_name!r}{hint}")
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
        False, "--version", callback=_show_version, is_eager=True, help="And leave."
    ),
) -> None:
    """Graph neural networks whose aggregators keep the rank of what they aggregate."""


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"cannot open {str(error.filename)!r}: {error.strerror}"
    return str(error)


def main(args: Sequence[str] | None = None) -> None:
    """Run the program; what the user got wrong ends in one sentence and status 2."""
    keep_memory()
    try:
        app(args=args)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        Console(stderr=True).print(
            f"error: {_sentence(error)}",
            style="bold red",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        sys.exit(2)


if __name__ == "__main__":
    main()
