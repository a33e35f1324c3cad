"""``fullrank explain``: contributions of atoms, bonds and descriptors."""

from itertools import islice
from pathlib import Path

import typer
from rich.console import Console

from fullrank.cli.options import QUIET, SMILES_COLUMN, writable

app = typer.Typer(add_completion=False)


@app.command()
def explain(
    models_and_input: list[Path] = typer.Argument(
        ...,
        metavar="MODEL... INPUT",
        help="Model files, run folders or names of models such as qm9 (several are an "
        "ensemble), then a table with SMILES.",
    ),
    output: Path = typer.Option(
        Path("explanations.html"),
        "--output",
        "-o",
        callback=writable,
        help="The page to write.",
    ),
    smiles: str | None = SMILES_COLUMN,
    target: str | None = typer.Option(
        None, help="Target or class; by default the first, or the most likely."
    ),
    rows: int = typer.Option(50, min=1, help="Number of rows to explain."),
    quiet: bool = QUIET,
) -> None:
    """Draw the contribution of each atom and bond to the prediction."""
    from fullrank.data.cache import shown
    from fullrank.data.tables import open_table
    from fullrank.errors import DataError
    from fullrank.report.explanations import write_explanations
    from fullrank.train.explain import Explanation
    from fullrank.train.predict import load_predictor

    *models, source = models_and_input
    if not models:
        raise typer.BadParameter("give a model or run folder, and an input")
    predictor = load_predictor(models)
    with open_table(source) as table:
        place = table.column(smiles or predictor.spec.smiles or "smiles")
        chosen = [row.cells[place] for row in islice(table, rows) if row.cells[place:]]
    explained: list[Explanation] = []
    failed = {}
    for text in shown(chosen, len(chosen), "explain", not quiet):
        try:
            explained.append(predictor.explain(text, target))
        except DataError as error:
            failed[text] = str(error)
    spec = predictor.spec
    provenance = {
        "model": ", ".join(model.resolve().name for model in models),
        "trained on": f"{spec.dataset}, {spec.graphs.get('train', 0):,} molecules",
        "molecules": source.name,
    }
    title = f"Explanations of a model of {spec.dataset}"
    write_explanations(output, title, explained, failed, provenance)
    console = Console(stderr=True, quiet=quiet, highlight=False)
    console.print(f"{len(explained):,} of {len(chosen):,} explained: {output}")
