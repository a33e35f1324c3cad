"""``fullrank bench``: speed and memory, as ratios measured in one run."""

from pathlib import Path

import typer

from fullrank.cli.options import writable

app = typer.Typer(no_args_is_help=True, add_completion=False)

Quick = typer.Option(False, "--quick", help="A rough answer, sooner.")
Json = typer.Option(
    None, "--json", callback=writable, help="Write the rows to this file as well."
)


@app.command()
def layers(quick: bool = Quick, json: Path | None = Json) -> None:
    """One layer, forward and backward: ours, the plain formula, PyG's peers."""
    from fullrank.bench import layers

    layers.run(quick=quick, json_file=json)


@app.command()
def loading(quick: bool = Quick, json: Path | None = Json) -> None:
    """Shuffled batches of molecules: packed graphs against PyG's DataLoader."""
    from fullrank.bench import loading

    loading.run(quick=quick, json_file=json)


@app.command()
def train(quick: bool = Quick, json: Path | None = Json) -> None:
    """Epochs of one model: ours against the plain formula and PyG's DataLoader."""
    from fullrank.bench import train

    train.run(quick=quick, json_file=json)


@app.command()
def structure(quick: bool = Quick, json: Path | None = Json) -> None:
    """Structural colours of QM9's molecules: the cost of each level."""
    from fullrank.bench import structure

    structure.run(quick=quick, json_file=json)
