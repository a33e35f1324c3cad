"""Callbacks that Lightning does not provide: resume bit for bit after a kill at any
time, and stop between two batches."""

import hashlib
import io
import random
import time
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch.callbacks import Callback, Checkpoint, ModelCheckpoint
from lightning.pytorch.loggers import Logger

from fullrank import interrupt
from fullrank.errors import RunError
from fullrank.interrupt import Interrupted
from fullrank.train.files import replacing
from fullrank.train.run_folder import RunFolder

_MARK = b"\nsha256 "


def load_checkpoint(file: Path, run: str) -> dict[str, Any]:
    """Read a checkpoint of the run with this id, without executing anything in it."""
    try:
        content = _read(file)
        found = content["run"]
    except FileNotFoundError:
        raise RunError(f"there is no checkpoint {file}") from None
    except (OSError, RunError):
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise RunError(f"{file} is not a fullrank checkpoint: {reason}") from None
    if found != run:
        raise RunError(
            f"{file} belongs to the run {found}, not to {run}, and has another "
            f"configuration; move the checkpoint away, or restore the configuration"
        )
    return content


def with_checksum(content: bytes) -> bytes:
    """The bytes of a checkpoint: torch's bytes, then their SHA-256."""
    return content + _MARK + hashlib.sha256(content).hexdigest().encode()


def _read(file: Path) -> dict[str, Any]:
    data = file.read_bytes()
    content = data.rpartition(_MARK)[0]
    if with_checksum(content) != data:
        raise RunError(
            f"{file} is damaged, or not a checkpoint of this version of fullrank: its "
            f"checksum does not match; restore it, or move the run folder away to "
            f"start again"
        )
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes checkpoints atomically, and reads them without unpickling objects.

    A SHA-256 is appended, because torch does not detect most flipped bits.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        # Not directly to the file, because torch hides the cause of an OSError.
        buffer = io.BytesIO()
        torch.save(checkpoint, buffer)
        with replacing(file, "wb") as stream:
            stream.write(with_checksum(buffer.getvalue()))

    def load_checkpoint(self, path: Any, *_: Any, **__: Any) -> dict[str, Any]:
        return _read(Path(path))


class EpochLogger(Logger):
    """Collects values logged by callbacks, besides the module's metrics, for
    `EpochLog`."""

    name = version = None

    def __init__(self) -> None:
        super().__init__()
        self.logged: dict[str, float] = {}

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        if "epoch" not in metrics:  # otherwise they are in `callback_metrics`
            self.logged |= metrics

    def log_hyperparams(self, *_: Any, **__: Any) -> None:
        """Do nothing: the run folder contains the configuration."""


class EpochLog(Checkpoint):
    """Writes the logged values of an epoch to the run folder before it is saved.

    As a `Checkpoint`, it is called after the module has logged and before the following
    `ModelCheckpoint`, so every saved epoch has a row. Lightning's CSVLogger writes
    later, and loses earlier epochs when a run is resumed.
    """

    def __init__(self, run: RunFolder, logger: EpochLogger, graphs: int) -> None:
        self.run = run
        self.logger = logger
        self.graphs = graphs

    def on_train_epoch_start(self, trainer: lightning.Trainer, task: Any) -> None:
        self._began = time.perf_counter()
        trainer.callback_metrics.clear()  # values that are not logged in every epoch

    def on_train_epoch_end(self, trainer: lightning.Trainer, task: Any) -> None:
        if not trainer.is_global_zero:
            return
        seconds = time.perf_counter() - self._began
        logged: dict[str, Any] = {**self.logger.logged, **trainer.callback_metrics}
        self.logger.logged.clear()
        row = {name: float(value) for name, value in logged.items()}
        self.run.metrics_file.add(trainer.current_epoch, row)
        speed = {"seconds": seconds, "graphs_per_second": self.graphs / seconds}
        self.run.times_file.add(trainer.current_epoch, speed)


class BestCheckpoint(ModelCheckpoint):
    """Saves the epoch with the best value of a metric as ``best``.

    Lightning's `ModelCheckpoint` loses the best value when the run folder is moved, and
    would then replace the best epoch with a worse one.
    """

    def __init__(self, run: RunFolder, metric: str, mode: str) -> None:
        super().__init__(filename="best", monitor=metric, mode=mode, **_saving(run))
        self.metric = metric

    def on_train_epoch_end(self, trainer: lightning.Trainer, task: Any) -> None:
        if trainer.callback_metrics[self.metric].isnan():
            raise RunError(
                f"{self.metric} is NaN, so the best epoch cannot be chosen: the "
                f"validation part has no labels, or only one class; choose another "
                f"split, for example with split.seed"
            )
        super().on_train_epoch_end(trainer, task)

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best_model_score}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["best"] is not None:
            path = self.format_checkpoint_name({})
            self.best_model_score = self.kth_value = state["best"]
            self.best_model_path = self.kth_best_model_path = path
            self.best_k_models = {path: state["best"]}


def last_checkpoint(run: RunFolder) -> ModelCheckpoint:
    """Saves every epoch as ``last``."""
    return ModelCheckpoint(filename="last", **_saving(run))


def _saving(run: RunFolder) -> dict[str, Any]:
    return {
        "dirpath": run.checkpoints,
        "save_top_k": 1,
        "save_on_train_epoch_end": True,
        "enable_version_counter": False,
    }


class ExactResume(Callback):
    """Adds state that Lightning does not save to each checkpoint: the id of the run,
    the states of all random number generators, and whether training was stopped
    early."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self._random: dict[str, Any] | None = None

    def on_train_start(self, trainer: lightning.Trainer, task: Any) -> None:
        if self._random is not None:
            set_random_state(self._random)

    def on_save_checkpoint(
        self, trainer: lightning.Trainer, task: Any, checkpoint: dict[str, Any]
    ) -> None:
        checkpoint["run"] = self.run.id
        checkpoint["random"] = random_state()
        checkpoint["stopped"] = trainer.should_stop

    def on_load_checkpoint(
        self, trainer: lightning.Trainer, task: Any, checkpoint: dict[str, Any]
    ) -> None:
        self._random = checkpoint["random"]


class StopOnInterrupt(Callback):
    """Stops training, validation or testing before the next batch after Ctrl-C."""

    def on_train_batch_start(self, *_: Any) -> None:
        if interrupt.asked():
            raise Interrupted

    def on_validation_batch_start(self, *_: Any) -> None:
        self.on_train_batch_start()

    def on_test_batch_start(self, *_: Any) -> None:
        self.on_train_batch_start()


def random_state() -> dict[str, Any]:
    """The states of the generators of torch, numpy and Python, as plain values."""
    state: Any = np.random.get_state(legacy=False)
    key = state["state"]["key"]
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {
        "torch": torch.get_rng_state(),
        "cuda": cuda,
        "numpy": {**state, "state": {**state["state"], "key": key.tolist()}},
        "python": random.getstate(),
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Restore the states that `random_state` returned."""
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    np.random.set_state(state["numpy"])
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
