"""One run: fit, test, and a folder that tells all about it."""

import contextlib
import logging
import math
import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
from filelock import FileLock, Timeout
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only
from rich.console import Console

from fullrank.data import GraphDataset, PackedLoader, Split
from fullrank.data.splits import PARTS
from fullrank.errors import ConfigError, RunError
from fullrank.train.blueprint import draw_blueprint
from fullrank.train.checkpoints import EpochKeeper, SafeFiles, load_checkpoint
from fullrank.train.config import Config
from fullrank.train.environment import (
    environment,
    forget_peak_memory,
    peak_memory,
)
from fullrank.train.files import read_json, remove_leftovers, replacing, write_json
from fullrank.train.interrupt import Interrupted, StopBetweenBatches
from fullrank.train.journal import Journal, read_curve, read_rows
from fullrank.train.metrics import main_metric
from fullrank.train.progress import EpochBar
from fullrank.train.sources import load_dataset, make_split
from fullrank.train.task import Diverged, GraphTask


def run_one(
    config: Config,
    dataset: GraphDataset | None = None,
    console: Console | None = None,
    lines: bool = False,
) -> dict[str, Any]:
    """Do a single run, or what is left of it, and return its ``result.json``.

    Args:
        config: With one seed, and one fold if it has folds.
        dataset: That of ``config.data``, if it is loaded already.
        console: Where to show progress; nowhere by default.
        lines: Print a line for each epoch.
    """
    if len(config.seeds) > 1:
        raise ConfigError(f"a run of its own has one seed, got {config.seeds}")
    result = finished(config)
    if result is not None:
        return result
    config.folder.mkdir(parents=True, exist_ok=True)
    with _locked(config), _quiet_lightning(), _unfilled(), _explained(config):
        if dataset is None:
            dataset = load_dataset(config.data)
        return _Run(config, dataset, console, lines).do()


def finished(config: Config, or_longer: bool = False) -> dict[str, Any] | None:
    """The result of a run if there is one for as many epochs, or for more."""
    file = config.folder / "result.json"
    if not file.exists():
        return None
    result = read_json(file)
    if not or_longer:
        _refuse_fewer(config, result["epochs"])
    done = result["epochs"] >= config.training.epochs or result["stopped_early"]
    return result if done else None


