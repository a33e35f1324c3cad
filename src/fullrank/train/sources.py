"""From a configuration to its data set and its split."""

from fullrank import data
from fullrank.data import (
    GraphDataset,
    PackedGraphs,
    Split,
    StructureOptions,
    hold_out,
    zhang_folds,
)
from fullrank.train.config import (
    FOLDS,
    Config,
    ConfigError,
    DataConfig,
    StructureConfig,
)


def load_dataset(config: DataConfig, labelled: bool = True) -> GraphDataset:
    """The data set with the wanted targets and structural colours.

    Args:
        labelled: If not, a table whose targets are not named is read without any.
    """
    options = config.model_dump(exclude={"name"}, exclude_none=True)
    return data.load(config.name, labelled, **options)


def add_structure(
    graphs: PackedGraphs, structure: StructureConfig, progress: bool = False
) -> PackedGraphs:
    """The graphs with their structural colours."""
    return StructureOptions(**structure.model_dump()).add_to(graphs, progress)


def make_split(config: Config, dataset: GraphDataset) -> Split:
    """The split of a single run."""
    options = config.split
    if options.kind not in FOLDS:
        if options.kind is None and dataset.default_split == "folds":
            raise ConfigError(
                f"{dataset.name} is tested on folds: set split.kind to gin or fair"
            )
        return dataset.split(options.kind, options.seed)
    if options.fold is None:
        raise ConfigError("a run of its own has one fold: set split.fold")
    if options.folder is not None:
        folds = zhang_folds(options.folder, len(dataset))
    else:
        folds = dataset.folds(options.folds, options.seed)
    split = folds[options.fold]
    if options.kind == "gin":
        return split
    return hold_out(split, options.hold_out, options.seed, dataset.labels)
