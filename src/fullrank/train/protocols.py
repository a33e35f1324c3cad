"""An experiment: one run, or one for each fold and seed, and what they say together."""

import statistics
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from fullrank.data import GraphDataset
from fullrank.train.config import FOLDS, Config, ConfigError
from fullrank.train.files import replacing, write_json
from fullrank.train.journal import read_curve
from fullrank.train.metrics import LOWER_IS_BETTER
from fullrank.train.run import finished, leading, run_one
from fullrank.train.sources import load_dataset


def runs_of(config: Config) -> list[Config]:
    """The single runs of an experiment: each seed, and of each seed every fold."""
    folds: Sequence[int | None] = [config.split.fold]
    if config.split.kind in FOLDS and config.split.fold is None:
        folds = range(config.split.folds)
    return [
        config.changed(seeds=[seed], split={"fold": fold})
        for seed in config.seeds
        for fold in folds
    ]


def run_experiment(
    config: Config,
    dataset: GraphDataset | None = None,
    console: Console | None = None,
    lines: bool = False,
) -> dict[str, Any]:
    """Do all runs of an experiment that are not done yet, and summarise them.

    The arguments are those of `run_one`. With more than one run the summary is also
    written to ``summary.json`` in a folder of its own.
    """
    singles = runs_of(config)
    try:
        config.runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"runs = {str(config.runs)!r}: cannot make this folder ({error.strerror}); "
            f"choose another"
        ) from None
    if dataset is None and any(finished(single) is None for single in singles):
        dataset = load_dataset(config.data)
    for single in singles:
        run_one(single, dataset, console, lines)
    summary = summarize(config)
    if len(singles) > 1 and leading(config):
        config.folder.mkdir(parents=True, exist_ok=True)
        with replacing(config.folder / "config.yaml", encoding="utf-8") as stream:
            stream.write(config.text())
        write_json(config.folder / "summary.json", summary)
    return summary


def summarize(config: Config) -> dict[str, Any]:
    """Mean and standard deviation over the finished runs of an experiment.

    By the protocol ``gin`` a fold's value is that of the epoch at which the mean test
    curve of all folds is best; otherwise a run's value is that of its own best epoch.
    """
    singles = runs_of(config)
    results = [result for single in singles if (result := finished(single))]
    metric = results[0]["metric"]
    measures: dict[str, list[float]] = {
        name: [result["test"][name] for result in results]
        for name in results[0]["test"]
    }
    epochs = None
    if config.split.kind == "gin":
        epochs, measures = _by_mean_curve(config, metric)
    return {
        "experiment": config.id,
        "dataset": results[0]["dataset"],
        "conv": config.model.conv,
        "protocol": config.split.kind or "split",
        "metric": metric,
        "epochs": epochs,
        "test": {name: _spread(values) for name, values in measures.items()},
        "parameters": results[0]["parameters"],
        "seconds": sum(result["seconds"] for result in results),
        "seconds_per_epoch": statistics.median(r["seconds_per_epoch"] for r in results),
        "peak_memory": max(result["peak_memory"] for result in results),
        "runs": [result["run"] for result in results],
    }


def _by_mean_curve(
    config: Config, metric: str
) -> tuple[list[int], dict[str, list[float]]]:
    """The epoch that is best on the mean test curve of each seed, and its values."""
    choose = min if metric in LOWER_IS_BETTER else max
    epochs, values = [], []
    for seed in config.seeds:
        curves = [
            read_curve(single.folder / "metrics.csv", f"test_{metric}")
            for single in runs_of(config.changed(seeds=[seed]))
        ]
        mean = [statistics.fmean(column) for column in zip(*curves, strict=True)]
        epoch = choose(range(len(mean)), key=mean.__getitem__)
        epochs.append(epoch)
        values += [curve[epoch] for curve in curves]
    return epochs, {metric: values}


def _spread(values: Sequence[float | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    return {
        "mean": statistics.fmean(known) if known else None,
        "std": statistics.stdev(known) if len(known) > 1 else None,
        "values": list(values),
    }
