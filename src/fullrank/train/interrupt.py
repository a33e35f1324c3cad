"""Ctrl-C stops a run between two batches, never in the middle of a file."""

import signal
import threading
from types import FrameType
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback


class Interrupted(Exception):
    """The user asked to stop; the run can be resumed."""


class StopBetweenBatches(Callback):
    """While entered, the first Ctrl-C ends training before the next batch.

    A second one ends it at once.
    """

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> "StopBetweenBatches":
        self._main = threading.current_thread() is threading.main_thread()
        if self._main:  # Python delivers signals there only
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._main:
            signal.signal(signal.SIGINT, self._before)

    def on_train_batch_start(
        self, trainer: lightning.Trainer, task: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.asked:
            raise Interrupted

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, self._before)
