"""The split of a single run."""

import logging

import numpy as np

from fullrank.data import GraphDataset, Split, hold_out, zhang_folds
from fullrank.data.splits import PARTS, set_aside
from fullrank.errors import ConfigError, DataError
from fullrank.train.config import FOLDS, Config

_log = logging.getLogger(__name__)


def make_split(config: Config, dataset: GraphDataset) -> Split:
    """Split the graphs into training, validation, test and calibration parts.

    A split with which nothing can be learned or chosen is refused.
    """
    split = _chosen_split(config, dataset)
    if config.split.calibration is not None:
        same = dataset.texts("canonical") if dataset.has_text("canonical") else None
        amount, seed = config.split.calibration, config.split.seed
        split = set_aside(split, amount, seed, same)
    _check_sizes(dataset, split)
    if dataset.task == "regression":
        _check_values(dataset, split)
    elif dataset.task == "binary":
        _check_labels(dataset, split)
    return split


def _check_sizes(dataset: GraphDataset, split: Split) -> None:
    if split.how.get("kind") not in ("random", "scaffold"):
        return
    sizes = {part: len(getattr(split, part)) for part in PARTS}
    if not all(sizes.values()):
        found = ", ".join(f"{part} {size}" for part, size in sizes.items())
        raise DataError(
            f"{dataset.name} has {len(dataset)} usable graphs, too few for a "
            f"{split.how['kind']} split into training, validation and test ({found}); "
            f"add rows, or assign them to parts in a column of the table"
        )


def _check_values(dataset: GraphDataset, split: Split) -> None:
    labels = np.asarray(dataset.labels)[split.train]
    for target, column in zip(dataset.targets, labels.T, strict=True):
        known = column[~np.isnan(column)]
        if len(known) and (known == known[0]).all():
            raise DataError(
                f"every known value of {target.name!r} in the training part of "
                f"{dataset.name} is {known[0]:g}: there is nothing to learn; choose "
                f"another target or another split"
            )


def _check_labels(dataset: GraphDataset, split: Split) -> None:
    """The train part needs both labels and, for a single target, the valid part too."""
    for part in PARTS:
        labels = np.asarray(dataset.labels)[getattr(split, part)]
        if not len(labels):
            continue
        both = ((labels == 0).any(0) & (labels == 1).any(0)).tolist()
        lacking = [
            t.name for t, ok in zip(dataset.targets, both, strict=True) if not ok
        ]
        message = (
            f"the {part} part of {dataset.name} does not have both labels of "
            f"{', '.join(map(repr, lacking))} ({len(labels)} molecules)"
        )
        if (part == "train" and lacking) or (part == "valid" and not any(both)):
            raise DataError(f"{message}; choose another split, or add rows")
        if part == "test" and lacking:
            _log.warning("%s: its ROC-AUC is not defined", message)


def _chosen_split(config: Config, dataset: GraphDataset) -> Split:
    options = config.split
    if options.kind not in FOLDS:
        if options.kind is None and dataset.default_split == "folds":
            raise ConfigError(
                f"{dataset.name} is evaluated on folds: set split.kind to gin or fair"
            )
        return dataset.split(options.kind, options.seed, bool(options.apart))
    if options.folder is not None:
        folds = zhang_folds(options.folder, len(dataset))
        if len(folds) != options.folds:
            raise ConfigError(
                f"split.folds is {options.folds}, but {options.folder} has {len(folds)}"
            )
    else:
        folds = dataset.folds(options.folds, options.seed)
    split = folds[options.fold or 0]
    if options.kind == "gin":
        return split
    return hold_out(split, options.hold_out, options.seed, dataset.labels)
