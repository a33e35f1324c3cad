"""``fullrank predict``: a trained model, a file of molecules, a file of predictions."""

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
from fullrank.errors import ConfigError

app = typer.Typer(add_completion=False)


@app.command()
def predict(
    runs_and_input: list[Path] = typer.Argument(
        ...,
        metavar="MODEL... INPUT",
        help="Model files, run folders or names of models such as qm9 (several are an "
        "ensemble), then a CSV or TSV file with SMILES, an SDF file, or a folder of "
        "graphs.",
    ),
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        callback=writable,
        help="The CSV file to write; by default NAME.predicted.csv in this folder, "
        "where NAME is that of the input, unless it exists.",
    ),
    smiles: str | None = SMILES_COLUMN,
    columns: str | None = typer.Option(
        None, help="Columns of the input to copy, separated by commas; default: all."
    ),
    replace: bool = typer.Option(
        False, "--replace", help="Overwrite existing prediction columns in the input."
    ),
    prefix: str = typer.Option("", help="Prefix of the names of the new columns."),
    interval: float | None = typer.Option(
        None, help="Add _low and _high: an interval of this coverage in percent."
    ),
    workers: int | None = WORKERS,
    batch_size: int | None = typer.Option(
        None, min=1, help="Number of molecules per forward pass."
    ),
    ray: str | None = typer.Option(
        None,
        metavar="ADDRESS",
        help="Predict on a Ray cluster; auto for the local one.",
    ),
    resume: bool = typer.Option(
        False, "--resume", help="Continue an interrupted prediction."
    ),
    quiet: bool = QUIET,
) -> None:
    """Predict in original units; rows that cannot be predicted get a reason."""
    from fullrank.cli.train import stopping_politely
    from fullrank.train.predict import load_predictor
    from fullrank.train.predict_file import FileOptions, predict_file

    *runs, source = runs_and_input
    if not runs:
        raise typer.BadParameter("give a model or run folder, and an input")
    if output is None:
        output = Path(f"{source.resolve().stem}.predicted.csv")
        if output.exists() and not resume:
            raise ConfigError(f"{output} exists already; name the output with -o")
    share_cores()
    predictor = load_predictor(runs)
    predictor.batch_size = batch_size or predictor.batch_size
    console = Console(stderr=True, quiet=quiet, highlight=False)
    is_table = source.is_file() and source.suffix.lower() != ".sdf"
    if is_table and predictor.molecules.makes_conformers:
        console.print(
            "warning: the model was trained on distances in QM9's geometries; RDKit's "
            "conformers, which are used here, differ from them. Use an SDF file to "
            "provide geometries.",
            style="yellow",
        )
    options = FileOptions(
        smiles=smiles,
        columns=None if columns is None else [c.strip() for c in columns.split(",")],
        replace=replace,
        prefix=prefix,
        interval=interval,
        workers=workers,
        ray=ray,
        resume=resume,
        progress=not quiet,
    )
    with stopping_politely():
        count = predict_file(predictor, source, output, options)
    if count.resumed:
        console.print(f"resumed after {count.resumed:,} rows")
    console.print(f"{count.predicted:,} of {count.total:,} predicted: {output}")
    if count.failed:
        console.print(
            f"{count.failed:,} not predicted; the first reason: {count.first_reason}",
            markup=False,
        )
