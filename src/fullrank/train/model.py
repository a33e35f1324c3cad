"""A trained model in one file: the network, and everything its predictions need.

``model.safetensors`` contains the weights and, as JSON in its header, the specification
of the network, its inputs and outputs, and its scores. It is self-contained: it needs
neither the data nor the configuration of its run, and loading an untrusted file
executes no code.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import (
    BaseModel,
    ConfigDict,
    FiniteFloat,
    NonNegativeInt,
    ValidationError,
)
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from torch_geometric.data import Batch, Data

from fullrank.data import Features, GraphDataset, Split, Target
from fullrank.data.descriptors import descriptor_names
from fullrank.data.featurizers import AnyFeaturizer
from fullrank.data.fingerprints import NUM_BYTES
from fullrank.data.parsing import parse_json
from fullrank.data.sources.base import AnyStructure
from fullrank.data.sources.csv import CsvSource
from fullrank.data.splits import PARTS
from fullrank.errors import ConfigError, DataError, ModelError
from fullrank.nn import GraphNet, make_network
from fullrank.train.config import Config
from fullrank.train.files import replacing
from fullrank.train.references import (
    fit_references,
    graph_references,
    node_references,
    num_references,
)

Task = Literal["regression", "binary", "multiclass", "tokens"]
_KEPT = "kept."
_ROWS_AT_ONCE = 4096
_BINS = 32  # in histograms of the training labels
_ROUNDING = 1e-13


class Seen(BaseModel):
    """A summary of the training molecules.

    Attributes:
        elements: Atomic numbers of their elements.
        atoms: Minimum and maximum number of atoms.
        usual_atoms: The same for 99% of them, without the smallest and the largest;
            None in files of earlier versions.
        node_categories, edge_categories: Categories that occur in each column of their
            features; empty in files of earlier versions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    elements: tuple[int, ...]
    atoms: tuple[int, int]
    usual_atoms: tuple[int, int] | None = None
    node_categories: tuple[tuple[int, ...], ...] = ()
    edge_categories: tuple[tuple[int, ...], ...] = ()


