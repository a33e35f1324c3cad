"""Write the gradient of the first step of a run: python gradients.py CONFIG OUTPUT."""

import sys
from pathlib import Path

import lightning
import torch

from fullrank.train import load_config
from fullrank.train.model import design_model
from fullrank.train.splitting import make_split
from fullrank.train.task import GraphTask


class SaveGradient(lightning.Callback):
    def __init__(self, file):
        self.file = file

    def on_before_optimizer_step(self, trainer, task, optimizer):
        if trainer.is_global_zero:
            gradients = {n: p.grad for n, p in task.model.network.named_parameters()}
            torch.save(gradients, self.file)


def main(config, output):
    config = load_config(config)
    dataset = config.data.load()
    split = make_split(config, dataset)
    torch.manual_seed(0)
    task = GraphTask(design_model(config, dataset, split), config, dataset)
    devices = config.compute.devices
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=devices,
        strategy="ddp" if devices > 1 else "auto",
        max_steps=1,
        precision="64",
        callbacks=[SaveGradient(output)],
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    loader = dataset.loader(
        split.train,
        batch_size=config.training.batch_size // devices,
        shuffle=True,
        shard=trainer.global_rank,
        num_shards=devices,
    )
    trainer.fit(task, loader)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
