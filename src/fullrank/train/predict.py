"""Predictions of trained models, from Python."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fullrank.data import PackedGraphs, PackedLoader
from fullrank.data.featurizers import Featurized, SmilesFeaturizer, featurize
from fullrank.data.workers import batched
from fullrank.errors import ConfigError
from fullrank.train.evaluate import load_model
from fullrank.train.model import Model
from fullrank.train.run_folder import open_runs

if TYPE_CHECKING:
    import pandas as pd

#: How many molecules are in memory at a time, for each worker.
MOLECULES_AT_ONCE = 1024
GRAPHS_IN_A_BATCH = 256
REASON = "reason"


def load_predictor(models: str | Path | Sequence[str | Path]) -> "Predictor":
    """A trained model, or several of them as an ensemble.

    Args:
        models: Model files, run folders, or the folder of an experiment with several
            seeds or folds.
    """
    given = [models] if isinstance(models, (str, Path)) else models
    return Predictor([model for path in given for model in _models(Path(path))])


def _models(path: Path) -> list[Model]:
    if path.is_file():
        return [Model.load(path)]
    return [load_model(run) for run in open_runs(path)]


class Predictor:
    """Predicts with the mean of one or more trained models of the same task."""

    def __init__(self, models: Sequence[Model]) -> None:
        #: How many graphs go through the networks together.
        self.batch_size = GRAPHS_IN_A_BATCH
        if not models:
            raise ConfigError("there is no model to predict with")
        self.models = list(models)
        self.spec = models[0].spec
        for model in models:
            if model.spec.inputs() != self.spec.inputs():
                raise ConfigError(
                    f"the models of the runs {self.spec.run} and {model.spec.run} do "
                    f"not predict the same from the same input; they cannot be one "
                    f"ensemble"
                )

    @property
    def columns(self) -> list[str]:
        """What is predicted: values, or probabilities of labels or classes."""
        names = [target.name for target in self.spec.targets]
        if self.spec.task == "regression":
            return [f"predicted_{name}" for name in names]
        if self.spec.task == "binary":
            return [f"probability_{name}" for name in names]
        if self.spec.task == "multiclass":
            classes = self.spec.classes or range(self.spec.num_classes or 0)
            return [f"probability_{name}" for name in classes]
        raise ConfigError(
            f"a model of {self.spec.dataset} names functions; there is no input of "
            f"that kind to predict for"
        )

    @property
    def all_columns(self) -> list[str]:
        """The columns with the standard deviations of an ensemble, and the reason."""
        several = len(self.models) > 1
        deviations = [f"{name}_std" for name in self.columns] if several else []
        return [*self.columns, *deviations, REASON]

    @property
    def molecules(self) -> SmilesFeaturizer:
        """What turns a molecule into a graph."""
        found = self.spec.featurizer
        if not isinstance(found, SmilesFeaturizer):
            raise ConfigError(
                f"a model of {self.spec.dataset} does not read molecules; give it a "
                f"folder of graphs in the TU layout"
            )
        return found

    def predict(self, smiles: Iterable[str], workers: int = 1) -> "pd.DataFrame":
        """Predict for molecules, one row each, in original units.

        A row that cannot be predicted is empty and has a reason.

        Args:
            smiles: The molecules.
            workers: Processes that featurise them.
        """
        import pandas as pd

        blocks = batched(smiles, MOLECULES_AT_ONCE)
        made = featurize(self.molecules, blocks, workers)
        rows = [row for block in made for row in self.rows(block)]
        frame = pd.DataFrame(rows, columns=self.all_columns)
        return frame.astype(dict.fromkeys(self.all_columns[:-1], float))

    def rows(self, block: Featurized) -> list[list[Any]]:
        """The cells of `all_columns` for each molecule."""
        found = iter(() if block.graphs is None else self.values(block.graphs).tolist())
        empty = [None] * (len(self.all_columns) - 1)
        return [
            [*(next(found) if reason is None else empty), reason]
            for reason in block.reasons
        ]

    @torch.no_grad()
    def values(self, graphs: PackedGraphs) -> np.ndarray:
        """Means, and standard deviations of an ensemble: ``[G, C]`` or ``[G, 2 C]``."""
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
        parts = [found.mean(dim=0)]
        if len(self.models) > 1:
            parts.append(found.std(dim=0))
        return torch.cat(parts, dim=1).numpy()