class _Run:
    """What belongs together while a run is done."""

    def __init__(
        self,
        config: Config,
        dataset: GraphDataset,
        console: Console | None,
        lines: bool,
    ) -> None:
        self.config = config
        self.folder = config.folder
        self.dataset = dataset
        self.split = make_split(config, dataset).check(len(dataset))
        if not len(self.split.train):
            raise ConfigError(f"no graph of {dataset.name} is left for training")
        self.plan = draw_blueprint(config, dataset, self.split)
        lightning.seed_everything(config.seeds[0], verbose=False)
        self.task = GraphTask(self.plan, config, dataset)
        self.metric = None
        if config.split.kind == "gin":
            self.task.evaluated = "test"
        elif len(self.split.valid):
            self.metric = f"valid_{main_metric(self.plan)}"
        self.epochs_done = self._epochs_done()
        forget_peak_memory()
        if leading(self.config):
            self._write_folder()
            self.metrics = Journal(self.folder / "metrics.csv", self.epochs_done)
            self.times = Journal(self.folder / "times.csv", self.epochs_done)
        self.stopper = StopBetweenBatches()
        self.trainer = self._trainer(console, lines)

    def do(self) -> dict[str, Any]:
        if self.epochs_done < self.config.training.epochs:
            self._fit()
        chosen = self._checkpoint("last" if self.metric is None else "best")
        weights = load_checkpoint(chosen, self.config.id)["state_dict"]
        self.task.load_state_dict(weights)
        self.task.row, self.task.evaluated = {}, "test"
        if len(self.split.test):
            self.trainer.test(self.task, self._loader("test"), verbose=False)
        if leading(self.config):
            write_json(self.folder / "result.json", self._result())
        self.trainer.strategy.barrier()
        return read_json(self.folder / "result.json")

    def _fit(self) -> None:
        evaluated = self.task.evaluated
        with self.stopper:
            self.trainer.fit(
                self.task,
                self._loader("train", shuffle=True),
                self._loader(evaluated)
                if len(getattr(self.split, evaluated))
                else None,
                ckpt_path=self._checkpoint("last") if self.epochs_done else None,
                weights_only=True,
            )

    def _result(self) -> dict[str, Any]:
        last = load_checkpoint(self._checkpoint("last"), self.config.id)
        chosen = load_checkpoint(
            self._checkpoint("last" if self.metric is None else "best"), self.config.id
        )
        row = read_rows(self.folder / "metrics.csv")[chosen["epoch"]]
        seconds = read_curve(self.folder / "times.csv", "seconds")
        return {
            "run": self.config.id,
            "dataset": self.plan.dataset,
            "conv": self.config.model.conv,
            "seed": self.config.seeds[0],
            "fold": self.config.split.fold,
            "metric": main_metric(self.plan),
            "epochs": last["epoch"] + 1,
            "stopped_early": last["epoch"] + 1 < self.config.training.epochs,
            "best_epoch": chosen["epoch"],
            "train": _part("train", row),
            "valid": _part("valid", row),
            "test": _part("test", self.task.row),
            "graphs": {part: len(getattr(self.split, part)) for part in PARTS},
            "parameters": sum(p.numel() for p in self.task.network.parameters()),
            "seconds": sum(seconds),
            "seconds_per_epoch": float(np.median(seconds)),
            "peak_memory": peak_memory(),
        }

    def _epochs_done(self) -> int:
        file = self._checkpoint("last")
        if not file.exists():
            return 0
        done = load_checkpoint(file, self.config.id)["epoch"] + 1
        _refuse_fewer(self.config, done)
        return done

    def _write_folder(self) -> None:
        remove_leftovers(self.folder)
        file = self.folder / "split.json"
        if self.epochs_done and not _same(Split.load(file), self.split):
            raise RunError(
                f"{self.dataset.name} is split differently now than when the run "
                f"{self.folder} began: the data changed; move the folder away to begin "
                f"anew"
            )
        with replacing(self.folder / "config.yaml", encoding="utf-8") as stream:
            stream.write(self.config.text())
        self.split.save(file)
        self.plan.save(self.folder / "model.json")
        self._write_environment()

    def _write_environment(self) -> None:
        """Where the run goes on, with the commits that its first epochs are from."""
        file, now = self.folder / "environment.json", environment()
        if self.epochs_done and file.exists():
            before = read_json(file)
            earlier = [*before.get("earlier_commits", ()), before["commit"]]
            now["earlier_commits"] = [
                commit for commit in dict.fromkeys(earlier) if commit != now["commit"]
            ]
        write_json(file, now)

    def _checkpoint(self, name: str) -> Path:
        return self.folder / "checkpoints" / f"{name}.ckpt"

    def _loader(self, part: str, shuffle: bool = False) -> PackedLoader:
        processes = self.trainer.world_size
        return self.dataset.loader(
            getattr(self.split, part),
            batch_size=self.config.training.batch_size // processes,
            shuffle=shuffle,
            seed=self.config.seeds[0],
            shard=self.trainer.global_rank,
            num_shards=processes,
        )

    def _trainer(self, console: Console | None, lines: bool) -> lightning.Trainer:
        training, compute = self.config.training, self.config.compute
        keeper = EpochKeeper(
            self.config.id,
            self.folder / "checkpoints",
            self.metric,
            training.patience,
            self._record,
        )
        callbacks: list[Callback] = [keeper, self.stopper]
        if console is not None and leading(self.config):
            title = self.folder.name.rpartition("-")[0]
            callbacks.append(EpochBar(title, self._shown(), console, lines))
        return lightning.Trainer(
            accelerator=compute.accelerator,
            devices=compute.devices,
            num_nodes=compute.nodes,
            strategy="ddp" if compute.devices * compute.nodes > 1 else "auto",
            precision=training.precision,
            max_epochs=training.epochs,
            gradient_clip_val=self.config.optimizer.clip,
            deterministic=training.deterministic,
            callbacks=callbacks,
            plugins=[SafeFiles()],
            logger=TensorBoardLogger(self.folder, name="", version="tensorboard"),
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
        )

    def _shown(self) -> str | None:
        if self.config.split.kind == "gin":
            return f"test_{main_metric(self.plan)}"
        return self.metric

    def _record(self, epoch: int, row: dict[str, float], seconds: float) -> None:
        """Write the line of an epoch that is complete but not saved yet."""
        if not leading(self.config):
            return
        self.metrics.add(epoch, row)
        speed = len(self.split.train) / seconds
        self.times.add(epoch, {"seconds": seconds, "graphs_per_second": speed})
        assert self.trainer.logger is not None
        self.trainer.logger.log_metrics(row, step=epoch)


