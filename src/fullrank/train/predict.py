"""Predictions with trained models, from Python."""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fullrank.data import PackedGraphs, PackedLoader
from fullrank.data.featurizers import (
    Featurized,
    Reading,
    SmilesFeaturizer,
    featurize,
)
from fullrank.data.workers import batched
from fullrank.errors import ConfigError, DataError, quoted
from fullrank.train.calibration import (
    Calibration,
    calibration_of,
    check_coverage,
)
from fullrank.train.domain import notes
from fullrank.train.model import Model
from fullrank.train.run_folder import model_files

if TYPE_CHECKING:
    import pandas as pd

    from fullrank.train.explain import Explanation

#: Number of molecules in memory at a time, per worker.
MOLECULES_AT_ONCE = 1024
GRAPHS_IN_A_BATCH = 512
SIMILARITY, NOTE, REASON = "similarity", "note", "reason"


def load_predictor(models: str | Path | Sequence[str | Path]) -> "Predictor":
    """Load a trained model, or several as an ensemble.

    Args:
        models: Model files, run folders, the folder of an experiment with several
            seeds or folds, or names of models that come with the package, such as
            ``qm9``.
    """
    given = [models] if isinstance(models, (str, Path)) else models
    files = [file for model in given for file in model_files(model)]
    return Predictor([Model.load(file) for file in files])


