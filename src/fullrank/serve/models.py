"""The models that a server predicts with."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from fullrank.data.featurizers import Featurized, MoleculeFeaturizer, need_chemistry
from fullrank.errors import ConfigError
from fullrank.serve.batching import Batcher, TimeLimited, plainly
from fullrank.train.model import Histogram
from fullrank.train.predict import NOTE, REASON, SIMILARITY, Predictor, load_predictor

#: The coverage, in percent, of the intervals of models that have a calibration.
COVERAGE = 90.0
MOLECULES_AT_ONCE = 256
CONFORMERS_AT_ONCE = 16
_CONFORMERS = (
    "It was trained with the distances in QM9's geometries. For a SMILES it reads "
    "those of a conformer that RDKit makes, which are not the same."
)
#: How much time of a processor a block of molecules may take to read.
READING_SECONDS = 10.0


class Output(BaseModel):
    """A value or a probability that a model predicts.

    Attributes:
        name: Of the target or the class.
        unit: Of the target.
        column: Its column among the predictions.
        std: The column of the ensemble's standard deviation, if there is one.
        low, high: The columns of the ends of the interval, if there are any.
        training: Regression: how the training labels are distributed.
        share: Classes: how many of the training labels are of this one, between 0
            and 1. Model files of earlier versions hold neither.
    """

    name: str
    unit: str
    column: str
    std: str | None
    low: str | None
    high: str | None
    training: Histogram | None
    share: float | None


class ModelCard(BaseModel):
    """What a model predicts, and what it was trained on.

    Attributes:
        name: What requests call it.
        dataset: The data set it was trained on.
        task: ``regression``, ``binary`` or ``multiclass``.
        outputs: What it predicts.
        columns: All columns of a prediction, in order.
        interval: The coverage of its intervals in percent, if it has any.
        networks: How many networks the prediction is the mean of.
        smiles: The column of SMILES that a table should have.
        explains: Whether it can say what atoms contribute.
        graphs: How many molecules each part of the split had.
        scores: The metrics of the first network on each part.
        warning: What is wrong with its predictions for a SMILES, if anything is.
    """

    name: str
    dataset: str
    task: str
    outputs: list[Output]
    columns: list[str]
    interval: float | None
    networks: int
    smiles: str
    explains: bool
    graphs: dict[str, int]
    scores: dict[str, dict[str, float | None]]
    warning: str | None


class Prediction(BaseModel):
    """What is predicted for one molecule.

    Attributes:
        smiles: The molecule, as it was given.
        values: A number for each column of the model but the last ones; empty if there
            is a reason.
        similarity: To the most similar training molecule, between 0 and 1.
        note: In what the molecule differs from all training molecules.
        reason: Why there is no prediction.
    """

    smiles: str
    values: dict[str, float]
    similarity: float | None = None
    note: str | None = None
    reason: str | None = None


class ServedModel:
    """A model under the name by which requests choose it.

    Args:
        name: The name.
        predictor: The networks.
        interval: The coverage of the intervals in percent; None for none.
        room: How many molecules may wait.
        workers: How many processes read molecules.
    """

    def __init__(
        self,
        name: str,
        predictor: Predictor,
        interval: float | None,
        room: int,
        workers: int = 1,
    ) -> None:
        need_chemistry()
        self.name, self.predictor, self.interval = name, predictor, interval
        self.columns = predictor.all_columns(interval)
        #: The columns that hold numbers.
        self.numbers = [c for c in self.columns if c not in (SIMILARITY, NOTE, REASON)]
        conformers = predictor.molecules.makes_conformers
        self.batcher = Batcher(
            TimeLimited(predictor.reading, READING_SECONDS),
            self._rows,
            CONFORMERS_AT_ONCE if conformers else MOLECULES_AT_ONCE,
            room,
            workers,
        )

    def _rows(self, made: Featurized) -> list[list[Any]]:
        return [_checked(row) for row in self.predictor.rows(made, self.interval)]

    def prediction(self, smiles: str, row: Sequence[Any]) -> Prediction:
        """The cells of `columns` by name."""
        cells = dict(zip(self.columns, row, strict=True))
        failed = cells[REASON] is not None
        return Prediction(
            smiles=smiles,
            values={} if failed else {name: cells[name] for name in self.numbers},
            similarity=cells.get(SIMILARITY),
            note=cells.get(NOTE),
            reason=cells[REASON],
        )

    @property
    def card(self) -> ModelCard:
        """What it predicts, and what it was trained on."""
        spec = self.predictor.spec
        return ModelCard(
            name=self.name,
            dataset=spec.dataset,
            task=spec.task,
            outputs=[
                self._output(place, column)
                for place, column in enumerate(self.predictor.columns)
            ],
            columns=self.columns,
            interval=self.interval,
            networks=len(self.predictor.models),
            smiles=spec.smiles or "smiles",
            explains=isinstance(spec.featurizer, MoleculeFeaturizer),
            graphs=spec.graphs,
            scores=spec.scores,
            warning=_CONFORMERS if self.predictor.molecules.makes_conformers else None,
        )

    def _output(self, place: int, column: str) -> Output:
        spec = self.predictor.spec
        name = column.partition("_")[2]
        beside = {end: f"{column}_{end}" for end in ("std", "low", "high")}
        regression = spec.task == "regression"
        training = share = None
        if spec.distributions and regression:
            training = spec.distributions[place]
        elif spec.distributions:
            of_classes = spec.task == "multiclass"
            counts = spec.distributions[0 if of_classes else place].counts
            total = sum(counts)
            share = counts[place if of_classes else 1] / total if total else None
        return Output(
            name=name,
            unit=spec.targets[place].unit if regression else "",
            column=column,
            **{end: c if c in self.columns else None for end, c in beside.items()},
            training=training,
            share=share,
        )


def _checked(row: list[Any]) -> list[Any]:
    """The row, or in place of numbers that are none the reason."""
    *cells, reason = row
    if reason is not None:
        return [*cells, plainly(reason)]
    if all(math.isfinite(cell) for cell in cells if isinstance(cell, float)):
        return row
    return [*[None] * len(cells), "the network's output is not a finite number"]


def load_models(given: Sequence[str]) -> dict[str, Predictor]:
    """Models by name.

    Args:
        given: Model files or run folders, each with the name of its file or folder, or
            as ``NAME=PATH``. The runs of an experiment's folder are an ensemble.
    """
    found: dict[str, Predictor] = {}
    for text in given:
        name, sign, place = text.partition("=")
        path = Path(place if sign else text)
        if not sign:
            # A run folder calls its file "model".
            name = path.stem if path.is_file() else path.resolve().name
            name = path.resolve().parent.name if name == "model" else name
        if name in found:
            raise ConfigError(f"two models are called {name!r}; name one: NAME={path}")
        found[name] = load_predictor(path)
        found[name].molecules  # noqa: B018  that it reads molecules
    return found


def usable_interval(predictor: Predictor, coverage: float | None) -> float | None:
    """The coverage, or by default `COVERAGE` where the model has intervals of it."""
    if coverage is not None:
        predictor.half_widths(coverage)
        return coverage
    try:
        predictor.half_widths(COVERAGE)
    except ConfigError:
        return None
    return COVERAGE


def served(
    predictors: Mapping[str, Predictor],
    coverage: float | None,
    room: int,
    workers: int,
) -> dict[str, ServedModel]:
    """The models, ready to predict."""
    return {
        name: ServedModel(
            name, predictor, usable_interval(predictor, coverage), room, workers
        )
        for name, predictor in predictors.items()
    }
