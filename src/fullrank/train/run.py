"""One run: fit, test, and write the run folder."""

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from rich.console import Console

from fullrank.data import GraphDataset, PackedLoader, Split
from fullrank.data.splits import ALL_PARTS, folds_fingerprint
from fullrank.errors import ConfigError, FullrankError, RunError
from fullrank.interrupt import Interrupted, stoppable
from fullrank.train.callbacks import (
    AtomicCheckpointIO,
    BestCheckpoint,
    EpochLog,
    EpochLogger,
    ExactResume,
    StopOnInterrupt,
    last_checkpoint,
    load_checkpoint,
)
from fullrank.train.confidence import add_confidence
from fullrank.train.config import FOLDS, Config, digest_of
from fullrank.train.environment import environment, forget_peak_memory, peak_memory
from fullrank.train.estimators import ESTIMATORS
from fullrank.train.finetune import start_from
from fullrank.train.fit import fit_and_measure
from fullrank.train.metrics import LOWER_IS_BETTER
from fullrank.train.model import design_model
from fullrank.train.progress import EpochBar
from fullrank.train.run_folder import (
    Identity,
    Measures,
    Result,
    RunFolder,
    measures,
)
from fullrank.train.splitting import make_split
from fullrank.train.task import Diverged, GraphTask
from fullrank.train.twins import graphs_for


def identify(config: Config, dataset: GraphDataset) -> Identity:
    """The identity of a run of this configuration on these data.

    The id ends in a hash of the configuration, the content of the data and the files
    that define the folds, independent of their location.
    """
    data, folds = dataset.fingerprint, folds_of(config)
    digest = digest_of([config.determining(), data, folds])[:12]
    return Identity(
        id=f"{config.data.label}-{config.model.label}-{digest}",
        data=data,
        folds=folds,
        dataset=dataset.name,
        graphs=len(dataset),
    )


def folds_of(config: Config) -> str | None:
    """The fingerprint of the files with folds, if the configuration names any."""
    folder = config.split.folder
    return None if folder is None else folds_fingerprint(folder)


def run_folder(config: Config, dataset: GraphDataset) -> RunFolder:
    """The folder of a run of this configuration on these data."""
    return RunFolder(config.runs / identify(config, dataset).id)


def run_one(
    config: Config,
    dataset: GraphDataset | None = None,
    console: Console | None = None,
    lines: bool = False,
    callbacks: Sequence[Callback] = (),
    wait: float = 0,
) -> RunFolder:
    """Do a single run, or resume it.

    Args:
        config: Configuration with one seed, and one fold if it has folds.
        dataset: The data set of ``config.data``, if already loaded.
        console: Console for progress; none by default.
        lines: Whether to print a line per epoch.
        callbacks: Further Lightning callbacks. The values they log are stored with the
            metrics. They must not change the training, because they are not part of its
            id.
        wait: Seconds to wait for another process that works on the same run.
    """
    if len(config.seeds) > 1:
        raise ConfigError(f"a single run needs one seed, got {config.seeds}")
    if config.ensemble is not None:
        raise ConfigError(f"a single run needs one network, got {config.ensemble}")
    if config.split.kind in FOLDS and config.split.fold is None:
        raise ConfigError("a single run needs one fold: set split.fold")
    if dataset is None:
        dataset = config.load_data()
    run = run_folder(config, dataset)
    if is_finished(run, config):
        return run
    lock = run.locked(wait) if leading(config) else contextlib.nullcontext()
    with lock, _quiet_lightning(), _unfilled(), _explained(run, config):
        if is_finished(run, config):  # by another process, in the meantime
            pass
        elif config.model.name in ESTIMATORS:
            fit_and_measure(run, identify(config, dataset), config, dataset)
        else:
            _Run(run, config, dataset, console, lines, callbacks).do()
    return run


def is_finished(run: RunFolder, config: Config, or_longer: bool = False) -> bool:
    """Whether a run has a result for at least as many epochs."""
    result = run.result
    if result is None:
        return False
    if not or_longer:
        _refuse_fewer(run, config, result.epochs)
    return result.epochs >= config.training.epochs or result.stopped_early


