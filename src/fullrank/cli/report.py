"""``fullrank report``: the paper's tables from run folders, as a page and Markdown."""

from pathlib import Path

import typer
from rich.console import Console

app = typer.Typer(add_completion=False)


@app.command()
def report(
    source: Path = typer.Argument(
        Path("runs"), help="The folder of run folders, or a results.json made of one."
    ),
    out: Path = typer.Option(
        Path("reproduction"), help="Where results.html, .md and .json go."
    ),
) -> None:
    """Show the runs that are there beside the published numbers."""
    from fullrank.paper.record import make_record, read_record
    from fullrank.report.reproduction import write_reproduction

    record = read_record(source) if source.is_file() else make_record(source)
    console = Console(stderr=True)
    for name, reason in record["runs"]["unread"].items():
        console.print(
            f"not read: {name}: {reason}",
            style="yellow",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    page = write_reproduction(out, record)
    console.print(f"the page is {page}", highlight=False, soft_wrap=True)
