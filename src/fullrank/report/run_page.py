"""A page about one run, or about the runs of one experiment."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape

from fullrank.data import GraphDataset
from fullrank.data.splits import PARTS
from fullrank.errors import ConfigError
from fullrank.report.page import (
    PALETTE,
    Block,
    Figure,
    Fragment,
    Heading,
    Section,
    Table,
    Text,
    render_page,
    software,
)
from fullrank.train.calibration import COVERAGE
from fullrank.train.config import FOLDS, Config
from fullrank.train.evaluate import Predicted, evaluate_ensemble, predict_part
from fullrank.train.experiment import finished_result
from fullrank.train.files import write_text
from fullrank.train.run_folder import RunFolder, open_runs

if TYPE_CHECKING:
    import plotly.graph_objects as go

FILE = "page.html"
MOST_TARGETS = 6
WORST = 12
MOST_REJECTED = 100
_SMALL = 1e-12
EXPLAINED = (
    "Training scores of a seed are averages over its best epoch, with dropout and "
    "while the weights change; those of the ensemble are computed afterwards."
)


def write_run_page(folder: Path, dataset: GraphDataset, part: str = "test") -> Path:
    """Write ``page.html``, or ``page-PART.html``, into the folder of a run or an
    experiment.

    Args:
        folder: Folder of a finished run or of an experiment.
        dataset: The training data set.
        part: The part of the split whose predictions are shown.
    """
    runs = open_runs(folder)
    results = [finished_result(run) for run in runs]
    first, config = results[0], runs[0].config
    counts = {**first.graphs, "calibration": len(runs[0].split.calibration)}
    named = {"train": "training", "valid": "validation"}
    parts = [f"{n:,} {named.get(part, part)}" for part, n in counts.items() if n]
    lead = f"Graphs: {', '.join(parts)}."
    folds = config.split.kind in FOLDS
    sections = [Section("Results", [_measures(runs, dataset, folds), Text(EXPLAINED)])]
    if not folds and first.graphs[part] and dataset.task != "tokens":
        predicted = predict_part(runs, dataset, part)
        sections.append(Section("Predictions", list(_predictions(predicted, dataset))))
        sections += _worst(predicted, dataset)
    sections += [
        Section("Learning curves", [Figure(_curves(runs, first.metric))]),
        Section("Data", list(_data(runs[0], dataset))),
        Section("Configuration", [configuration(config)]),
    ]
    machine = runs[0].environment
    provenance = {
        "run": ", ".join(run.id for run in runs),
        "seconds": f"{sum(r.seconds for r in results):,.1f} in total, "
        f"{first.seconds_per_epoch:.2f} per epoch",
        "memory": f"{max(r.peak_memory for r in results) / 1e6:,.0f} MB peak",
        "parameters": f"{first.parameters:,}"
        + (f" in each of {len(runs)} networks" if len(runs) > 1 else ""),
        "commit": machine.commit or "not from a repository",
        "processor": f"{machine.processor}, {machine.threads} threads",
    }
    title = f"{first.dataset}: {', '.join(target.name for target in dataset.targets)}"
    page = folder / (FILE if part == "test" else f"page-{part}.html")
    text = render_page(title, lead, sections, {**provenance, **software()})
    write_text(page, text)
    return page


def configuration(config: Config) -> Fragment:
    """The configuration as YAML, without the paths of this machine."""
    data, start = config.data, config.training.start
    hidden: dict[str, Any] = {
        name: None for name in data.locations if isinstance(getattr(data, name), Path)
    }
    if data.is_path:
        hidden["name"] = Path(data.name).name
    training = {"start": start and Path(start.name)}
    shown = config.model_copy(
        update={
            "data": data.model_copy(update=hidden),
            "training": config.training.model_copy(update=training),
            "runs": Path(config.runs.name),
        }
    )
    return Fragment(Markup(f"<pre>{escape(shown.text())}</pre>"))


def _measures(runs: Sequence[RunFolder], dataset: GraphDataset, folds: bool) -> Table:
    """One row per run, and one for the ensemble."""
    results = [finished_result(run) for run in runs]
    parts = [part for part in PARTS if results[0].graphs[part]]
    measured = [
        (part, name)
        for part in parts
        for name in results[0].test
        if name != "loss" and name in getattr(results[0], part)
    ]
    columns = ["", *(f"{part} {name}" for part, name in measured), "epoch"]
    rows = [
        [
            f"seed {result.seed}"
            + ("" if result.fold is None else f", fold {result.fold}"),
            *(_number(getattr(result, part).get(name)) for part, name in measured),
            f"{result.best_epoch + 1} of {result.epochs}",
        ]
        for result in results
    ]
    if len(runs) > 1 and not folds:
        together = {part: evaluate_ensemble(runs, dataset, part) for part in parts}
        cells = [_number(together[part].get(name)) for part, name in measured]
        rows.append(["ensemble", *cells, ""])
    return Table(columns, rows)


def _predictions(predicted: Predicted, dataset: GraphDataset) -> Iterator[Block]:
    given, calibration = predicted.values, predicted.calibration
    widths: Sequence[float | None] = [None] * len(dataset.targets)
    if calibration is not None and dataset.task == "regression":
        with suppress(ConfigError):  # too few graphs for this coverage
            widths = calibration.half_widths(COVERAGE).tolist()
    elif calibration is not None:
        given = calibration.calibrated(given.double())
    if dataset.task == "multiclass":
        yield _confusion(predicted, dataset)
        return
    for index, target in enumerate(dataset.targets[:MOST_TARGETS]):
        labels = predicted.labels[:, index].double().numpy()
        known = ~np.isnan(labels)
        values, labels = given[:, index].numpy()[known], labels[known]
        if not len(labels):
            continue
        unit = f" ({target.unit})" if target.unit else ""
        yield Heading(f"{target.name}{unit}, {len(labels):,} graphs")
        if dataset.task == "regression":
            yield Figure(_against(values, labels, widths[index]))
            yield Figure(_residuals(values, labels))
        elif 0 < labels.sum() < len(labels):
            yield Figure(_operating(values, labels))
            yield Figure(_calibration(values, labels))
        else:
            yield Text("All labels are the same, so there are no curves.")
    if len(dataset.targets) > MOST_TARGETS:
        yield Text(f"The first {MOST_TARGETS} of {len(dataset.targets)} targets.")


def _against(
    values: np.ndarray, labels: np.ndarray, width: float | None
) -> "go.Figure":
    """Predicted against true values, with the band of the interval, if any."""
    figure = _figure("true", "predicted")
    ends = np.array([min(values.min(), labels.min()), max(values.max(), labels.max())])
    if width is not None:
        inside = np.abs(values - labels) <= width
        name = f"{COVERAGE}% interval, contains {inside.mean():.1%}"
        x, y = [*ends, *ends[::-1]], [*(ends - width), *(ends[::-1] + width)]
        figure.add_scatter(x=x, y=y, fill="toself", mode="none", name=name)
    line = {"color": PALETTE[6], "dash": "dot"}
    figure.add_scatter(x=ends, y=ends, mode="lines", line=line, name="equal")
    figure.add_scatter(x=labels, y=values, mode="markers", name="graphs")
    return figure


def _residuals(values: np.ndarray, labels: np.ndarray) -> "go.Figure":
    figure = _figure("predicted − true", "graphs")
    figure.add_histogram(x=values - labels, nbinsx=40, name="graphs")
    return figure.update_layout(showlegend=False)


def _operating(values: np.ndarray, labels: np.ndarray) -> "go.Figure":
    """ROC and precision-recall, side by side."""
    from plotly.subplots import make_subplots
    from sklearn.metrics import precision_recall_curve, roc_curve

    titles = ("ROC", "precision and recall")
    figure = make_subplots(cols=2, subplot_titles=titles)
    false, true, _ = roc_curve(labels, values)
    precision, recall, _ = precision_recall_curve(labels, values)
    figure.add_scatter(x=false, y=true, mode="lines", row=1, col=1)
    figure.add_scatter(x=recall, y=precision, mode="lines", row=1, col=2)
    figure.update_xaxes(title_text="false positive rate", row=1, col=1)
    figure.update_yaxes(title_text="true positive rate", row=1, col=1)
    figure.update_xaxes(title_text="recall", row=1, col=2)
    figure.update_yaxes(title_text="precision", row=1, col=2)
    return figure.update_layout(showlegend=False, height=380)


def _calibration(values: np.ndarray, labels: np.ndarray) -> "go.Figure":
    from sklearn.calibration import calibration_curve

    share, mean = calibration_curve(labels, values, n_bins=10, strategy="quantile")
    figure = _figure("predicted probability", "share of positives")
    line = {"color": PALETTE[6], "dash": "dot"}
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", line=line, name="calibrated")
    figure.add_scatter(x=mean, y=share, mode="lines+markers", name="model")
    return figure


def _confusion(predicted: Predicted, dataset: GraphDataset) -> Table:
    count = dataset.num_classes or 0
    names = list(dataset.classes) or [str(i) for i in range(count)]
    table = np.zeros((count, count), dtype=int)
    np.add.at(table, (predicted.labels.numpy(), predicted.values.argmax(1).numpy()), 1)
    rows = [[n, *map(str, row)] for n, row in zip(names, table.tolist(), strict=True)]
    return Table(["true \\ predicted", *names], rows)


def _worst(predicted: Predicted, dataset: GraphDataset) -> Iterator[Section]:
    """The molecules with the largest errors, drawn."""
    if "text.smiles.utf8" not in dataset.graphs.arrays:
        return
    errors = _errors(predicted, dataset)
    order = np.argsort(-np.nan_to_num(errors, nan=-1.0))[:WORST]
    smiles = dataset.texts("smiles")
    drawings = []
    for row in order:
        text = smiles[int(predicted.graphs[row])]
        drawings.append(
            f'<figure style="margin:0;width:15rem">{_drawing(text)}'
            f"<figcaption>{escape(_said(predicted, dataset, int(row)))}<br>"
            f'<span style="overflow-wrap:anywhere">{escape(text)}</span></figcaption>'
            f"</figure>"
        )
    grid = '<div style="display:flex;flex-wrap:wrap;gap:1rem">'
    yield Section(
        "Largest errors", [Fragment(Markup(f"{grid}{''.join(drawings)}</div>"))]
    )


def _errors(predicted: Predicted, dataset: GraphDataset) -> np.ndarray:
    """The error of each graph ``[G]``: in standard deviations, or as negative
    log-likelihood."""
    values, labels = predicted.values.numpy(), predicted.labels.numpy()
    if dataset.task == "multiclass":
        return -np.log(values[np.arange(len(labels)), labels] + _SMALL)
    if dataset.task == "regression":
        each = np.abs(values - labels) / np.array(predicted.spec.std)
    else:
        each = -np.log(np.where(labels > 0.5, values, 1 - values) + _SMALL)
        each = np.where(np.isnan(labels), np.nan, each)
    return np.where(np.isnan(each), -1.0, each).max(axis=1)


def _said(predicted: Predicted, dataset: GraphDataset, row: int) -> str:
    if dataset.task == "multiclass":
        names = dataset.classes or range(dataset.num_classes or 0)
        found = int(predicted.values[row].argmax())
        return f"{names[found]} instead of {names[int(predicted.labels[row])]}"
    both = predicted.values[row], predicted.labels[row]
    pairs = zip(dataset.targets, *both, strict=True)
    known = [(t.name, float(p), float(y)) for t, p, y in pairs if not y.isnan()]
    return ", ".join(f"{name} {p:.3g} instead of {y:.3g}" for name, p, y in known[:3])


def _drawing(smiles: str) -> str:
    from rdkit import Chem
    from rdkit.Chem.Draw import rdMolDraw2D

    drawer = rdMolDraw2D.MolDraw2DSVG(240, 180)
    drawer.DrawMolecule(Chem.MolFromSmiles(smiles))
    drawer.FinishDrawing()
    return drawer.GetDrawingText().partition("?>")[2]


def _curves(runs: Sequence[RunFolder], metric: str) -> "go.Figure":
    """Solid lines for validation, dotted lines for training, one colour per run."""
    figure = _figure("epoch", metric)
    for color, run in zip(cycle(PALETTE), runs, strict=False):
        curve = run.curve
        for part, dash in (("valid", "solid"), ("test", "solid"), ("train", "dot")):
            name = f"{part}_{metric}"
            if not any(name in row for row in curve.rows):
                continue
            figure.add_scatter(
                x=[epoch + 1 for epoch in range(len(curve))],
                y=curve.column(name),
                name=f"{part}, seed {finished_result(run).seed}",
                line={"color": color, "dash": dash},
            )
    return figure


def _data(run: RunFolder, dataset: GraphDataset) -> Iterator[Block]:
    split = run.split
    how = {k: v for k, v in split.how.items() if k != "in train and test"}
    described = ", ".join(f"{key}: {value}" for key, value in how.items())
    yield Text(f"Split: {described}.")
    leaks = split.how.get("in train and test", [])
    if leaks:
        yield Text(f"{len(leaks)} molecules occur in both training and test part.")
    rejected = (dataset.notes or {}).get("rejected", [])
    if not rejected:
        yield Text("No row was rejected.")
        return
    rows = [
        [str(r["row"]), r["reason"], r["smiles"][:80]] for r in rejected[:MOST_REJECTED]
    ]
    shown = f", the first {MOST_REJECTED}" if len(rejected) > MOST_REJECTED else ""
    yield Table(
        ["row", "reason", "SMILES"], rows, f"{len(rejected):,} rejected rows{shown}"
    )


def _figure(x: str, y: str) -> "go.Figure":
    import plotly.graph_objects as go

    return go.Figure().update_layout(
        height=420,
        margin={"l": 10, "r": 10, "t": 10, "b": 10},
        xaxis_title=x,
        yaxis_title=y,
        showlegend=True,
    )


def _number(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.4g}"
