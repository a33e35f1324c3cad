"""Trained models out of their run folders."""

from pathlib import Path
from typing import Any

import torch

from fullrank.data import Split
from fullrank.data.splits import PARTS
from fullrank.train.blueprint import Blueprint
from fullrank.train.checkpoints import load_checkpoint
from fullrank.train.config import Config, ConfigError, load_config
from fullrank.train.files import read_json
from fullrank.train.sources import load_dataset
from fullrank.train.task import GraphTask


def run_folders(folder: str | Path) -> list[Path]:
    """The run folder itself, or those of an experiment with several runs."""
    folder = Path(folder)
    summary = folder / "summary.json"
    if summary.exists():
        return [folder.parent / run for run in read_json(summary)["runs"]]
    if not (folder / "model.json").exists():
        raise ConfigError(
            f"{str(folder)!r} is no run folder; `fullrank train` says where its are"
        )
    return [folder]


def load_task(folder: Path) -> tuple[Config, GraphTask]:
    """The configuration of a run and its model with the best epoch's weights."""
    config = load_config(folder / "config.yaml")
    plan = Blueprint.load(folder / "model.json")
    task = GraphTask(plan, config)
    if config.training.precision == "64":
        task.double()
    best = folder / "checkpoints" / "best.ckpt"
    file = best if best.exists() else best.with_name("last.ckpt")
    task.load_state_dict(load_checkpoint(file, plan.run)["state_dict"])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return config, task.to(device).eval()


def evaluate_run(
    folder: Path, part: str = "test", changes: dict[str, Any] | None = None
) -> dict[str, float]:
    """Measure a trained model again on a part of its own split.

    Args:
        folder: Of the run.
        part: ``train``, ``valid`` or ``test``.
        changes: Where the data are now, such as ``{"root": …}``.
    """
    if part not in PARTS:
        raise ConfigError(f"part must be one of {', '.join(PARTS)}, got {part!r}")
    config, task = load_task(folder)
    task.dataset = load_dataset(config.changed(data=changes or {}).data)
    indices = getattr(Split.load(folder / "split.json"), part)
    if not len(indices):
        raise ConfigError(f"the split of {folder} has no {part} part")
    loader = task.dataset.loader(indices, batch_size=config.training.batch_size)
    measured = task.measure_part(part, loader)
    return {name.removeprefix(f"{part}_"): value for name, value in measured.items()}
