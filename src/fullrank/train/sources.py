"""From a configuration to its data set and its split."""

from fullrank import data
from fullrank.data import GraphDataset, PackedGraphs, Split, hold_out, zhang_folds
from fullrank.data.catalog import UnknownOption
from fullrank.data.tables import is_table
from fullrank.data.transforms import AddStructuralColors
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
    options = config.model_dump(
        exclude={"name", "targets", "structure"}, exclude_none=True
    )
    if is_table(config.name):
        options["targets"] = config.targets or (() if labelled else None)
    try:
        dataset = data.load(config.name, **options)
    except UnknownOption as error:
        raise ConfigError(
            f"data.{error.option} is no option of {config.name!r}"
        ) from None
    known = [target.name for target in dataset.targets]
    if config.targets is not None and config.targets != known:
        dataset = dataset.select_targets(config.targets)
    if config.structure is None:
        return dataset
    return dataset.with_graphs(
        add_structure(dataset.graphs, config.structure, progress=True)
    )


def add_structure(
    graphs: PackedGraphs, structure: StructureConfig, progress: bool = False
) -> PackedGraphs:
    """The graphs with their structural colours."""
    options = structure.model_dump()
    if structure.hops == "all":
        options["hops"] = None
    return AddStructuralColors(**options).pack(graphs, progress)


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
