"""``fullrank export``: a trained network as ONNX, for programs without torch."""

from pathlib import Path

import typer
from rich.console import Console

from fullrank.cli.options import QUIET, writable

app = typer.Typer(add_completion=False)


@app.command()
def export(
    models_and_output: list[Path] = typer.Argument(
        ...,
        metavar="MODEL... OUTPUT",
        help="Model files, run folders or names of models such as qm9 (several are an "
        "ensemble), then the .onnx file to write.",
    ),
    quiet: bool = QUIET,
) -> None:
    """Write the network with its normalisation as an ONNX file."""
    from fullrank.train.export import export_onnx
    from fullrank.train.predict import load_predictor

    *models, output = models_and_output
    if not models or output.suffix != ".onnx":
        raise typer.BadParameter("give a model or run folder, and an .onnx file")
    writable(output)
    export_onnx(load_predictor(models), output)
    Console(stderr=True, quiet=quiet, highlight=False).print(f"exported: {output}")
