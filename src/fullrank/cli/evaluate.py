"""``fullrank evaluate``: recompute metrics, or compute them on another table."""

import json
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Console

app = typer.Typer(add_completion=False)


@app.command()
def evaluate(
    runs: list[Path] = typer.Argument(
        ...,
        metavar="MODEL...",
        help="Run folders; with --data also model files and names of models.",
    ),
    part: str = typer.Option(
        "test", help="The part of the split: train, valid or test."
    ),
    data: Path | None = typer.Option(
        None, help="A labelled table; several models are then an ensemble."
    ),
    smiles: str | None = typer.Option(
        None, help="With --data: the column with SMILES."
    ),
    resamples: int = typer.Option(
        1000, min=1, help="With --data: number of bootstrap samples."
    ),
    root: Path = typer.Option(None, help="The folder of prepared data sets."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Evaluate a model on a part of its split, or on a labelled table."""
    if data is not None:
        return _evaluate_table(runs, data, smiles, root, resamples, as_json)
    from fullrank.cli.train import mean_and_std
    from fullrank.errors import ConfigError
    from fullrank.report.run_page import write_run_page
    from fullrank.train import evaluate_run
    from fullrank.train.evaluate import evaluate_ensemble, load_data
    from fullrank.train.experiment import summarize_values
    from fullrank.train.run_folder import ExperimentFolder, open_runs

    folders = [folder for run in runs for folder in open_runs(run)]
    changes = {"root": root} if root else {}
    found = [evaluate_run(folder, part, changes) for folder in folders]
    if as_json:
        names = [str(folder.path) for folder in folders]
        print(json.dumps(dict(zip(names, found, strict=True)), indent=2))
        return
    for folder, measured in zip(folders, found, strict=True):
        if measured.keys() != found[0].keys():
            raise ConfigError(
                f"{folders[0].path} and {folder.path} have different metrics, "
                f"which cannot be averaged; evaluate them one by one"
            )
    from rich.table import Table

    columns = {f"mean ± std of {len(found)}" if len(found) > 1 else "": found}
    experiment = ExperimentFolder(runs[0])
    size = experiment.summary.ensemble if experiment.exists else None
    if size and len(runs) == 1:
        dataset = load_data(folders[0], changes)
        members = [folders[i : i + size] for i in range(0, len(folders), size)]
        together = [evaluate_ensemble(each, dataset, part) for each in members]
        count = f"mean ± std of {len(members)} ensembles" if len(members) > 1 else ""
        columns[count or f"ensemble of {size}"] = together
    table = Table()
    table.add_column(part)
    for title in columns:
        table.add_column(title, justify="right")
    for name in dict.fromkeys(key for values in columns.values() for key in values[0]):
        cells = (
            mean_and_std(summarize_values([measured[name] for measured in values]))
            if name in values[0]
            else ""
            for values in columns.values()
        )
        table.add_row(name, *cells)
    Console(highlight=False).print(table)
    for run in runs:
        page = write_run_page(run, load_data(open_runs(run)[0], changes), part)
        print(f"page: {page}")


def _evaluate_table(
    models: list[Path],
    data: Path,
    smiles: str | None,
    root: Path | None,
    resamples: int,
    as_json: bool,
) -> None:
    from rich.table import Table

    from fullrank.train.evaluate_table import evaluate_table
    from fullrank.train.predict import load_predictor
    from fullrank.train.run_folder import measures

    predictor = load_predictor(models)
    found = evaluate_table(predictor, data, smiles, root, resamples)
    if as_json:
        each = {name: measures(asdict(value)) for name, value in found.items()}
        print(json.dumps(each, indent=2))
        return
    table = Table()
    table.add_column(str(data))
    table.add_column("", justify="right")
    table.add_column("95% interval", justify="right")
    for name, estimate in found.items():
        ends = f"{estimate.low:.4g} to {estimate.high:.4g}"
        table.add_row(name, f"{estimate.value:.4g}", ends)
    Console(highlight=False).print(table)
