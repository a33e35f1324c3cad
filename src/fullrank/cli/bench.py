"""``fullrank bench``: speed and memory, as ratios measured in one run."""

from pathlib import Path

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.command()
def layers(
    quick: bool = typer.Option(False, "--quick", help="Under a minute."),
    json: Path | None = typer.Option(None, "--json", help="Write the rows here."),
) -> None:
    """One layer, forward and backward: ours, the plain formula, PyG's peers."""
    from fullrank.bench import layers

    layers.run(quick=quick, json_file=json)


@app.command()
def loading(
    quick: bool = typer.Option(False, "--quick", help="Under a minute."),
    json: Path | None = typer.Option(None, "--json", help="Write the rows here."),
) -> None:
    """Shuffled batches of molecules: packed graphs against PyG's DataLoader."""
    from fullrank.bench import loading

    loading.run(quick=quick, json_file=json)
