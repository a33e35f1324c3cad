"""``fullrank inspect``: what the layers of a model cannot tell apart."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fullrank.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from fullrank.data import GraphDataset
    from fullrank.nn import GraphNet

HEADINGS = {
    "rank M": "M",
    "rank H": "H",
    "rank R": "R",
    "rank J": "J",
    "rank J (moving)": "J moving",
    "outputs collide": "outputs",
    "aggregates collide": "aggregates",
}
LEGEND = (
    "M, H, R, J: mean ranks of coefficients, features, aggregates, Jacobian.\n"
    "outputs, aggregates: whether two neighbourhoods collide, and by which gap."
)

app = typer.Typer(add_completion=False)


@app.command()
def inspect(
    run: Path = typer.Argument(
        None, help="The run folder of a trained model; of several seeds the first."
    ),
    conv: list[str] = typer.Option(
        [],
        "--conv",
        help="An untrained network of this layer, such as gcn, or expc:8 for 8 "
        "aggregators; may be repeated.",
    ),
    data: str = typer.Option(None, "--data", help="With --conv: a data set."),
    out: Path = typer.Option(Path("inspect.html"), "--out", help="The page to write."),
    graphs: int = typer.Option(64, "--graphs", min=1, help="How many to look at."),
    hidden: int = typer.Option(16, "--hidden", min=1, help="With --conv: width."),
    layers: int = typer.Option(3, "--layers", min=1, help="With --conv: depth."),
    seed: int = typer.Option(0, "--seed", help="Of untrained weights and searches."),
    root: Path = typer.Option(None, "--root", help="Where prepared data sets are."),
    mirror: str = typer.Option(None, "--mirror", help="TU: where to fetch from."),
    folder: Path = typer.Option(None, "--folder", help="OGB: where raw files are."),
    smiles: str = typer.Option(None, "--smiles", help="CSV: the column of SMILES."),
) -> None:
    """Show which neighbourhoods layers confuse, and how much rank they keep."""
    if (run is None) == (not conv):
        raise ConfigError("inspect needs a run folder, or --conv with --data; not both")
    given = {
        "name": data,
        "root": root,
        "mirror": mirror,
        "folder": folder,
        "smiles": smiles,
    }
    options = {key: value for key, value in given.items() if value is not None}
    if run is not None:
        if data is not None:
            raise ConfigError("--data is for --conv; a run is shown on its own data")
        models, dataset, name = _trained(run, options)
        source = f"the run {name}"
    else:
        if data is None:
            raise ConfigError("--conv needs a data set: add --data, such as MUTAG")
        models, dataset = _untrained(conv, options, hidden, layers, seed)
        source = f"untrained, width {hidden}, seed {seed}"
    _report(models, dataset, source, graphs, seed, out)


def _report(
    models: Mapping[str, "GraphNet"],
    dataset: "GraphDataset",
    source: str,
    graphs: int,
    seed: int,
    out: Path,
) -> None:
    """Examine the models, print the table and write the page."""
    from rich.console import Console

    from fullrank.lab import examine
    from fullrank.report.lab_page import glance, lab_page
    from fullrank.report.page import software

    batch = next(iter(dataset.loader(batch_size=graphs)))
    findings = {name: examine(model, batch, seed) for name, model in models.items()}
    console = Console(highlight=False)
    console.print(_table(*glance(findings)))
    console.print(LEGEND)
    lead = (
        f"{', '.join(models)} ({source}), looked at on {batch.num_graphs} graphs of "
        f"{dataset.name} with {batch.num_nodes:,} nodes and {batch.num_edges:,} edges."
    )
    provenance = {
        "models": f"{', '.join(models)}, {source}",
        "data": f"{dataset.name}, the first {batch.num_graphs} graphs",
        **software(),
    }
    title = "What these layers cannot tell apart"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(lab_page(title, lead, findings, provenance), encoding="utf-8")
    console.print(f"The pictures are in {out}")


def _table(columns: list[str], rows: list[list[str]]) -> "Table":
    """What was found, narrow enough for a terminal: columns that say something."""
    from rich.table import Table

    from fullrank.report.lab_page import NOT

    table = Table(box=None, pad_edge=False, collapse_padding=True)
    told = [
        (column, cells)
        for column, *cells in zip(columns, *rows, strict=True)
        if not all(cell.startswith(NOT) for cell in cells)
    ]
    for column, _ in told:
        table.add_column(HEADINGS.get(column, column), overflow="fold")
    for row in zip(*(cells for _, cells in told), strict=True):
        # Why there is no number stands on the page, which is wider.
        short = (NOT if cell.startswith(NOT) else cell for cell in row)
        table.add_row(*(cell.replace(", gap", "") for cell in short))
    return table


def _trained(
    folder: Path, options: dict[str, Any]
) -> tuple[dict[str, "GraphNet"], "GraphDataset", str]:
    """The network of a run, the data set it was trained on, and its name."""
    from fullrank.train.evaluate import load_data, load_model
    from fullrank.train.run_folder import open_runs

    run = open_runs(folder)[0]
    network = load_model(run).network.cpu()
    return {run.config.model.conv: network}, load_data(run, options), run.id


def _untrained(
    convs: list[str], options: dict[str, Any], hidden: int, layers: int, seed: int
) -> tuple[dict[str, "GraphNet"], "GraphDataset"]:
    """A network of each layer, all from the same seed, for one data set."""
    import numpy as np
    import torch

    from fullrank.data import Split
    from fullrank.train import parse
    from fullrank.train.config import STRUCTURAL
    from fullrank.train.model import Model, design_model

    sizes = {"hidden": hidden, "layers": layers}
    if any(_layer(conv)["conv"] in STRUCTURAL for conv in convs):
        options = {"structure": {"hops": 2, "node_labels": "x"}, **options}
    configs = {
        conv: parse({"data": options, "model": {**_layer(conv), **sizes}})
        for conv in convs
    }
    dataset = next(iter(configs.values())).data.load(labelled=False)
    nothing = np.empty(0, dtype=np.int64)
    everything = Split(np.arange(len(dataset)), nothing, nothing, {"kind": "all"})
    models = {}
    for conv, config in configs.items():
        torch.manual_seed(seed)
        models[conv] = Model(design_model(config, dataset, everything)).network.eval()
    return models, dataset


def _layer(text: str) -> dict[str, Any]:
    """``expc:8`` as a layer and its number of aggregators or heads."""
    name, colon, count = text.partition(":")
    if not colon:
        return {"conv": name}
    if not count.isdecimal():
        raise ConfigError(f"--conv takes a number after the colon, got {text!r}")
    return {"conv": name, "s": int(count)}
