"""From a configuration to its data set and its split."""

from pathlib import Path

from fullrank import data
from fullrank.data import GraphDataset, PackedGraphs, Split, hold_out, zhang_folds
from fullrank.data.transforms import AddStructuralColors
from fullrank.train.config import (
    FOLDS,
    Config,
    ConfigError,
    DataConfig,
    StructureConfig,
)


def load_dataset(config: DataConfig) -> GraphDataset:
    """The data set with the wanted targets and structural colours."""
    options = config.model_dump(
        exclude={"name", "targets", "structure"}, exclude_none=True
    )
    try:
        dataset = _open(config, options)
    except TypeError as error:
        # A loader says so when it is given an option it does not have.
        wrong = [name for name in options if f"argument '{name}'" in str(error)]
        if not wrong:
            raise
        raise ConfigError(f"data.{wrong[0]} is no option of {config.name!r}") from None
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


def _open(config: DataConfig, options: dict) -> GraphDataset:
    path = Path(config.name)
    if path.suffix in (".csv", ".tsv"):
        if config.targets is None:
            raise ConfigError(
                f"data.targets must name the columns of {path} to predict"
            )
        if "split_column" in options:
            options["split"] = options.pop("split_column")
        return data.read_smiles_csv(path, config.targets, **options)
    if path.is_dir():
        return data.read_tu_folder(path, **options)
    return data.load(config.name, **options)
