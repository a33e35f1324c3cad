"""Fine-tuning: training that starts from a trained model."""

from pathlib import Path
from typing import Any

from fullrank.errors import ConfigError
from fullrank.train.config import ModelConfig
from fullrank.train.model import Model, ModelSpec


def start_from(model: Model, file: Path) -> None:
    """Copy the weights of a trained model.

    Its features and its network must be the same, except for the number of outputs: if
    that differs, the last layer keeps its initial weights.
    """
    trained = Model.load(file)
    for name in ("node_features", "edge_features", "featurizer", "structure"):
        if getattr(trained.spec, name) != getattr(model.spec, name):
            raise ConfigError(
                f"training cannot start from {file}: its {name.replace('_', ' ')} "
                f"differ from those of this table"
            )
    own, found = model.state_dict(), trained.state_dict()
    last = f"network.head.{len(model.network.head) - 1}."
    for name in own.keys() | found.keys():
        fits = name in own and name in found and own[name].shape == found[name].shape
        if not fits and name.startswith(last):
            found.pop(name, None)
        elif not fits:
            raise ConfigError(
                f"training cannot start from {file}: it has a different network "
                f"({name!r} differs)"
            )
    model.load_state_dict(found, strict=False)


def network_of(spec: ModelSpec) -> dict[str, Any]:
    """The section ``model`` of a configuration with the same network."""
    network = spec.network
    kept: dict[str, Any] = {
        key: network[key] for key in ModelConfig.model_fields.keys() & network.keys()
    }
    descriptors = getattr(spec.featurizer, "descriptors", ())
    return {
        **kept,
        "layers": network["num_layers"],
        "hidden": network["hidden_channels"],
        "descriptors": list(descriptors) or None,
    }