class Predictor:
    """Predicts with the mean of one or more trained models of the same task."""

    def __init__(self, models: Sequence[Model]) -> None:
        #: Number of graphs per batch.
        self.batch_size = GRAPHS_IN_A_BATCH
        if not models:
            raise ConfigError("there is no model to predict with")
        self.models = list(models)
        self.spec = models[0].spec
        for model in models:
            if model.spec.inputs() != self.spec.inputs():
                raise ConfigError(
                    f"the models of the runs {self.spec.run} and {model.spec.run} do "
                    f"not have the same inputs and targets, so they cannot form an "
                    f"ensemble"
                )

    @property
    def columns(self) -> list[str]:
        """The predicted columns: values, or probabilities of labels or classes."""
        names = [target.name for target in self.spec.targets]
        if self.spec.task == "regression":
            return [f"predicted_{name}" for name in names]
        if self.spec.task == "binary":
            return [f"probability_{name}" for name in names]
        if self.spec.task == "multiclass":
            classes = self.spec.classes or range(self.spec.num_classes or 0)
            return [f"probability_{name}" for name in classes]
        raise ConfigError(
            f"a model of {self.spec.dataset} predicts names of functions; "
            f"predictions for new functions are not supported"
        )

    def all_columns(self, interval: float | None = None) -> list[str]:
        """The columns with their uncertainty, a note and the reason.

        Args:
            interval: Coverage of the intervals in percent.
        """
        several = len(self.models) > 1
        found = [*self.columns]
        found += [f"{name}_std" for name in self.columns if several]
        if interval is not None:
            found += [f"{c}_{end}" for c in self.columns for end in ("low", "high")]
        found += [SIMILARITY] if self.known is not None else []
        found += [NOTE] if self.spec.seen is not None else []
        return [*found, REASON]

    @property
    def possible_columns(self) -> list[str]:
        """All columns that a prediction for this task may have."""
        ends = ("", "_std", "_low", "_high")
        each = [f"{column}{end}" for column in self.columns for end in ends]
        return [*each, SIMILARITY, NOTE, REASON]

    @property
    def known(self) -> np.ndarray | None:
        """Fingerprints of training molecules, if the model has any."""
        stored = self.models[0].kept.get("fingerprints")
        return None if stored is None else stored.numpy()

    @cached_property
    def calibration(self) -> Calibration | None:
        """The calibration on graphs that all models share; None if there are none."""
        return calibration_of(self.models)

    @property
    def reading(self) -> Reading:
        """The function that converts SMILES to graphs."""
        return Reading(self.molecules, self.known)

    @property
    def molecules(self) -> SmilesFeaturizer:
        """The featurizer of molecules."""
        found = self.spec.featurizer
        if not isinstance(found, SmilesFeaturizer):
            raise ConfigError(
                f"a model of {self.spec.dataset} does not read molecules; use a "
                f"folder of graphs in the TU layout"
            )
        return found

    def predict(
        self, smiles: Iterable[str], interval: float | None = None, workers: int = 1
    ) -> "pd.DataFrame":
        """Predict for molecules, one row each, in original units.

        A row that cannot be predicted is empty and has a reason.

        Args:
            smiles: The molecules.
            interval: Add intervals with this coverage in percent, which is valid for
                molecules like those of the calibration part.
            workers: Number of featurisation processes.
        """
        import pandas as pd

        if isinstance(smiles, str):  # else each letter would be a molecule
            raise DataError(f"predict needs a list of SMILES, got {quoted(smiles)}")
        blocks = batched(smiles, MOLECULES_AT_ONCE)
        made = featurize(self.reading, blocks, workers)
        names = self.all_columns(interval)
        rows = [row for block in made for row in self.rows(block, interval)]
        numbers = [name for name in names if name not in (NOTE, REASON)]
        frame = pd.DataFrame(rows, columns=names)
        return frame.astype(dict.fromkeys(numbers, float))

    def rows(self, block: Featurized, interval: float | None = None) -> list[list[Any]]:
        """The cells of `all_columns` for each molecule."""
        found: Iterator[list[Any]] = iter(())
        if block.graphs is not None:
            cells = self.values(block.graphs, interval).tolist()
            if block.similarity is not None:
                _append(cells, block.similarity.round(4).tolist())
            if self.spec.seen is not None:
                names = self.spec.node_features.names, self.spec.edge_features.names
                _append(cells, notes(self.spec.seen, block.graphs, *names))
            found = iter(cells)
        empty = [None] * (len(self.all_columns(interval)) - 1)
        return [
            predicted_row(next(found) if reason is None else empty, reason)
            for reason in block.reasons
        ]

    def half_widths(self, interval: float) -> np.ndarray:
        """Half the width of the interval of each target: ``[T]``."""
        check_coverage(interval)
        if self.calibration is None:
            raise ConfigError(
                f"the model of {self.spec.dataset} has no intervals, because it has no "
                f"calibration, or its networks have different ones: train with "
                f"split.calibration, for example 0.1"
            )
        return self.calibration.half_widths(interval)

    def explain(self, smiles: str, target: str | None = None) -> "Explanation":
        """The contributions of atoms, bonds and descriptors to a prediction.

        Args:
            smiles: The molecule.
            target: The target or class to explain; by default the first target, or the
                predicted class.
        """
        from fullrank.train.explain import explain

        return explain(self, smiles, target)

    @cached_property
    def embedding_size(self) -> int:
        """Width of `embeddings`."""
        methane = self.reading(["C"]).graphs
        assert methane is not None
        return self.embeddings(methane).shape[1]

    @torch.no_grad()
    def embeddings(self, graphs: PackedGraphs) -> np.ndarray:
        """The concatenated readouts of the networks: ``[G, d]``."""
        if self.spec.structure is not None:
            graphs = self.spec.structure.add_to(graphs)
        batches = PackedLoader(graphs, batch_size=self.batch_size)
        found = [
            torch.cat(
                [m.read_out(m.ready(b.clone())).cpu() for m in self.models], dim=1
            )
            for b in batches
        ]
        return torch.cat(found).float().numpy()

    @torch.no_grad()
    def values(self, graphs: PackedGraphs, interval: float | None = None) -> np.ndarray:
        """Means, standard deviations of an ensemble, and ends of intervals.

        Returns:
            ``[G, C]``, and ``C`` further columns for each kind.
        """
        if self.spec.structure is not None:
            graphs = self.spec.structure.add_to(graphs)
        outputs = []
        for batch in PackedLoader(graphs, batch_size=self.batch_size):
            each = [
                model.predictions(model(model.ready(batch.clone()))).double().cpu()
                for model in self.models
            ]
            outputs.append(torch.stack(each))
        found = torch.cat(outputs, dim=1)  # [models, G, C]
        average = found.mean(dim=0)
        if self.spec.task in ("binary", "multiclass") and self.calibration is not None:
            average = self.calibration.calibrated(average)
        mean = average.numpy()
        parts = [mean]
        if len(self.models) > 1:
            parts.append(found.std(dim=0).numpy())
        if interval is not None:
            width = self.half_widths(interval)
            ends = np.stack([mean - width, mean + width], axis=2)  # [G, C, 2]
            parts.append(ends.reshape(len(mean), -1))
        return np.concatenate(parts, axis=1)


def predicted_row(cells: Sequence[Any], reason: str | None) -> list[Any]:
    """The cells and the reason; both say so if a number is not finite."""
    finite = all(math.isfinite(cell) for cell in cells if isinstance(cell, float))
    if reason is None and not finite:
        reason = "the network's output is not a finite number"
    return [*(cells if reason is None else [None] * len(cells)), reason]


def _append(rows: list[list[Any]], column: Sequence[Any]) -> None:
    for row, cell in zip(rows, column, strict=True):
        row.append(cell)
