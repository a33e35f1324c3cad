"""``fullrank inspect``: what the layers of a model cannot distinguish."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fullrank.errors import ConfigError

if TYPE_CHECKING:
    import torch
    from rich.progress import Progress
    from rich.table import Table
    from torch_geometric.data import Batch

    from fullrank.data import GraphDataset
    from fullrank.lab import Finding, Reach
    from fullrank.report.merging import WholeGraphs

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

AT_ONCE = 512  # graphs in a batch of those that may be merged

app = typer.Typer(add_completion=False)


@app.command()
def inspect(
    runs: list[Path] = typer.Argument(
        None,
        metavar="[MODEL]...",
        help="Run folders; with --data also model files and names of models such as "
        "qm9. Of several seeds, the first is used.",
    ),
    conv: list[str] = typer.Option(
        [],
        "--conv",
        help="An untrained network with this layer, such as gcn, or expc:8 for 8 "
        "aggregators; may be repeated.",
    ),
    data: str = typer.Option(
        None, "--data", help="A data set; by default that of the run."
    ),
    out: Path = typer.Option(Path("inspect.html"), "--out", help="The page to write."),
    graphs: int = typer.Option(
        64, "--graphs", min=1, help="Number of graphs to examine the layers on."
    ),
    merge: int = typer.Option(
        100_000,
        "--merge",
        min=0,
        help="Number of graphs among which merged ones are searched; 0 for none.",
    ),
    hidden: int = typer.Option(16, "--hidden", min=1, help="With --conv: width."),
    layers: int = typer.Option(3, "--layers", min=1, help="With --conv: depth."),
    seed: int = typer.Option(0, "--seed", help="Seed of weights and searches."),
    root: Path = typer.Option(None, "--root", help="The folder of prepared data sets."),
    mirror: str = typer.Option(None, "--mirror", help="TU: a folder to read from."),
    folder: Path = typer.Option(None, "--folder", help="OGB: the folder of raw files."),
    smiles: str = typer.Option(
        None, "--smiles", help="Tables: the column with SMILES."
    ),
) -> None:
    """Show which graphs and neighbourhoods a model cannot distinguish, and how much
    rank its layers keep."""
    if bool(runs) == bool(conv):
        raise ConfigError("give either trained models, or --conv with --data")
    given = {
        "name": data,
        "root": root,
        "mirror": mirror,
        "folder": folder,
        "smiles": smiles,
    }
    options = {key: value for key, value in given.items() if value is not None}
    if runs:
        models, dataset = _trained(runs, options)
        source = f"the run{'s' * (len(models) > 1)} {', '.join(models)}"
        if len(models) == 1:
            models = {_conv_of(runs[0]): network for network in models.values()}
    else:
        if data is None:
            raise ConfigError("--conv needs a data set: add --data, such as MUTAG")
        models, dataset = _untrained(conv, options, hidden, layers, seed)
        source = f"untrained, width {hidden}, seed {seed}"
    _report(models, dataset, source, graphs, merge, seed, out)


def _report(
    models: Mapping[str, "torch.nn.Module"],
    dataset: "GraphDataset",
    source: str,
    graphs: int,
    merge: int,
    seed: int,
    out: Path,
) -> None:
    """Examine the models, print the tables and write the page."""
    from rich.console import Console
    from rich.progress import Progress

    from fullrank.report.lab_page import glance, lab_page
    from fullrank.report.merging import merged_counts, whole_graph_sections
    from fullrank.report.page import software

    batch = next(iter(dataset.loader(batch_size=graphs)))
    findings, reaches, studies = {}, {}, {}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for name, model in models.items():
            findings[name], reaches[name] = _examine(name, model, batch, seed, progress)
            if merge:
                studies[name] = _study(name, model, dataset, merge, progress)
    console = Console(highlight=False)
    console.print(_table(*glance(findings)))
    console.print(LEGEND)
    sections = []
    if studies:
        console.print(_table(*merged_counts(studies)))
        sections = whole_graph_sections(studies, dataset)
    lead = (
        f"{', '.join(models)} ({source}), examined on {batch.num_graphs} graphs of "
        f"{dataset.name} with {batch.num_nodes:,} nodes and {batch.num_edges:,} edges."
    )
    provenance = {
        "models": f"{', '.join(models)}, {source}",
        "data": f"{dataset.name}, the first {batch.num_graphs} graphs",
        **software(),
    }
    if studies:
        looked_at = min(merge, len(dataset))
        provenance["merged"] = f"searched among the first {looked_at:,} graphs"
    title = "What these models cannot distinguish"
    page = lab_page(title, lead, findings, provenance, reaches, sections)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page, encoding="utf-8")
    console.print(f"page: {out}")


def _examine(
    name: str,
    model: "torch.nn.Module",
    batch: "Batch",
    seed: int,
    progress: "Progress",
) -> "tuple[list[Finding], Reach]":
    """Every layer of a model, and how far information travels through all of them."""
    from fullrank.lab import reach
    from fullrank.lab.probe.examine import examining

    task = progress.add_task(f"{name}: layers", total=None)
    findings = []
    for finding, count in examining(model, batch, seed):
        findings.append(finding)
        progress.update(task, total=count, advance=1)
    return findings, reach(model, batch, seed)


def _study(
    name: str,
    model: "torch.nn.Module",
    dataset: "GraphDataset",
    merge: int,
    progress: "Progress",
) -> "WholeGraphs":
    """What a model merges among the first graphs, and what it cannot count."""
    import numpy as np

    from fullrank.errors import FullrankError
    from fullrank.lab import cannot_count, merged
    from fullrank.report.merging import WholeGraphs

    chosen = np.arange(min(merge, len(dataset)))
    task = progress.add_task(f"{name}: graphs", total=len(chosen))
    merging = merged(
        model,
        dataset.loader(chosen, batch_size=AT_ONCE),
        progress=lambda done: progress.update(task, completed=done),
    )
    some = (dataset[index] for index in chosen.tolist())
    like = next((graph for graph in some if graph.num_edges), None)
    try:
        counting = cannot_count(model, like)
    except FullrankError as error:  # a network that reads more than features and edges
        return WholeGraphs(merging, str(error))
    return WholeGraphs(merging, counting)


def _table(columns: list[str], rows: list[list[str]]) -> "Table":
    """A table for the terminal, without columns that are empty."""
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
        # The page gives the reasons for missing numbers.
        short = (NOT if cell.startswith(NOT) else cell for cell in row)
        table.add_row(*(cell.replace(", gap", "") for cell in short))
    return table


def _trained(
    folders: list[Path], options: dict[str, Any]
) -> tuple[dict[str, "torch.nn.Module"], "GraphDataset"]:
    """The networks of runs by their names, and a data set that all of them read."""
    import torch

    from fullrank.data import source
    from fullrank.train.evaluate import load_data
    from fullrank.train.model import Model
    from fullrank.train.run_folder import model_files, open_runs

    found = {folder: Model.load(model_files(folder)[0]) for folder in folders}
    first = found[folders[0]].spec
    if "name" in options:
        if first.structure is not None:
            options = {"structure": first.structure, **options}
        described = getattr(first.featurizer, "descriptors", ())
        dataset = source(**options).load(labelled=False, descriptors=described)
    elif not folders[0].is_dir():
        raise ConfigError(
            f"the model {str(folders[0])!r} does not hold the data it was trained on; "
            f"give a data set or a table with --data"
        )
    else:
        dataset = load_data(open_runs(folders[0])[0], options)
    networks = {}
    for folder, model in found.items():
        read = model.spec.node_features, model.spec.edge_features
        if read != (dataset.node_features, dataset.edge_features):
            raise ConfigError(
                f"the model of {folder} expects other node and edge features than "
                f"those of {dataset.name}"
            )
        if not isinstance(model.network, torch.nn.Module):
            raise ConfigError(f"the model of {folder} is not a neural network")
        name = model.spec.run + " without its references" * bool(model.spec.references)
        if name in networks:
            raise ConfigError(f"{folder} is the model of the same run, {name}, again")
        networks[name] = model.network.cpu()
    return networks, dataset


def _conv_of(model: Path) -> str:
    from fullrank.train.model import Model
    from fullrank.train.run_folder import model_files

    network = Model.load(model_files(model)[0]).spec.network
    return network.get("conv", network.get("name", "graph-net"))


def _untrained(
    convs: list[str], options: dict[str, Any], hidden: int, layers: int, seed: int
) -> tuple[dict[str, "torch.nn.Module"], "GraphDataset"]:
    """A network of each layer, all from the same seed, for one data set."""
    import numpy as np
    import torch

    from fullrank.data import Split
    from fullrank.data.sources.base import StructureOptions
    from fullrank.train import parse
    from fullrank.train.config import STRUCTURAL
    from fullrank.train.model import Model, design_model

    sizes = {"hidden": hidden, "layers": layers}
    read = {
        STRUCTURAL[c][0] for c in (_layer(x)["conv"] for x in convs) if c in STRUCTURAL
    }
    if len(read) > 1:
        raise ConfigError(
            "layers that read colours and layers that read continuous structure cannot "
            "be inspected together; inspect them one after the other"
        )
    if read:
        colors = {"hops": 2, "node_labels": "x"}
        structure = colors if StructureOptions in read else {"kind": "continuous"}
        options = {"structure": structure, **options}
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
