"""``fullrank bench``: speed and memory, as ratios measured in one run."""

from pathlib import Path

import typer

from fullrank.cli.options import writable

app = typer.Typer(no_args_is_help=True, add_completion=False)

Quick = typer.Option(False, "--quick", help="A quick, rough measurement.")
Json = typer.Option(
    None, "--json", callback=writable, help="Also write the rows to this file."
)


@app.command()
def layers(
    quick: bool = Quick,
    json: Path | None = Json,
    only: list[str] = typer.Option(
        [], "--only", help='Only these workloads, such as "dense, d=180, s=4".'
    ),
) -> None:
    """One layer, forward and backward: fullrank, the plain formula, PyG's layers."""
    from fullrank.bench import layers

    layers.run(quick=quick, json_file=json, only=only)


@app.command()
def scale(
    quick: bool = Quick,
    json: Path | None = Json,
    picture: Path | None = typer.Option(
        None, "--picture", callback=writable, help="Draw the points as SVG."
    ),
) -> None:
    """One layer on graphs of increasing size: fullrank, the plain formula, PyG."""
    from fullrank.bench import scale

    scale.run(quick=quick, json_file=json, picture=picture)


@app.command()
def loading(quick: bool = Quick, json: Path | None = Json) -> None:
    """Shuffled batches of molecules: packed graphs against PyG's DataLoader."""
    from fullrank.bench import loading

    loading.run(quick=quick, json_file=json)


@app.command()
def train(quick: bool = Quick, json: Path | None = Json) -> None:
    """Training epochs: fullrank against the plain formula and PyG's DataLoader."""
    from fullrank.bench import train

    train.run(quick=quick, json_file=json)


@app.command()
def structure(quick: bool = Quick, json: Path | None = Json) -> None:
    """The cost of structural colours of QM9 at each level."""
    from fullrank.bench import structure

    structure.run(quick=quick, json_file=json)


@app.command()
def molecules(
    folder: Path = typer.Option(
        ...,
        "--folder",
        exists=True,
        file_okay=False,
        help="Contains delaney.csv, freesolv.csv and BBBP.csv with split columns.",
    ),
    chemprop: Path = typer.Option(
        None, "--chemprop", exists=True, help="The chemprop executable, if installed."
    ),
    out: Path = typer.Option(
        Path("molecules"),
        "--out",
        callback=writable,
        help="Write a row per finished job to OUT.jsonl and the table to OUT.md; the "
        "same command continues.",
    ),
    cell: list[str] = typer.Option(
        [], "--cell", help="Only cells with this prefix, such as delaney/random."
    ),
    method: list[str] = typer.Option([], "--method", help="Only these methods."),
    seeds: int = typer.Option(3, min=1, help="Number of repetitions of each job."),
) -> None:
    """Accuracy on tables of molecules: fullrank, chemprop, baselines, ablations."""
    from fullrank.bench import molecules as bench

    bench.run(folder, chemprop, out, cell, method, seeds)


@app.command()
def predict(
    molecules: Path = typer.Option(
        ..., help="A table with a column smiles, repeated as often as necessary."
    ),
    chemprop: Path | None = typer.Option(
        None, help="The program of chemprop, to be measured as well."
    ),
    program: list[str] = typer.Option(
        [], "--program", help="Only this: 'one network', recipe or chemprop."
    ),
    quick: bool = Quick,
    json: Path | None = typer.Option(
        None,
        "--json",
        callback=writable,
        help="Write the rows to this file, beside those of other programs.",
    ),
) -> None:
    """A long table: rows per CPU second and memory, beside chemprop."""
    from fullrank.bench import predict

    predict.run(quick, json, molecules, chemprop, program)


@app.command()
def serve(
    model: Path = typer.Argument(..., help="A model file or a run folder."),
    molecules: Path = typer.Option(..., help="A table with a column smiles."),
    clients: int = typer.Option(200, min=1, help="How many ask at the same time."),
    seconds: float = typer.Option(60, min=1, help="For how long."),
    quick: bool = Quick,
    json: Path | None = Json,
) -> None:
    """The server under load: errors, lost rows, median and 99th percentile."""
    from fullrank.bench import serve

    serve.run(quick, json, model, molecules, clients, seconds)
