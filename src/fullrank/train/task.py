"""One model, its loss and its measures as a LightningModule."""

from typing import Any

import lightning
import torch
from torch import Tensor
from torch.optim import lr_scheduler
from torch_geometric.data import Batch

from fullrank.data import GraphDataset, PackedLoader
from fullrank.train.blueprint import Blueprint
from fullrank.train.config import Config
from fullrank.train.losses import Loss
from fullrank.train.metrics import Epoch, measure


class Diverged(ValueError):
    """The loss is no number any more."""


class GraphTask(lightning.LightningModule):
    """Trains a network and measures it on each part of the split.

    After each epoch `row` holds what the epoch gave: ``lr``, ``train_loss``,
    ``train_mae``, ``valid_loss``, ….

    Args:
        plan: Of the model.
        config: Of the run.
        dataset: Where the graphs are from; needed to measure, not to predict.
    """

    def __init__(
        self,
        plan: Blueprint,
        config: Config,
        dataset: GraphDataset | None = None,
    ) -> None:
        super().__init__()
        self.plan = plan
        self.config = config
        self.dataset = dataset
        self.network = plan.build()
        self.loss = Loss(plan, config.training.loss)
        for name in ("mean", "std"):
            values = torch.tensor(getattr(plan, name), dtype=torch.float64)
            self.register_buffer(f"target_{name}", values, persistent=False)
        self.target_mean: Tensor
        self.target_std: Tensor
        self.row: dict[str, float] = {}
        self.evaluated = "valid"  # the part of the split that is evaluated now
        self.training_epoch = Epoch()
        self.evaluation_epoch = Epoch()

    def forward(self, batch: Batch) -> Tensor:
        """The network's outputs: normalised values, or logits."""
        output = self.network(batch)
        if self.plan.task == "tokens":
            return output.unflatten(1, (self.plan.num_tokens or 1, -1))
        return output

    def predict(self, output: Tensor) -> Tensor:
        """Values in original units, probabilities, or token ids."""
        if self.plan.task == "regression":
            return output.double() * self.target_std + self.target_mean
        if self.plan.task == "binary":
            return output.sigmoid()
        if self.plan.task == "multiclass":
            return output.softmax(dim=1)
        return output.argmax(dim=-1)

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        dtype = self.dtype
        assert isinstance(dtype, torch.dtype)
        return batch.apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        total, count = self._step(batch, self.training_epoch)
        # Processes average their gradients, so each loss is its share of the labels
        # of all of them.
        everywhere = torch.stack([total.detach(), count.to(total.dtype)])
        everywhere = self.trainer.strategy.reduce(everywhere, reduce_op="sum")
        loss = total * self.trainer.world_size / everywhere[1].clamp(min=1e-12)
        if not everywhere[0].isfinite():
            raise Diverged(
                f"the loss became {everywhere[0].item()} at step {self.global_step} "
                f"(epoch {self.current_epoch}) with learning rate {self._lr():.3g}; "
                f"try a smaller optimizer.lr, optimizer.clip=1, or precision 64, and "
                f"look for huge values in the data"
            )
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self._step(batch, self.evaluation_epoch)

    test_step = validation_step

    def on_train_epoch_start(self) -> None:
        self.row = {"lr": self._lr()}

    def on_train_epoch_end(self) -> None:
        self.row |= self._measure("train", self.training_epoch)

    def on_validation_epoch_end(self) -> None:
        self.row |= self._measure(self.evaluated, self.evaluation_epoch)

    on_test_epoch_end = on_validation_epoch_end

    def configure_optimizers(self) -> Any:
        options = self.config.optimizer
        kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
        optimizer = kinds[options.name](
            self.parameters(),
            lr=options.lr,
            weight_decay=options.weight_decay,
            # Lightning clips no gradients of a fused optimizer in mixed precision.
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
        """All schedules go by steps, and so are up to date when an epoch is saved."""
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

    def _step(self, batch: Batch, epoch: Epoch) -> tuple[Tensor, Tensor]:
        output = self(batch)
        target = batch.y
        if self.plan.task == "regression":
            target = ((target - self.target_mean) / self.target_std).to(output.dtype)
        total, count = self.loss(output, target)
        predictions = self.predict(output.detach())
        epoch.update(total.detach(), count, predictions, batch.y, batch.graph_id)
        return total, count

    @torch.no_grad()
    def measure_part(self, part: str, loader: PackedLoader) -> dict[str, float]:
        """The loss and all measures of a part of the split, without a trainer."""
        self.eval()
        for batch in loader:
            batch = self.on_after_batch_transfer(batch.to(self.device), 0)
            self._step(batch, self.evaluation_epoch)
        return self._measure(part, self.evaluation_epoch)

    def _measure(self, part: str, epoch: Epoch) -> dict[str, float]:
        if self.dataset is None:
            raise ValueError("this model was loaded to predict; it has no data set")
        found = epoch.compute()
        epoch.reset()
        measured = {"loss": found.loss} | measure(
            self.plan, found.predictions, found.labels, found.graphs, self.dataset
        )
        return {f"{part}_{name}": value for name, value in measured.items()}

    def _lr(self) -> float:
        return self.trainer.optimizers[0].param_groups[0]["lr"]
