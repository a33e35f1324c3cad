"""``fullrank models``: the models that come with the package."""

from pathlib import Path

import typer

from fullrank.cli.options import writable

app = typer.Typer(no_args_is_help=True, add_completion=False)
_NAME = typer.Argument(help="The name of a model.")


@app.command("list")
def list_models() -> None:
    """List the models: what they predict, their test scores and their size."""
    from rich.console import Console
    from rich.table import Table

    from fullrank.pretrained import names
    from fullrank.pretrained.cards import card

    table = Table("name", "predicts", "test scores", "size", box=None, pad_edge=False)
    table.columns[3].justify = "right"
    for name in names():
        about = card(name)
        scores = ", ".join(f"{k} {v.value:.3g}" for k, v in about.main_scores.items())
        size = about.measured.size if about.measured else 0
        table.add_row(name, about.title, scores, f"{size / 1e6:.1f} MB")
    console = Console(highlight=False)
    console.print(table)
    console.print("\nfullrank models show NAME; fullrank predict NAME molecules.csv")


@app.command()
def show(
    name: str = _NAME,
    config: bool = typer.Option(
        False, "--config", help="Show the configuration that trained it instead."
    ),
    as_json: bool = typer.Option(False, "--json", help="Show the card as JSON."),
) -> None:
    """Show the card of a model: data, licence, split, test scores, applicability."""
    from fullrank.pretrained.cards import as_markdown, card, configuration

    if config:
        print(configuration(name), end="")
    elif as_json:
        print(card(name).model_dump_json(indent=2, exclude_none=True))
    else:
        print(as_markdown(name), end="")


@app.command()
def get(
    name: str = _NAME,
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        callback=writable,
        help="The file to write; NAME.safetensors by default.",
    ),
) -> None:
    """Copy the file of a model, to keep it with your results or to send it."""
    from fullrank.errors import ConfigError
    from fullrank.pretrained import model_file

    source = model_file(name)
    target = output or Path(source.name)
    try:
        with target.open("xb") as stream:
            stream.write(source.read_bytes())
    except FileExistsError:
        raise ConfigError(f"{target} already exists; choose another file") from None
    print(target)
