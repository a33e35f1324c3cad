"""What a trained model keeps, so that its predictions can say how sure they are."""

import numpy as np
import torch
from scipy.special import xlogy
from torch import Tensor

from fullrank.data import GraphDataset, PackedLoader, Split
from fullrank.errors import ConfigError
from fullrank.train.calibration import MOST_GRAPHS
from fullrank.train.domain import seen_in, training_fingerprints
from fullrank.train.model import Model
from fullrank.train.predict import Predictor

#: The coverage, in percent, of the intervals that are measured on the test part.
COVERAGE = 90


def add_confidence(
    model: Model, dataset: GraphDataset, split: Split, similarity: bool
) -> dict[str, float]:
    """Add the calibration, and what the training molecules were like, to a model.

    Args:
        similarity: Whether it keeps fingerprints of training molecules.

    Returns:
        What the calibration is worth on the test part, if there are both.
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
    return _measure(model, dataset, split.test) if len(split.test) else {}


def _measure(model: Model, dataset: GraphDataset, test: np.ndarray) -> dict[str, float]:
    calibration = Predictor([model]).calibration
    assert calibration is not None
    given = model.predictions(_outputs(model, dataset, test)).double()
    raw, labels = given.numpy(), dataset.labels[test]
    if model.spec.task == "regression":
        try:
            widths = calibration.half_widths(COVERAGE)
        except ConfigError:  # too few graphs for this coverage
            return {}
        inside = np.abs(raw - labels) <= widths
        return {f"coverage_{COVERAGE}": float(inside[~np.isnan(labels)].mean())}
    return {
        "log_loss": _log_loss(raw, labels),
        "calibrated_log_loss": _log_loss(calibration.calibrated(given).numpy(), labels),
    }


@torch.no_grad()
def _outputs(model: Model, dataset: GraphDataset, chosen: np.ndarray) -> Tensor:
    """What the network gives for these graphs: ``[G, C]``."""
    model.eval()
    loader = PackedLoader(dataset.graphs, chosen, batch_size=256)
    return torch.cat([model(model.ready(batch)).cpu() for batch in loader])


def _log_loss(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The mean of -log of the probability of what is true, where that is known."""
    small = 1e-12
    p = probabilities.clip(small, 1 - small)
    if labels.ndim == 1:
        return -float(np.log(p[np.arange(len(labels)), labels]).mean())
    each = xlogy(labels, p) + xlogy(1 - labels, 1 - p)
    return -float(np.nanmean(each))