def _part(part: str, row: dict[str, Any]) -> dict[str, float | None]:
    """The measures of one part of the split; JSON has null for what is no number."""
    measured = {
        name.removeprefix(f"{part}_"): float(value)
        for name, value in row.items()
        if name.startswith(f"{part}_")
    }
    return {k: None if math.isnan(value) else value for k, value in measured.items()}


def _same(one: Split, other: Split) -> bool:
    return all(np.array_equal(getattr(one, p), getattr(other, p)) for p in PARTS)


def _refuse_fewer(config: Config, done: int) -> None:
    if done > config.training.epochs:
        raise RunError(
            f"the run {config.folder} has {done} epochs already, more than the "
            f"{config.training.epochs} of training.epochs; ask for at least {done}, or "
            f"set runs to another folder"
        )


def leading(config: Config) -> bool:
    """Whether this is the process that writes, of the several that may train."""
    machine = "0"
    if config.compute.nodes > 1:
        # Lightning learns it from the environment only once there is a trainer.
        machine = os.environ.get("NODE_RANK", os.environ.get("GROUP_RANK", "0"))
    return machine == "0" and getattr(rank_zero_only, "rank", 0) == 0


@contextlib.contextmanager
def _locked(config: Config) -> Iterator[None]:
    """Let one process at a time work in a run folder."""
    if not leading(config):
        yield
        return
    lock = FileLock(config.folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RunError(
            f"another process is working on the run {config.folder}"
        ) from None
    with lock:
        try:
            yield
        finally:
            if [file.name for file in config.folder.iterdir()] == [".lock"]:
                shutil.rmtree(config.folder)  # the run was refused before it began


@contextlib.contextmanager
def _explained(config: Config) -> Iterator[None]:
    """Say what is left and how to go on when a run ends before its time."""
    try:
        yield
    except Diverged as error:
        raise RunError(f"{error}; {_standing(config)}") from error
    except Interrupted:
        raise Interrupted(f"stopped; {_standing(config)}") from None
    except OSError as error:
        raise RunError(
            f"cannot write to {config.folder}: {error.strerror or error}; "
            f"{_standing(config)}"
        ) from error


def _standing(config: Config) -> str:
    file = config.folder / "checkpoints" / "last.ckpt"
    if not file.exists():
        return f"no epoch of {config.folder} was complete yet"
    epochs = load_checkpoint(file, config.id)["epoch"] + 1
    return (
        f"{epochs} of {config.training.epochs} epochs are safe in {file}, and the same "
        f"command goes on from there"
    )


@contextlib.contextmanager
def _unfilled() -> Iterator[None]:
    """Keep deterministic mode from writing NaN into all memory that is about to be
    written anyway: up to a tenth of a step."""
    mode: Any = torch.utils.deterministic
    before, mode.fill_uninitialized_memory = mode.fill_uninitialized_memory, False
    try:
        yield
    finally:
        mode.fill_uninitialized_memory = before


@contextlib.contextmanager
def _quiet_lightning() -> Iterator[None]:
    """Keep Lightning's tips and warnings off the terminal; our own words say more."""
    loggers = [logging.getLogger(f"lightning.{part}") for part in ("pytorch", "fabric")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"lightning\..*")
        warnings.filterwarnings("ignore", message=".*does not have many workers.*")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
