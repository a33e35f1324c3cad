"""``fullrank embed``: the readout vector of each molecule."""

from pathlib import Path

import typer
from rich.console import Console

from fullrank.cli.options import (
    QUIET,
    SMILES_COLUMN,
    WORKERS,
    share_cores,
    writable,
)

app = typer.Typer(add_completion=False)


@app.command()
def embed(
    models_and_input: list[Path] = typer.Argument(
        ...,
        metavar="MODEL... INPUT",
        help="Model files, run folders or names of models such as qm9, then a table "
        "with SMILES.",
    ),
    output: Path = typer.Option(
        ...,
        "--output",
        "-o",
        callback=writable,
        help="The .npy file, or .parquet file with the SMILES, to write.",
    ),
    smiles: str | None = SMILES_COLUMN,
    workers: int | None = WORKERS,
    quiet: bool = QUIET,
) -> None:
    """Write the readout vector of each molecule; NaN if it cannot be read."""
    from fullrank.train.embed import embed_file
    from fullrank.train.predict import load_predictor

    *models, source = models_and_input
    if not models:
        raise typer.BadParameter("give a model or run folder, and an input")
    share_cores()
    done, total = embed_file(
        load_predictor(models), source, output, smiles, workers, progress=not quiet
    )
    console = Console(stderr=True, quiet=quiet, highlight=False)
    console.print(f"{done:,} of {total:,} embedded: {output}")