class Histogram(BaseModel):
    """The distribution of the training labels of a target.

    Attributes:
        low, high: Minimum and maximum of the labels.
        counts: Number of labels in each of the bins, which divide the range equally;
            for classification, there is one bin per class.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: FiniteFloat
    high: FiniteFloat
    counts: tuple[NonNegativeInt, ...]


class ModelSpec(BaseModel):
    """The specification of a model, without its weights.

    Attributes:
        run: Id of the run that trained it.
        dataset: Name of the training data set.
        task: Kind of prediction.
        targets: The predicted targets.
        metric: Metric on the validation part that chooses the epoch.
        node_features, edge_features: Input features of the network.
        featurizer: Featurizer that computes these features from molecules or graphs, if
            any.
        structure: Options of the structural features of edges, if any.
        smiles: Column of the SMILES in the training table, if any.
        network: Arguments of `fullrank.nn.make_network`; without a name, of a
            `fullrank.nn.GraphNet`.
        num_classes: Multiclass and tokens: number of classes.
        classes: Multiclass: names of the classes, if any.
        labels: Binary: names of 0 and 1 in the table, if any.
        num_tokens: Tokens: number of tokens.
        mean, std: Regression: mean and standard deviation of each target in the
            training part, after subtracting references, if any.
        references: Regression: for each target, the contribution of each category of
            each node feature, see `fullrank.train.references`; empty without them.
        class_weights: Multiclass: weight of each class; binary: of each positive label.
        batch_size: Number of graphs per training step.
        graphs: Number of graphs in each part of the split.
        scores: Scores on each part, once trained.
        seen: Summary of the training molecules, if any.
        distributions: Distribution of the training labels of each target; empty in
            files of earlier versions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    run: str
    dataset: str
    task: Task
    targets: tuple[Target, ...]
    metric: str
    node_features: Features
    edge_features: Features
    featurizer: AnyFeaturizer | None = None
    structure: AnyStructure | None = None
    smiles: str | None = None
    network: dict[str, Any]
    num_classes: int | None = None
    classes: tuple[str, ...] = ()
    labels: tuple[str, str] | None = None
    num_tokens: int | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    references: tuple[tuple[FiniteFloat, ...], ...] = ()
    class_weights: tuple[float, ...] | None = None
    batch_size: int = 64
    graphs: dict[str, int] = {}
    scores: dict[str, dict[str, float | None]] = {}
    seen: Seen | None = None
    distributions: tuple[Histogram, ...] = ()

    @property
    def num_outputs(self) -> int:
        """Number of outputs of the network per graph."""
        if self.task in ("regression", "binary"):
            return len(self.targets) or 1  # without targets if only inspected
        return (self.num_classes or 0) * (self.num_tokens or 1)

    @property
    def main_metric(self) -> str:
        """The metric that chooses the best epoch; with several regression targets, the
        error in units of `std`, which references make smaller."""
        several = self.task == "regression" and len(self.targets) > 1
        return "std_mae" if several else self.metric

    def inputs(self) -> tuple[Any, ...]:
        """The inputs and outputs, which are the same for all models of an ensemble."""
        return (
            self.task,
            self.targets,
            self.num_classes,
            self.classes,
            self.labels,
            self.node_features,
            self.edge_features,
            self.featurizer,
            self.structure,
        )

    def check(self) -> None:
        """Refuse inconsistent values."""
        if self.network.get("out_channels") != self.num_outputs:
            raise ModelError(
                f"the network has {self.network.get('out_channels')} outputs for "
                f"{self.num_outputs} values to predict"
            )
        wanted = len(self.targets) if self.task == "regression" else 0
        for name in ("mean", "std"):
            values = getattr(self, name)
            if len(values) != wanted or not np.isfinite(values).all():
                raise ModelError(f"{name} is {values} for {wanted} regression targets")
        if not all(std > 0 for std in self.std):
            raise ModelError(f"std is {self.std}; standard deviations must be positive")
        self._check_features()
        self._check_references()
        if len(self.distributions) not in (0, len(self.targets)):
            raise ModelError(
                f"{len(self.distributions)} distributions of labels for "
                f"{len(self.targets)} targets"
            )
        if self.classes and len(self.classes) != self.num_classes:
            raise ModelError(
                f"{len(self.classes)} names for {self.num_classes} classes"
            )

    def _check_references(self) -> None:
        if not self.references:
            return
        if self.task != "regression":
            raise ModelError(f"it has references, which are not for {self.task}")
        wanted = len(self.targets), num_references(self.node_features)
        sizes = {len(values) for values in self.references}
        if (len(self.references), sizes) != (wanted[0], {wanted[1]}) or 0 in wanted:
            raise ModelError(
                f"{len(self.references)} rows of {sorted(sizes)} references for "
                f"{wanted[0]} targets and {wanted[1]} node features"
            )

    def _check_features(self) -> None:
        for name, features, seen in (
            ("in_channels", self.node_features, "node_categories"),
            ("edge_dim", self.edge_features, "edge_categories"),
        ):
            wanted = _channels(features)
            if (self.network.get(name) or 0) != (wanted or 0):
                raise ModelError(
                    f"{name} of the network is {self.network.get(name)}, but the "
                    f"features have {wanted}"
                )
            columns = len(getattr(self.seen, seen, ()))
            if columns not in (0, features.dim):
                raise ModelError(f"{seen} has {columns} columns of {features.dim}")


