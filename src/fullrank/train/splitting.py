"""The split of a single run."""

from fullrank.data import GraphDataset, Split, hold_out, zhang_folds
from fullrank.errors import ConfigError
from fullrank.train.config import FOLDS, Config


def make_split(config: Config, dataset: GraphDataset) -> Split:
    """Which graphs train, which choose the epoch, which test."""
    options = config.split
    if options.kind not in FOLDS:
        if options.kind is None and dataset.default_split == "folds":
            raise ConfigError(
                f"{dataset.name} is tested on folds: set split.kind to gin or fair"
            )
        return dataset.split(options.kind, options.seed)
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
