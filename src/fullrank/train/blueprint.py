"""All that is needed to rebuild a model without its data: ``model.json``."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch_geometric.data import Data

from fullrank.data import DataError, Features, GraphDataset, Split, Target
from fullrank.nn import GraphNet
from fullrank.train.config import Config, ConfigError
from fullrank.train.files import read_json, write_json


class Blueprint(BaseModel):
    """A network, what its outputs mean, and what was learnt from the training split.

    Attributes:
        run: The id of the run.
        dataset: Its name.
        task: ``regression``, ``binary``, ``multiclass`` or ``tokens``.
        targets: What is predicted.
        metric: What the validation part is judged by.
        node_features, edge_features: What the network reads.
        network: The arguments of `fullrank.nn.GraphNet`.
        num_classes: Multiclass and tokens.
        classes: Multiclass: their names, if they have any.
        num_tokens: Tokens.
        mean, std: Regression: of each target in the training split.
        class_weights: Multiclass: of each class; binary: of each positive label.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    dataset: str
    task: str
    targets: tuple[Target, ...]
    metric: str
    node_features: Features
    edge_features: Features
    network: dict[str, Any]
    num_classes: int | None = None
    classes: tuple[str, ...] = ()
    num_tokens: int | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    class_weights: tuple[float, ...] | None = None

    def build(self) -> GraphNet:
        """The network, with fresh weights."""
        return GraphNet(**self.network)

    def save(self, file: Path) -> None:
        write_json(file, self.model_dump(mode="json"))

    @classmethod
    def load(cls, file: Path) -> "Blueprint":
        try:
            return cls.model_validate(read_json(file))
        except (ValidationError, ValueError) as error:
            raise ConfigError(f"{file} does not describe a model: {error}") from None


def draw_blueprint(config: Config, dataset: GraphDataset, split: Split) -> Blueprint:
    """Plan the model of a configuration for a data set."""
    network = {
        "in_channels": _channels(dataset.node_features),
        "hidden_channels": config.model.hidden,
        "out_channels": _outputs(dataset),
        "num_layers": config.model.layers,
        "conv": config.model.conv,
        "conv_args": config.model.arguments,
        "edge_dim": _channels(dataset.edge_features) or None,
        "batch_norm": config.model.batch_norm,
        "dropout": config.model.dropout,
        "layer_dropout": config.model.layer_dropout or 0.0,
        "jumping_knowledge": config.model.jumping_knowledge,
        "readout": config.model.readout,
        "head": config.model.head,
    }
    if config.model.conv == "pna":
        training = dataset.loader(split.train, batch_size=1024)
        network["conv_args"]["deg"] = degree_histogram(training).tolist()
    labels = dataset.labels[split.train]
    mean, std = _moments(dataset, labels) if dataset.task == "regression" else ((), ())
    return Blueprint(
        run=config.id,
        dataset=dataset.name,
        task=dataset.task,
        targets=dataset.targets,
        metric=dataset.metric,
        node_features=dataset.node_features,
        edge_features=dataset.edge_features,
        network=network,
        num_classes=dataset.num_classes,
        classes=tuple(str(name) for name in (dataset.notes or {}).get("classes", ())),
        num_tokens=dataset.num_tokens,
        mean=mean,
        std=std,
        class_weights=_class_weights(config.training.class_weights, dataset, labels),
    )


def degree_histogram(graphs: Iterable[Data]) -> torch.Tensor:
    """How many nodes of these graphs or batches have 0, 1, 2, … incoming edges."""
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


def _outputs(dataset: GraphDataset) -> int:
    if dataset.task in ("regression", "binary"):
        return len(dataset.targets) or 1  # of a network that is only looked at
    if dataset.num_classes is None:
        raise DataError(f"{dataset.name} is {dataset.task} without a number of classes")
    return dataset.num_classes * (dataset.num_tokens or 1)


def _moments(
    dataset: GraphDataset, labels: np.ndarray
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each target, of the labels that are there."""
    labels = np.asarray(labels, dtype=np.float64)
    for target, column in zip(dataset.targets, labels.T, strict=True):
        if np.isnan(column).all():
            raise DataError(f"no training graph has a value of {target.name!r}")
    std = np.nanstd(labels, axis=0)
    # A constant target is only moved, not stretched.
    return tuple(np.nanmean(labels, axis=0)), tuple(np.where(std > 0, std, 1.0))


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
    if wanted == "balanced":
        if dataset.task == "multiclass":
            counts = np.bincount(labels, minlength=_outputs(dataset))
            return tuple(len(labels) / (len(counts) * counts.clip(min=1)))
        positive = (labels == 1).sum(axis=0)
        return tuple((labels == 0).sum(axis=0) / positive.clip(min=1))
    if len(wanted) != _outputs(dataset):
        raise ConfigError(
            f"training.class_weights has {len(wanted)} numbers for "
            f"{_outputs(dataset)} {'classes' if dataset.num_classes else 'targets'}"
        )
    return tuple(float(weight) for weight in wanted)
