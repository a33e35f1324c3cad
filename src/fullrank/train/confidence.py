"""Data that a trained model stores to estimate the confidence of its predictions."""

import numpy as np
import torch
from torch import Tensor

from fullrank.data import GraphDataset, PackedLoader, Split
from fullrank.train.calibration import MOST_GRAPHS, calibration_of
from fullrank.train.domain import seen_in, training_fingerprints
from fullrank.train.model import Model


def add_confidence(
    model: Model, dataset: GraphDataset, split: Split, similarity: bool
) -> dict[str, float]:
    """Add the calibration, and a summary of the training molecules, to a model.

    Args:
        similarity: Whether to store fingerprints of training molecules.

    Returns:
        Metrics of the calibration on the test part, if there are both.
    """
    seen = seen_in(dataset, split.train)
    model.spec = model.spec.model_copy(update={"seen": seen})
    if similarity and seen is not None:
        model.kept["fingerprints"] = training_fingerprints(dataset, split.train)
    if not len(split.calibration) or model.spec.task == "tokens":
        return {}
    chosen = np.random.default_rng(0).permutation(split.calibration)[:MOST_GRAPHS]
    model.kept["calibration_graphs"] = torch.from_numpy(chosen)
    model.kept["calibration_outputs"] = _outputs(model, dataset, chosen).double()
    kind = np.int64 if dataset.labels.ndim == 1 else np.float64
    labels = dataset.labels[chosen].astype(kind)
    model.kept["calibration_labels"] = torch.from_numpy(labels)
    calibration = calibration_of([model])
    if calibration is None or not len(split.test):
        return {}
    outputs = _outputs(model, dataset, split.test)
    values = model.predictions(outputs).double()
    return calibration.worth(values, dataset.labels[split.test])


@torch.no_grad()
def _outputs(model: Model, dataset: GraphDataset, chosen: np.ndarray) -> Tensor:
    """The network's outputs for these graphs: ``[G, C]``."""
    model.eval()
    loader = PackedLoader(dataset.graphs, chosen, batch_size=256)
    return torch.cat([model(model.ready(batch)).cpu() for batch in loader])