class _Run:
    """The state of a run in progress."""

    def __init__(
        self,
        run: RunFolder,
        config: Config,
        dataset: GraphDataset,
        console: Console | None,
        lines: bool,
        callbacks: Sequence[Callback],
    ) -> None:
        self.run = run
        self.config = config
        self.dataset = dataset
        self.split = make_split(config, dataset).check(len(dataset))
        if not len(self.split.train):
            raise ConfigError(f"the split of {dataset.name} has no training graphs")
        spec = design_model(config, dataset, self.split, run.id)
        lightning.seed_everything(config.seeds[0], verbose=False)
        self.validation = "test" if config.split.kind == "gin" else "valid"
        self.task = GraphTask(spec, config, dataset, self.validation)
        self.task.model.fit_descriptors(dataset, self.split.train)
        self.graphs = graphs_for(self.task.model.network, dataset.graphs)
        if config.training.start is not None:
            start_from(self.task.model, config.training.start)
        self.shown: str | None = None
        if len(getattr(self.split, self.validation)):
            self.shown = f"{self.validation}_{spec.main_metric}"
        # In the protocol gin, a single run must not choose an epoch.
        self.metric = self.shown if self.validation == "valid" else None
        self.epochs_done, self.stopped = self._done()
        forget_peak_memory()
        if leading(config):
            self._begin()
        self.trainer = self._trainer(console, lines, callbacks)

    def do(self) -> None:
        with stoppable():
            if self.epochs_done < self.config.training.epochs and not self.stopped:
                self._fit()
            file = self.run.checkpoint("best" if self.metric else "last")
            chosen = load_checkpoint(file, self.run.id)
            self.task.load_state_dict(chosen["state_dict"])
            train, test = (self._measured(part) for part in ("train", "test"))
        if leading(self.config):
            self._finish(chosen["epoch"], train, test)
        self.trainer.strategy.barrier()

    def _fit(self) -> None:
        valid = self._loader(self.validation) if self.shown else None
        self.trainer.fit(
            self.task,
            self._loader("train", shuffle=True),
            valid,
            ckpt_path=self.run.checkpoint("last") if self.epochs_done else None,
            weights_only=True,
        )

    def _measured(self, part: str) -> Measures:
        """The scores of a part in evaluation mode."""
        if not len(getattr(self.split, part)):
            return {}
        (found,) = self.trainer.test(self.task, self._loader(part), verbose=False)
        return _part("test", found)

    def _finish(self, best_epoch: int, train: Measures, test: Measures) -> None:
        """Write the model and the result."""
        spec, config = self.task.spec, self.config
        epochs = load_checkpoint(self.run.checkpoint("last"), self.run.id)["epoch"] + 1
        row = self.run.curve.rows[best_epoch]
        scores = {part: _part(part, row) for part in ("train", "valid")}
        scores["test"] = test
        seconds = self.run.seconds
        model = self.task.model
        similarity = config.training.similarity is not False
        added = add_confidence(model, self.dataset, self.split, similarity)
        scores["test"] |= measures(added)
        model.spec = model.spec.model_copy(update={"scores": scores})
        model.save(self.run.model_file)
        result = Result(
            run=self.run.id,
            dataset=spec.dataset,
            conv=config.model.label,
            seed=config.seeds[0],
            fold=config.split.fold,
            metric=spec.main_metric,
            epochs=epochs,
            stopped_early=epochs < config.training.epochs,
            best_epoch=best_epoch,
            **scores,
            train_eval=train,
            graphs=spec.graphs,
            parameters=sum(p.numel() for p in model.network.parameters()),
            seconds=sum(seconds),
            seconds_per_epoch=float(np.median(seconds)),
            peak_memory=peak_memory(),
        )
        self.run.finish(result)

    def _done(self) -> tuple[int, bool]:
        """Number of saved epochs, and whether training was stopped early."""
        file = self.run.checkpoint("last")
        if not file.exists():
            return 0, False
        last = load_checkpoint(file, self.run.id)
        _refuse_fewer(self.run, self.config, last["epoch"] + 1)
        return last["epoch"] + 1, last["stopped"]

    def _begin(self) -> None:
        here = environment()
        if self.epochs_done:
            if not _same(self.run.split, self.split):
                raise RunError(
                    f"the split of {self.dataset.name} has changed since the run "
                    f"{self.run.path} started; move the folder away to start again"
                )
            here = here.resuming(self.run.environment)
        identity = identify(self.config, self.dataset)
        self.run.begin(identity, self.config, self.split, here)
        self.run.metrics_file.cut(self.epochs_done)
        self.run.times_file.cut(self.epochs_done)

    def _loader(self, part: str, shuffle: bool = False) -> PackedLoader:
        processes = self.trainer.world_size
        return PackedLoader(
            self.graphs,
            getattr(self.split, part),
            batch_size=self.config.training.batch_size // processes,
            shuffle=shuffle,
            seed=self.config.seeds[0],
            shard=self.trainer.global_rank,
            num_shards=processes,
        )

    def _trainer(
        self, console: Console | None, lines: bool, further: Sequence[Callback]
    ) -> lightning.Trainer:
        training, compute = self.config.training, self.config.compute
        callbacks: list[Callback] = [*further, StopOnInterrupt(), ExactResume(self.run)]
        if console is not None and leading(self.config):
            title = self.run.id.rpartition("-")[0]
            callbacks.append(EpochBar(title, self.shown, console, lines))
        logger = EpochLogger()
        callbacks.append(EpochLog(self.run, logger, len(self.split.train)))
        if self.metric is not None:
            lower = self.task.spec.main_metric in LOWER_IS_BETTER
            mode = "min" if lower else "max"
            if training.patience is not None:
                callbacks.append(
                    EarlyStopping(
                        self.metric,
                        patience=training.patience,
                        mode=mode,
                        check_finite=False,
                        check_on_train_epoch_end=True,
                    )
                )
            callbacks.append(BestCheckpoint(self.run, self.metric, mode))
        callbacks.append(last_checkpoint(self.run))
        trainer = _make_trainer(
            accelerator=compute.accelerator,
            devices=compute.devices,
            num_nodes=compute.nodes,
            strategy="ddp" if compute.devices * compute.nodes > 1 else "auto",
            precision=training.precision,
            max_epochs=training.epochs,
            gradient_clip_val=self.config.optimizer.clip,
            deterministic=training.deterministic,
            callbacks=callbacks,
            plugins=[AtomicCheckpointIO()],
            logger=logger,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
        )
        if trainer.precision.removesuffix("-true") != training.precision:
            raise ConfigError(
                f"training.precision {training.precision} needs a GPU; here it would "
                f"be {trainer.precision}"
            )
        return trainer


