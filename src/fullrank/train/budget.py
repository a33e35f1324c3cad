"""How many epochs fit into a given time."""

import tempfile
import time
from pathlib import Path

from fullrank.data import GraphDataset
from fullrank.train.config import Config, digest_of
from fullrank.train.experiment import single_runs
from fullrank.train.files import Record
from fullrank.train.run import identify, run_one

TIMED_EPOCHS = 2
#: Fraction of the time for epochs; the rest is for testing and saving.
USED = 0.9
#: Maximum number of epochs, as a multiple of the configured one.
LONGEST = 10


class Budget(Record):
    """The number of epochs that fit into a time limit."""

    seconds: float
    seconds_per_epoch: float
    epochs: int


def within(config: Config, dataset: GraphDataset, seconds: float) -> Config:
    """The configuration with as many epochs as fit into ``seconds`` for all its runs.

    A few epochs are timed first. The result is stored in the folder of runs, so that
    the same call later refers to the same runs.
    """
    key = digest_of([identify(config, dataset).id, seconds])[:12]
    file = config.runs / f"budget-{config.data.label}-{key}.json"
    if not file.exists():
        budget = _timed(config, dataset, seconds)
        config.runs.mkdir(parents=True, exist_ok=True)
        budget.write(file)
    return config.changed(training={"epochs": Budget.read(file).epochs})


def _timed(config: Config, dataset: GraphDataset, seconds: float) -> Budget:
    begin = time.perf_counter()
    runs = single_runs(config)
    with tempfile.TemporaryDirectory() as folder:
        short = runs[0].changed(training={"epochs": TIMED_EPOCHS}, runs=Path(folder))
        last = run_one(short, dataset).seconds[-1]
    left = (seconds - (time.perf_counter() - begin)) * USED
    epochs = int(left / len(runs) / last)
    longest = LONGEST * config.training.epochs
    return Budget(
        seconds=seconds,
        seconds_per_epoch=last,
        epochs=min(max(epochs, 1), longest),
    )
