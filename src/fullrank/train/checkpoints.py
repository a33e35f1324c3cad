"""Checkpoints that survive a kill at any moment and never execute code."""

import io
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch.callbacks import Checkpoint

from fullrank.errors import RunError
from fullrank.train.files import replacing
from fullrank.train.metrics import LOWER_IS_BETTER


def load_checkpoint(file: Path, run: str) -> dict[str, Any]:
    """Read a checkpoint of the run with this id; nothing in it is ever executed."""
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
        found = content["run"]
    except FileNotFoundError:
        raise RunError(f"there is no checkpoint {file}") from None
    except OSError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise RunError(f"{file} is not one of our checkpoints: {reason}") from None
    if found != run:
        raise RunError(
            f"{file} belongs to the run {found}, not to {run}: its configuration was "
            f"another one; move the checkpoint away, or restore the configuration"
        )
    return content


class SafeFiles(TorchCheckpointIO):
    """Lightning's way to disk, atomic and without pickled objects."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        # Not straight to the file: torch hides why the system refuses to write.
        buffer = io.BytesIO()
        torch.save(checkpoint, buffer)
        with replacing(file, "wb") as stream:
            stream.write(buffer.getbuffer())

    def load_checkpoint(self, path: Any, *_: Any, **__: Any) -> dict[str, Any]:
        return torch.load(path, map_location="cpu", weights_only=True)


class EpochKeeper(Checkpoint):
    """Saves each epoch as ``last``, the best one also as ``best``, and stops early.

    Args:
        run: The id of the run.
        folder: Of the checkpoints.
        metric: What chooses the best epoch, such as ``valid_mae``; None for no choice.
        patience: How many epochs without a better one are too many.
        record: Called with the epoch, its row and its seconds before it is saved.
    """

    def __init__(
        self,
        run: str,
        folder: Path,
        metric: str | None,
        patience: int | None,
        record: Callable[[int, dict[str, float], float], None],
    ) -> None:
        self.run = run
        self.folder = folder
        self.metric = metric
        self.patience = patience
        self.record = record
        self.best: float | None = None
        self.best_epoch: int | None = None
        self._random: dict[str, Any] | None = None

    def on_train_start(self, trainer: lightning.Trainer, task: Any) -> None:
        if self._random is not None:
            set_random_state(self._random)
        self._stop_if_patience_ran_out(trainer, trainer.current_epoch - 1)

    def on_train_epoch_start(self, trainer: lightning.Trainer, task: Any) -> None:
        self._began = time.perf_counter()

    def on_train_epoch_end(self, trainer: lightning.Trainer, task: Any) -> None:
        epoch = trainer.current_epoch
        improved = self._improves(task.row)
        if improved:
            self.best, self.best_epoch = task.row[self.metric], epoch
        self.record(epoch, task.row, time.perf_counter() - self._began)
        if improved:
            trainer.save_checkpoint(self.folder / "best.ckpt")
        trainer.save_checkpoint(self.folder / "last.ckpt")
        self._stop_if_patience_ran_out(trainer, epoch)

    def on_save_checkpoint(
        self, trainer: lightning.Trainer, task: Any, checkpoint: dict[str, Any]
    ) -> None:
        checkpoint["run"] = self.run
        checkpoint["random"] = random_state()

    def on_load_checkpoint(
        self, trainer: lightning.Trainer, task: Any, checkpoint: dict[str, Any]
    ) -> None:
        self._random = checkpoint["random"]

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "best_epoch": self.best_epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.best_epoch = state["best"], state["best_epoch"]

    def _improves(self, row: dict[str, float]) -> bool:
        if self.metric is None:
            return False
        new = row[self.metric]
        if self.best is None or self.best != self.best:  # not even a number before
            return True
        lower = self.metric.partition("_")[2] in LOWER_IS_BETTER
        return new < self.best if lower else new > self.best

    def _stop_if_patience_ran_out(self, trainer: lightning.Trainer, epoch: int) -> None:
        if self.patience is not None and self.best_epoch is not None:
            trainer.should_stop = epoch - self.best_epoch >= self.patience


def random_state() -> dict[str, Any]:
    """The state of torch's, numpy's and Python's random numbers, as plain values."""
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
    """Go on with the random numbers where `random_state` was taken."""
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    np.random.set_state(state["numpy"])
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
