"""The progress bar of training."""

import time
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)


class EpochBar(Callback):
    """A progress bar with loss, validation metric, speed and remaining time.

    It is shown only if the console is a terminal.

    Args:
        title: The name of the run.
        metric: The metric to show, such as ``valid_mae``.
        console: The console to draw on.
        lines: Whether to print a line per epoch as well, terminal or not.
    """

    def __init__(
        self, title: str, metric: str | None, console: Console, lines: bool = False
    ) -> None:
        self.title = title
        self.metric = metric
        self.console = console
        self.lines = lines
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=6),  # fits a terminal of 80 columns
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._loss = self._graphs = self._batches = 0.0
        self._measured = ""
        self._started = 0.0

    def on_train_start(self, trainer: lightning.Trainer, task: Any) -> None:
        steps = int(trainer.estimated_stepping_batches)
        done = trainer.global_step
        self._task = self.bar.add_task(self.title, total=steps, completed=done, note="")
        self.bar.start()

    def on_train_epoch_start(self, trainer: lightning.Trainer, task: Any) -> None:
        self._loss = self._graphs = self._batches = 0.0
        self._started = time.perf_counter()

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        task: Any,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        self._loss += float(outputs["loss"])
        self._batches += 1
        self._graphs += batch.num_graphs * trainer.world_size
        speed = self._graphs / (time.perf_counter() - self._started)
        epoch = f"{self.title}  epoch {trainer.current_epoch + 1}/{trainer.max_epochs}"
        self._note = (
            f"loss {self._loss / self._batches:.4f}"
            f"{self._measured.replace('valid_', '')}  {human(speed)} graphs/s"
        )
        self.bar.update(self._task, advance=1, description=epoch, note=self._note)

    def on_train_epoch_end(self, trainer: lightning.Trainer, task: Any) -> None:
        if self.metric is not None:
            value = float(trainer.callback_metrics[self.metric])
            self._measured = f"  {self.metric} {value:.4g}"
        if self.lines:
            self.console.print(
                f"{self.title}  epoch {trainer.current_epoch + 1}  "
                f"loss {self._loss / max(1, self._batches):.4f}{self._measured}",
                highlight=False,
            )

    def teardown(self, trainer: lightning.Trainer, task: Any, stage: str) -> None:
        self.bar.stop()

    def on_exception(
        self, trainer: lightning.Trainer, task: Any, exception: BaseException
    ) -> None:
        self.bar.stop()


def human(number: float) -> str:
    """``1234567`` as ``1.2 M``."""
    for unit in ("", " k", " M", " G"):
        if abs(number) < 1000 or unit == " G":
            break
        number /= 1000
    return f"{number:.3g}{unit}"


def human_time(seconds: float) -> str:
    """``75`` as ``1 min 15 s``."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def human_size(size: float) -> str:
    """``1500000`` bytes as ``1.5 MB``."""
    return f"{human(size)}B" if size >= 1000 else f"{size:.0f} B"