class Model(torch.nn.Module):
    """A network and the specification of its inputs and outputs.

    Args:
        spec: Specification of the model; the weights are initialised at random.

    Attributes:
        kept: Further tensors for predictions: ``fingerprints`` of training molecules,
            and ``calibration_graphs``, ``calibration_outputs``, ``calibration_labels``.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.spec = spec
        self.kept: dict[str, Tensor] = {}
        self.network = _network(spec)
        for name in ("mean", "std"):
            values = torch.tensor(getattr(spec, name), dtype=torch.float64)
            self.register_buffer(f"target_{name}", values, persistent=False)
        references = torch.tensor(spec.references or [[]], dtype=torch.float64)
        self.register_buffer("references", references.T, persistent=False)  # [F, T]
        self.target_mean: Tensor
        self.target_std: Tensor
        self.references: Tensor

    def forward(self, batch: Batch) -> Tensor:
        """The network's outputs with its references: normalised values, or logits."""
        output = self.network(batch)
        if self.spec.references:
            output = self.add_references(output, batch.x, batch.batch)
        if self.spec.task == "tokens":
            return output.unflatten(1, (self.spec.num_tokens or 1, -1))
        return output

    def add_references(self, output: Tensor, x: Tensor, batch: Tensor) -> Tensor:
        """Add the references to the network's outputs, both normalised.

        The result is in double precision, because sums over atoms are large compared
        to the residuals.

        Args:
            output: Outputs of the network, ``[G, T]``.
            x: Node features, ``[N, columns]``.
            batch: The graph of each node, ``[N]``.
        """
        given = (self.references, self.spec.node_features, x, batch, len(output))
        return output.double() + graph_references(*given) / self.target_std

    def node_references(self, x: Tensor) -> Tensor:
        """The contribution of each node to the references, in the targets' units:
        ``[N, T]``."""
        if not self.spec.references:
            return self.target_mean.new_zeros(len(x), self.spec.num_outputs)
        return node_references(self.references, self.spec.node_features, x)

    def fit_descriptors(self, dataset: GraphDataset, train: np.ndarray) -> None:
        """Fit the standardisation of descriptors to the training part."""
        standardize = getattr(self.network, "standardize", None)
        if standardize is None:
            return
        stored = dataset.graphs.fields["descriptors"]
        blocks = np.array_split(train, -(-len(train) // _ROWS_AT_ONCE))
        sums = torch.zeros(2, standardize.mean.numel(), dtype=torch.float64)
        for block in blocks:
            values = stored.take(dataset.graphs.arrays, block).double()
            sums += torch.stack([values.sum(0), values.square().sum(0)])
        mean, square = sums / len(train)
        variance = square - mean.square()
        variance[variance < 1e-12 * square] = 0  # constant up to rounding
        standardize.mean.copy_(mean)
        standardize.std.copy_(variance.sqrt())

    def read_out(self, batch: Batch) -> Tensor:
        """The readout of each graph, without descriptors: ``[B, d]``."""
        return self.graph_net.embed(batch)

    @property
    def graph_net(self) -> GraphNet:
        """The network, which must be a GraphNet."""
        if not isinstance(self.network, GraphNet):
            raise ConfigError(
                f"the network of the run {self.spec.run} is a "
                f"{type(self.network).__name__}; only a GraphNet supports "
                f"explanations, embeddings and export"
            )
        return self.network

    def normalize(self, target: Tensor, dtype: torch.dtype) -> Tensor:
        """Normalise regression targets for training."""
        return ((target - self.target_mean) / self.target_std).to(dtype)

    def predictions(self, output: Tensor) -> Tensor:
        """Convert outputs to values in original units, probabilities or token ids."""
        if self.spec.task == "regression":
            return output.double() * self.target_std + self.target_mean
        if self.spec.task == "binary":
            return output.sigmoid()
        if self.spec.task == "multiclass":
            return output.softmax(dim=1)
        return output.argmax(dim=-1)

    @property
    def dtype(self) -> torch.dtype:
        return next(self.network.parameters()).dtype

    @property
    def device(self) -> torch.device:
        return self.target_mean.device

    def ready(self, batch: Batch) -> Batch:
        """Move the batch to the model's device and precision."""
        return batch.to(self.device).apply(
            lambda t: t.to(self.dtype) if t.is_floating_point() else t
        )

    @property
    def digest(self) -> str:
        """A hash of the content of its file."""
        return checksum(self.spec.model_dump_json(), self._weights())

    def _weights(self) -> dict[str, Tensor]:
        kept = {f"{_KEPT}{name}": values for name, values in self.kept.items()}
        everything = {**self.state_dict(), **kept}
        return {k: v.contiguous().cpu() for k, v in everything.items()}

    def to_bytes(self) -> bytes:
        """The content of its file."""
        # One entry, because safetensors does not write several in a fixed order.
        spec = self.spec.model_dump_json()
        header = json.dumps({"sha256": self.digest, "spec": spec})
        return save(self._weights(), {"fullrank": header})

    def save(self, file: Path) -> None:
        """Write the model to one file, atomically."""
        with replacing(file, "wb") as stream:
            stream.write(self.to_bytes())

    @classmethod
    def load(cls, file: str | Path) -> "Model":
        """Read a model; refuse a file that is damaged or inconsistent."""
        file = Path(file)
        try:
            spec, stored = _read(file)
            spec.check()
            kept = {k: v for k, v in stored.items() if k.startswith(_KEPT)}
            weights = {k: v for k, v in stored.items() if k not in kept}
            _check_size(spec, weights)
            model = cls(spec)
            model.kept = {k.removeprefix(_KEPT): v for k, v in kept.items()}
            _check_kept(spec, model.kept)
            _fill(model, weights)
        except FileNotFoundError:
            raise ModelError(f"there is no model file {str(file)!r}") from None
        except (ModelError, ConfigError) as error:
            raise ModelError(f"{file} is not a usable model: {error}") from None
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return model.to(device).eval()


def _read(file: Path) -> tuple[ModelSpec, dict[str, Tensor]]:
    try:
        with safe_open(file, framework="pt") as content:
            metadata = content.metadata() or {}
            weights = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
        header = parse_json(metadata["fullrank"])
        text, written = str(header["spec"]), header["sha256"]
    except (KeyError, TypeError, ValueError):
        raise ModelError("it was not written by fullrank") from None
    except SafetensorError as error:
        raise ModelError(f"it is damaged ({error}); copy it again") from None
    if checksum(text, weights) != written:
        raise ModelError(
            "its checksum does not match: it was changed or damaged after it was "
            "written; copy it again"
        )
    try:
        return ModelSpec.model_validate_json(text), weights
    except ValidationError as error:
        first = error.errors()[0]
        raise ModelError(
            f"{'.'.join(map(str, first['loc']))}: {first['msg']}; it may be from "
            f"another version of fullrank"
        ) from None


def _network(spec: ModelSpec) -> Any:
    try:
        return make_network(**{"name": "graph-net", **spec.network})
    except (TypeError, ValueError, RuntimeError) as error:  # for example too large
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"this network cannot be built: {reason}") from error


def _check_size(spec: ModelSpec, weights: Mapping[str, Tensor]) -> None:
    """Compare the network with the weights before allocating memory: a small file may
    describe a network of any size."""
    total = sum(values.numel() for values in weights.values())
    limits = {"num_layers": len(weights)}
    for name, value in _sizes(spec.network):
        limit = limits.get(name, total)
        if value > limit:
            raise ModelError(f"{name} is {value:,} in a file of {total:,} weights")
    with torch.device("meta"):
        sketch = _network(spec)
    wanted = {f"network.{k}": v.shape for k, v in sketch.state_dict().items()}
    for name in sorted(wanted.keys() | weights.keys()):
        found = weights[name].shape if name in weights else None
        if found != wanted.get(name):
            raise ModelError(
                f"the weights {name!r} have the shape {_shape(found)}, but the network "
                f"needs {_shape(wanted.get(name))}"
            )


def _sizes(values: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """All integers among the arguments of a network."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _sizes(value)
        elif name != "deg":  # a histogram, which counts nodes
            numbers = value if isinstance(value, list) else [value]
            yield from ((name, n) for n in numbers if isinstance(n, int))


def _shape(size: torch.Size | None) -> str:
    return "nothing" if size is None else str(list(size))


def _fill(model: Model, weights: Mapping[str, Tensor]) -> None:
    for name, values in weights.items():
        if values.is_floating_point() and not values.isfinite().all():
            raise ModelError(f"the weights {name!r} contain NaN or infinity")
    kinds = {v.dtype for v in weights.values() if v.is_floating_point()}
    if len(kinds) != 1:
        raise ModelError(f"the weights have {len(kinds)} different data types")
    try:
        model.network.to(kinds.pop())
        model.load_state_dict(weights)
    except RuntimeError as error:
        lines = str(error).splitlines()
        raise ModelError(f"the weights do not fit the network: {lines[-1]}") from None


def _check_kept(spec: ModelSpec, kept: Mapping[str, Tensor]) -> None:
    """Refuse further tensors that would make predictions fail."""
    rows: dict[str, tuple[list[int], torch.dtype]] = {
        "fingerprints": ([NUM_BYTES], torch.uint8),
        "calibration_graphs": ([], torch.int64),
        "calibration_outputs": ([spec.num_outputs], torch.float64),
        "calibration_labels": ([len(spec.targets)], torch.float64),
    }
    if spec.task == "multiclass":
        rows["calibration_labels"] = [], torch.int64
    for name, values in kept.items():
        found = list(values.shape), values.dtype
        if name not in rows or (found[0][1:], found[1]) != rows[name] or 0 in found[0]:
            raise ModelError(f"{name!r} is {found[1]} {found[0]}")
    calibration = [v for name, v in kept.items() if name.startswith("calibration")]
    if calibration and {len(v) for v in calibration} != {len(calibration[0])}:
        raise ModelError("the parts of its calibration have different lengths")
    if len(calibration) not in (0, 3):
        raise ModelError("a part of its calibration is missing")
    if calibration and not kept["calibration_outputs"].isfinite().all():
        raise ModelError("its calibration contains NaN or infinity")
    if calibration and spec.task == "multiclass":
        classes = kept["calibration_labels"].unique().tolist()
        if not set(classes) <= set(range(spec.num_classes or 0)):
            raise ModelError(f"its calibration has the classes {classes}")


def checksum(spec: str, weights: Mapping[str, Tensor]) -> str:
    """A hash of all that a model file holds."""
    digest = hashlib.sha256(spec.encode())
    for name in sorted(weights):
        values = weights[name]
        about = json.dumps([name, str(values.dtype), list(values.shape)])
        digest.update(about.encode())
        digest.update(values.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def describe_task(
    config: Config, dataset: GraphDataset, split: Split, run: str = ""
) -> ModelSpec:
    """The specification of a model for a data set, without the network.

    Args:
        run: Id of the run.
    """
    labels = dataset.labels[split.train]
    table = config.data if isinstance(config.data, CsvSource) else None
    references, left = _references(config, dataset, split.train)
    mean, std = _moments(dataset, left) if dataset.task == "regression" else ((), ())
    spec = ModelSpec(
        run=run,
        dataset=dataset.name,
        task=dataset.task,
        targets=dataset.targets,
        metric=dataset.metric,
        node_features=dataset.node_features,
        edge_features=dataset.edge_features,
        featurizer=dataset.featurizer,
        structure=config.data.structure,
        smiles=table.smiles if table else None,
        network={},
        num_classes=dataset.num_classes,
        classes=dataset.classes,
        labels=table.labels if table else None,
        num_tokens=dataset.num_tokens,
        mean=mean,
        std=std,
        references=references,
        class_weights=_class_weights(config.training.class_weights, dataset, labels),
        batch_size=config.training.batch_size,
        graphs={part: len(getattr(split, part)) for part in PARTS},
        distributions=_distributions(dataset, labels),
    )
    if not spec.num_outputs:
        raise DataError(f"{dataset.name} is {dataset.task} without a number of classes")
    return spec


def design_model(
    config: Config, dataset: GraphDataset, split: Split, run: str = ""
) -> ModelSpec:
    """The specification of the model of a configuration for a data set.

    Args:
        run: Id of the run.
    """
    options = config.model
    spec = describe_task(config, dataset, split, run)
    network: dict[str, Any] = {
        "in_channels": _channels(dataset.node_features),
        "hidden_channels": options.hidden,
        "out_channels": spec.num_outputs,
        "num_layers": options.layers,
        "edge_dim": _channels(dataset.edge_features) or None,
        "dropout": options.dropout,
    }
    if options.name is None:
        network |= {
            "conv": options.conv,
            "conv_args": options.arguments,
            "batch_norm": options.batch_norm,
            "norm_encoder": bool(options.norm_encoder),
            "norm_readout": bool(options.norm_readout),
            "layer_dropout": options.layer_dropout or 0.0,
            "jumping_knowledge": options.jumping_knowledge,
            "readout": options.readout,
            "head": options.head,
            "virtual_node": bool(options.virtual_node),
        }
    else:
        network |= {"name": options.name, **(options.args or {})}
    if options.descriptors:
        network["num_descriptors"] = len(descriptor_names(options.descriptors))
    if options.conv == "pna":
        training = dataset.loader(split.train, batch_size=1024)
        network["conv_args"]["deg"] = degree_histogram(training).tolist()
    if options.name == "patchy-san":
        nodes = dataset.graphs.num_nodes[split.train]
        network.setdefault("width", round(float(nodes.mean())))
    return spec.model_copy(update={"network": network})


def degree_histogram(graphs: Iterable[Data]) -> Tensor:
    """Number of nodes with 0, 1, 2, … incoming edges in these graphs or batches."""
    histogram = torch.zeros(1, dtype=torch.long)
    for graph in graphs:
        degrees = torch.bincount(graph.edge_index[1], minlength=graph.num_nodes)
        counts = torch.bincount(degrees, minlength=len(histogram))
        counts[: len(histogram)] += histogram
        histogram = counts
    return histogram


def _channels(features: Features) -> int | list[int]:
    if features.kind == "categorical":
        return list(features.cardinalities)
    return features.dim


def _references(
    config: Config, dataset: GraphDataset, train: np.ndarray
) -> tuple[tuple[tuple[float, ...], ...], np.ndarray]:
    """The references of each target, if they are wanted, and what they leave of the
    training labels."""
    if not config.training.references:
        return (), dataset.labels[train]
    references, left = fit_references(dataset, train)
    return tuple(map(tuple, references.T.tolist())), left


def _moments(
    dataset: GraphDataset, labels: np.ndarray
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each target, ignoring missing labels."""
    labels = np.asarray(labels, dtype=np.float64)
    for target, column in zip(dataset.targets, labels.T, strict=True):
        if np.isnan(column).all():
            raise DataError(f"no training graph has a value of {target.name!r}")
    mean, std = np.nanmean(labels, axis=0), np.nanstd(labels, axis=0)
    # A target that is constant up to rounding is only shifted, not scaled.
    return tuple(mean), tuple(np.where(std > _ROUNDING * np.abs(mean), std, 1.0))


def _distributions(dataset: GraphDataset, labels: np.ndarray) -> tuple[Histogram, ...]:
    """The distribution of each target, ignoring missing labels."""
    if dataset.task == "tokens":
        return ()
    if dataset.task == "multiclass":
        classes = dataset.num_classes or 0
        counts = np.bincount(labels, minlength=classes).tolist()
        return (Histogram(low=0, high=classes - 1, counts=counts),)
    bins = 2 if dataset.task == "binary" else _BINS
    found = []
    for column in np.asarray(labels, dtype=np.float64).T:
        known = column[~np.isnan(column)]
        ends = (0.0, 1.0) if bins == 2 else (known.min(), known.max())
        counts = np.histogram(known, bins, ends)[0].tolist()
        found.append(Histogram(low=ends[0], high=ends[1], counts=counts))
    return tuple(found)


def _class_weights(
    wanted: str | Sequence[float] | None, dataset: GraphDataset, labels: np.ndarray
) -> tuple[float, ...] | None:
    if wanted is None:
        return None
    if dataset.task not in ("binary", "multiclass"):
        raise ConfigError(
            f"training.class_weights is for classification; {dataset.name} is "
            f"{dataset.task}"
        )
    multiclass = dataset.task == "multiclass"
    classes = (dataset.num_classes if multiclass else len(dataset.targets)) or 0
    if wanted == "balanced":
        if multiclass:
            counts = np.bincount(labels, minlength=classes)
            return tuple(len(labels) / (classes * counts.clip(min=1)))
        positive = (labels == 1).sum(axis=0)
        return tuple((labels == 0).sum(axis=0) / positive.clip(min=1))
    if len(wanted) != classes:
        raise ConfigError(
            f"training.class_weights has {len(wanted)} numbers for {classes} "
            f"{'classes' if multiclass else 'targets'}"
        )
    return tuple(float(weight) for weight in wanted)