def _make_trainer(**options: Any) -> lightning.Trainer:
    try:
        return lightning.Trainer(**options)
    except MisconfigurationException as error:
        raise ConfigError(f"compute does not fit this machine: {error}") from None


def _part(part: str, row: Mapping[str, float]) -> Measures:
    """The metrics of one part of the split."""
    start = f"{part}_"
    return measures({k.removeprefix(start): row[k] for k in row if k.startswith(start)})


def _same(one: Split, other: Split) -> bool:
    return all(np.array_equal(getattr(one, p), getattr(other, p)) for p in ALL_PARTS)


def _refuse_fewer(run: RunFolder, config: Config, done: int) -> None:
    if done > config.training.epochs:
        raise RunError(
            f"the run {run.path} already has {done} epochs, more than the "
            f"{config.training.epochs} of training.epochs; set at least {done}, or "
            f"set runs to another folder"
        )


def leading(config: Config) -> bool:
    """Whether this process writes files, if several processes train."""
    machine = "0"
    if config.compute.nodes > 1:
        # Lightning reads the environment only when a trainer is created.
        machine = os.environ.get("NODE_RANK", os.environ.get("GROUP_RANK", "0"))
    return machine == "0" and getattr(rank_zero_only, "rank", 0) == 0


@contextlib.contextmanager
def _explained(run: RunFolder, config: Config) -> Iterator[None]:
    """Add what is saved and how to resume to the error of an interrupted run."""
    try:
        yield
    except Diverged as error:
        raise RunError(f"{error}; {_standing(run, config)}") from error
    except Interrupted:
        raise Interrupted(f"stopped; {_standing(run, config)}") from None
    except FullrankError:
        raise
    except OSError as error:
        raise RunError(
            f"cannot write to {run.path}: {error.strerror or error}; "
            f"{_standing(run, config)}"
        ) from error


def _standing(run: RunFolder, config: Config) -> str:
    file = run.checkpoint("last")
    if not file.exists():
        return f"no epoch of {run.path} is complete; the same command starts again"
    epochs = load_checkpoint(file, run.id)["epoch"] + 1
    return (
        f"{epochs} of {config.training.epochs} epochs are saved in {file}, and the "
        f"same command resumes from there"
    )


@contextlib.contextmanager
def _unfilled() -> Iterator[None]:
    """Keep deterministic mode from filling uninitialised memory with NaN, which takes
    up to a tenth of a step."""
    mode = cast(Any, torch.utils.deterministic)
    before, mode.fill_uninitialized_memory = mode.fill_uninitialized_memory, False
    try:
        yield
    finally:
        mode.fill_uninitialized_memory = before


@contextlib.contextmanager
def _quiet_lightning() -> Iterator[None]:
    """Suppress Lightning's tips and warnings; our messages are more specific."""
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
