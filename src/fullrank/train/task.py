"""One model, its loss and its metrics as a LightningModule."""

from typing import Any

import lightning
import torch
from torch import Tensor
from torch.optim import lr_scheduler
from torch_geometric.data import Batch

from fullrank.data import GraphDataset, PackedLoader
from fullrank.errors import RunError
from fullrank.train.config import Config
from fullrank.train.losses import Loss
from fullrank.train.metrics import EpochOutputs
from fullrank.train.model import Model, ModelSpec


class Diverged(RunError):
    """The loss became NaN or infinite."""


class GraphTask(lightning.LightningModule):
    """Trains a model and logs its loss and metrics on each part of the split:
    ``lr``, ``train_loss``, ``train_mae``, ``valid_loss``, ….

    Args:
        spec: Specification of the model.
        config: Configuration of the run.
        dataset: The data set.
        validation: The part that is evaluated after each epoch.
    """

    def __init__(
        self,
        spec: ModelSpec,
        config: Config,
        dataset: GraphDataset,
        validation: str = "valid",
    ) -> None:
        super().__init__()
        self.spec = spec
        self.config = config
        self.dataset = dataset
        self.validation = validation
        self.model = Model(spec)
        self.loss = Loss(spec, config.training.loss)
        self.training_outputs = EpochOutputs()
        self.evaluation_outputs = EpochOutputs()

    def forward(self, batch: Batch) -> Tensor:
        """The network's outputs: normalised values, or logits."""
        return self.model(batch)

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        return self.model.ready(batch)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        total, count = run_batch(self.model, self.loss, batch, self.training_outputs)
        # Processes average their gradients, so each loss is scaled by its share of all
        # labels.
        everywhere = torch.stack([total.detach(), count.to(total.dtype)])
        everywhere = self.trainer.strategy.reduce(everywhere, reduce_op="sum")
        loss = total * self.trainer.world_size / everywhere[1].clamp(min=1e-12)
        penalty = getattr(self.model.network, "penalty", None)
        if penalty is not None:  # for DiffPool
            loss = loss + penalty
        if not everywhere[0].isfinite():
            raise Diverged(
                f"the loss became {everywhere[0].item()} at step {self.global_step} "
                f"(epoch {self.current_epoch}) with learning rate {self._lr():.3g}; "
                f"try a smaller optimizer.lr, optimizer.clip=1, or precision 64, and "
                f"look for huge values in the data"
            )
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        run_batch(self.model, self.loss, batch, self.evaluation_outputs)

    test_step = validation_step

    def on_train_epoch_start(self) -> None:
        self._log({"lr": self._lr()})

    def on_train_epoch_end(self) -> None:
        self._log(self._measure("train", self.training_outputs))

    def on_validation_epoch_end(self) -> None:
        self._log(self._measure(self.validation, self.evaluation_outputs))

    def on_test_epoch_end(self) -> None:
        self._log(self._measure("test", self.evaluation_outputs))

    def configure_optimizers(self) -> Any:
        options = self.config.optimizer
        kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
        optimizer = kinds[options.name](
            self.parameters(),
            lr=options.lr,
            weight_decay=options.weight_decay,
            # Lightning does not clip gradients of a fused optimizer in mixed precision.
            fused=not self.config.training.precision.endswith("-mixed"),
        )
        epochs = self.config.training.epochs
        total = int(self.trainer.estimated_stepping_batches)
        schedule = self._schedule(optimizer, total // epochs, total)
        if schedule is None:
            return optimizer
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    def _schedule(
        self, optimizer: torch.optim.Optimizer, steps: int, total: int
    ) -> lr_scheduler.LRScheduler | None:
        """All schedules count steps, so that they are up to date when an epoch is
        saved."""
        options = self.config.schedule
        if options.name == "step":
            return lr_scheduler.StepLR(optimizer, options.every * steps, options.factor)
        if options.name == "cosine":
            return lr_scheduler.CosineAnnealingLR(optimizer, total)
        if options.name == "onecycle":
            return lr_scheduler.OneCycleLR(
                optimizer, self.config.optimizer.lr, total_steps=total + 1
            )
        return None

    def _measure(self, part: str, outputs: EpochOutputs) -> dict[str, float]:
        measured = outputs.measure(self.spec, self.dataset)
        outputs.reset()
        return {f"{part}_{name}": value for name, value in measured.items()}

    def _log(self, values: dict[str, float]) -> None:
        """Log numbers that all processes agree on, in full precision."""
        for name, value in values.items():
            self.log(name, torch.tensor(value, dtype=torch.float64), batch_size=1)

    def _lr(self) -> float:
        return self.trainer.optimizers[0].param_groups[0]["lr"]


def run_batch(
    model: Model, loss: Loss, batch: Batch, outputs: EpochOutputs
) -> tuple[Tensor, Tensor]:
    """The sum of the loss over a batch, and its divisor; predictions and labels are
    added to ``outputs``."""
    output = model(batch)
    target = batch.y
    if model.spec.task == "regression":
        target = model.normalize(target, output.dtype)
    total, count = loss(output, target)
    predictions = model.predictions(output.detach())
    outputs.update(total.detach(), count, predictions, batch.y, batch.graph_id)
    return total, count


@torch.no_grad()
def measure_model(
    model: Model, loss: str | None, loader: PackedLoader, dataset: GraphDataset
) -> dict[str, float]:
    """The loss and all metrics of a trained model on the graphs of a loader."""
    outputs = EpochOutputs()
    function = Loss(model.spec, loss).to(model.device, model.dtype)
    for batch in loader:
        run_batch(model, function, model.ready(batch), outputs)
    return outputs.measure(model.spec, dataset)
