"""``fullrank report``: the paper's tables from run folders, as HTML and Markdown."""

from pathlib import Path

import typer
from rich.console import Console

app = typer.Typer(add_completion=False)
JOIN = typer.Option(
    [], metavar="FILE", help="A results.json of other runs, whose seeds are added."
)


@app.command()
def report(
    source: Path = typer.Argument(
        Path("runs"),
        help="The folder of run folders, or a results.json created from one.",
    ),
    join: list[Path] = JOIN,
    out: Path = typer.Option(
        Path("reproduction"), help="The folder for results.html, .md and .json."
    ),
) -> None:
    """Compare the finished runs with the published numbers."""
    from fullrank.paper.record import read_record
    from fullrank.paper.results import make_record
    from fullrank.report.reproduction import write_reproduction

    if not source.is_file():
        record = make_record(source, [read_record(file) for file in join])
    elif join:
        raise typer.BadParameter(f"--join adds to a folder of runs; {source} is a file")
    else:
        record = read_record(source)
    console = Console(stderr=True)
    for name, reason in record.runs.unread.items():
        console.print(
            f"not read: {name}: {reason}",
            style="yellow",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    page = write_reproduction(out, record)
    console.print(f"wrote {page}", highlight=False, soft_wrap=True)
