"""One run of an estimator, with the same run folder as for a network."""

import time

import numpy as np
import torch

from fullrank.data import GraphDataset
from fullrank.data.splits import PARTS
from fullrank.errors import ConfigError
from fullrank.train.config import Config
from fullrank.train.environment import environment, forget_peak_memory, peak_memory
from fullrank.train.estimators import ESTIMATORS, Estimator
from fullrank.train.metrics import measure
from fullrank.train.model import describe_task
from fullrank.train.run_folder import Identity, Result, RunFolder, measures
from fullrank.train.splitting import make_split


def make_estimator(config: Config) -> Estimator:
    """Create the estimator of a configuration."""
    name, arguments = config.model.name or "", config.model.args or {}
    try:
        return ESTIMATORS[name](seed=config.seeds[0], **arguments)
    except TypeError as error:
        raise ConfigError(f"model.args of {name}: {error}") from None


def fit_and_measure(
    run: RunFolder, identity: Identity, config: Config, dataset: GraphDataset
) -> None:
    """Do the run of an estimator, which has one epoch."""
    split = make_split(config, dataset).check(len(dataset))
    spec = describe_task(config, dataset, split, run.id)
    estimator = make_estimator(config)
    forget_peak_memory()
    run.begin(identity, config, split, environment())
    started = time.perf_counter()
    estimator.fit(dataset, split.train)
    scores: dict[str, dict[str, float]] = {}
    for part in PARTS:
        indices = np.asarray(getattr(split, part))
        scores[part] = {}
        if len(indices):
            found = torch.from_numpy(estimator.predict(dataset, indices))
            labels = torch.from_numpy(np.asarray(dataset.labels)[indices])
            graphs = torch.from_numpy(indices)
            scores[part] = measure(spec, found, labels, graphs, dataset)
    seconds = time.perf_counter() - started
    row = {f"{p}_{name}": v for p in PARTS for name, v in scores[p].items()}
    for file, values in (
        (run.metrics_file, row),
        (run.times_file, {"seconds": seconds}),
    ):
        file.cut(0)
        file.add(0, values)
    run.finish(
        Result(
            run=run.id,
            dataset=spec.dataset,
            conv=config.model.label,
            seed=config.seeds[0],
            fold=config.split.fold,
            metric=spec.main_metric,
            epochs=1,
            stopped_early=config.training.epochs > 1,
            best_epoch=0,
            **{part: measures(scores[part]) for part in PARTS},
            train_eval=measures(scores["train"]),
            graphs=spec.graphs,
            parameters=0,
            seconds=seconds,
            seconds_per_epoch=seconds,
            peak_memory=peak_memory(),
        )
    )
