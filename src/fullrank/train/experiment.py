"""An experiment: one run, or one for each fold and seed, and their summary."""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from lightning.pytorch.callbacks import Callback
from rich.console import Console

from fullrank.data import GraphDataset
from fullrank.errors import ConfigError, RunError
from fullrank.train.config import FOLDS, Config
from fullrank.train.evaluate import evaluate_ensemble
from fullrank.train.metrics import LOWER_IS_BETTER
from fullrank.train.run import identify, leading, run_one
from fullrank.train.run_folder import (
    ExperimentFolder,
    MetricSummary,
    Result,
    RunFolder,
    Summary,
    model_files,
)


def single_runs(config: Config) -> list[Config]:
    """The single runs of an experiment: all networks of the ensemble, for every fold of
    every seed."""
    folds: Sequence[int | None] = [config.split.fold]
    if config.split.kind in FOLDS and config.split.fold is None:
        folds = range(config.split.folds)
    size = config.ensemble or 1
    starts: list[Path | None] = [None]
    if config.training.start is not None:
        starts = [*model_files(config.training.start)]
    return [
        config.changed(
            seeds=[seed * size + member],
            ensemble=None,
            split={"fold": fold},
            training={"start": starts[member % len(starts)]},
        )
        for seed in config.seeds
        for fold in folds
        for member in range(size)
    ]


def run_experiment(
    config: Config,
    dataset: GraphDataset | None = None,
    console: Console | None = None,
    lines: bool = False,
    callbacks: Sequence[Callback] = (),
    wait: float = 0,
    announce: Callable[[Path], None] = lambda folder: None,
) -> Summary:
    """Do all runs of an experiment that are not done yet, and summarise them.

    The other arguments are those of `run_one`. With more than one run, the summary is
    also written to a folder next to the run folders.

    Args:
        announce: Called with the folder of the run or experiment before it starts.
    """
    try:
        config.runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"runs = {str(config.runs)!r}: cannot create this folder "
            f"({error.strerror}); choose another"
        ) from None
    if dataset is None:
        dataset = config.load_data()
    singles = single_runs(config)
    name = identify(singles[0] if len(singles) == 1 else config, dataset).id
    announce(config.runs / name)
    runs = [
        run_one(single, dataset, console, lines, callbacks, wait) for single in singles
    ]
    summary = summarize(config, runs, name)
    if config.ensemble is not None and config.ensemble > 1:
        summary = _of_ensembles(summary, runs, config.ensemble, dataset)
    if len(runs) > 1 and leading(config):
        ExperimentFolder(config.runs / name).write(config, summary)
    return summary


def summarize(
    config: Config, runs: Sequence[RunFolder], name: str | None = None
) -> Summary:
    """Mean and standard deviation over the finished runs of an experiment.

    With the protocol ``gin``, the score of a fold is that of the epoch at which the
    mean test curve of all folds is best; otherwise the score of a run is that of its
    own best epoch.

    Args:
        config: Configuration of any of the runs.
        runs: Finished runs that differ only in seed and fold.
        name: Name of the experiment; by default that of its first run.
    """
    results = [finished_result(run) for run in runs]
    first = results[0]
    epochs = None
    values = {measure: [r.test.get(measure) for r in results] for measure in first.test}
    if config.split.kind == "gin":
        epochs, values = _by_mean_curve(runs, results)
    return Summary(
        experiment=name or runs[0].id,
        dataset=first.dataset,
        conv=first.conv,
        protocol=config.split.kind if config.split.kind in FOLDS else "split",
        metric=first.metric,
        epochs=epochs,
        test={measure: summarize_values(found) for measure, found in values.items()},
        parameters=first.parameters,
        seconds=sum(result.seconds for result in results),
        seconds_per_epoch=statistics.median(r.seconds_per_epoch for r in results),
        peak_memory=max(result.peak_memory for result in results),
        runs=[run.id for run in runs],
    )


def _of_ensembles(
    summary: Summary, runs: Sequence[RunFolder], size: int, dataset: GraphDataset
) -> Summary:
    """The summary with the scores of ensembles of ``size`` consecutive runs."""
    ensembles = [runs[start : start + size] for start in range(0, len(runs), size)]
    measured = [evaluate_ensemble(members, dataset) for members in ensembles]
    test = {
        name: summarize_values([each[name] for each in measured])
        for name in measured[0]
        if name != "loss"
    }
    return summary.model_copy(update={"test": test, "ensemble": size})


def finished_result(run: RunFolder) -> Result:
    """The result of a run; refuse a run that is not finished."""
    result = run.result
    if result is None:
        raise RunError(f"the run {run.path} is not finished")
    return result


def _by_mean_curve(
    runs: Sequence[RunFolder], results: Sequence[Result]
) -> tuple[list[int], dict[str, list[float | None]]]:
    """The best epoch of the mean test curve of each seed, and its scores."""
    metric = results[0].metric
    choose = min if metric in LOWER_IS_BETTER else max
    epochs: list[int] = []
    values: list[float | None] = []
    for seed in dict.fromkeys(result.seed for result in results):
        curves = [
            run.curve.column(f"test_{metric}")
            for run, result in zip(runs, results, strict=True)
            if result.seed == seed
        ]
        mean = [statistics.fmean(column) for column in zip(*curves, strict=True)]
        epoch = choose(range(len(mean)), key=mean.__getitem__)
        epochs.append(epoch)
        values += [curve[epoch] for curve in curves]
    return epochs, {metric: values}


def summarize_values(values: Sequence[float | None]) -> MetricSummary:
    """Mean and sample standard deviation, ignoring None."""
    known = [value for value in values if value is not None]
    return MetricSummary(
        mean=statistics.fmean(known) if known else None,
        std=statistics.stdev(known) if len(known) > 1 else None,
        values=list(values),
    )
