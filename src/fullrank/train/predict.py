"""Predictions of trained models for SMILES, SDF files and folders of graphs."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fullrank.data import DataError, Graph, PackedGraphs, PackedLoader
from fullrank.data.featurizers import (
    GraphFeaturizer,
    SmilesFeaturizer,
    featurize,
    load_chemistry,
)
from fullrank.data.molecules import rdkit_failures
from fullrank.data.tables import delimiter_of, open_table
from fullrank.data.workers import map_in_workers
from fullrank.errors import ConfigError
from fullrank.train.evaluate import load_model
from fullrank.train.files import replacing
from fullrank.train.model import Model
from fullrank.train.run_folder import open_runs

if TYPE_CHECKING:
    import pandas as pd

ROWS_AT_ONCE = 1024
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

    def predict(self, smiles: Iterable[str]) -> "pd.DataFrame":
        """Predict for molecules, one row each, in original units.

        A row that cannot be predicted is empty and has a reason.
        """
        import pandas as pd

        graphs = featurize(self.molecules, smiles)
        rows = [row for chunk in _chunks(graphs) for row in self.rows(chunk)]
        frame = pd.DataFrame(rows, columns=self.all_columns)
        return frame.astype(dict.fromkeys(self.all_columns[:-1], float))

    def rows(self, graphs: Sequence[Graph | DataError]) -> list[list[Any]]:
        """The cells of `all_columns` for each graph, or why there is none."""
        usable = [graph for graph in graphs if isinstance(graph, Graph)]
        values: Iterator[list[float]] = iter(())
        if usable:
            packed = PackedGraphs.from_graphs(usable, fields=self.molecules.fields)
            values = iter(self.values(packed).tolist())
        return [
            [*next(values), None]
            if isinstance(graph, Graph)
            else self.empty_row(str(graph))
            for graph in graphs
        ]

    def empty_row(self, reason: str) -> list[Any]:
        """The cells of a graph that cannot be predicted."""
        return [*(None for _ in self.all_columns[:-1]), reason]

    @torch.no_grad()
    def values(self, graphs: PackedGraphs) -> np.ndarray:
        """Means, and standard deviations of an ensemble: ``[G, C]`` or ``[G, 2 C]``."""
        if self.spec.structure is not None:
            graphs = self.spec.structure.add_to(graphs)
        outputs = []
        for batch in PackedLoader(graphs, batch_size=self.spec.batch_size):
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


@dataclass
class PredictionCount:
    """How many rows were predicted, and why the others were not."""

    predicted: int = 0
    failed: int = 0
    first_reason: str = ""

    def add(self, row: Sequence[Any]) -> None:
        if row[-1] is None:
            self.predicted += 1
        else:
            self.failed += 1
            self.first_reason = self.first_reason or row[-1]


def predict_file(
    predictor: Predictor, source: Path, output: Path, smiles: str | None = None
) -> PredictionCount:
    """Predict for a table of SMILES, an SDF file or a folder of graphs.

    A table keeps its rows and columns in their order; the predictions follow. However
    long it is, only a part of it is in memory.

    Args:
        smiles: The column of the SMILES; by default named as in training.
    """
    if not source.exists():
        raise DataError(f"there is no file or folder {str(source)!r}")
    if output.resolve() == source.resolve():
        raise ConfigError(f"{output} is the input; write to another file")
    if source.is_dir():
        lines = _folder_lines(predictor, source)
    elif source.suffix.lower() == ".sdf":
        lines = _sdf_lines(predictor, source)
    else:
        column = smiles or predictor.spec.smiles or "smiles"
        lines = _table_lines(predictor, source, column)
    count = PredictionCount()
    with replacing(output, newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, delimiter=delimiter_of(output))
        writer.writerow(next(lines))
        for line in lines:
            writer.writerow(line)
            count.add(line)
    return count


def _table_lines(predictor: Predictor, source: Path, smiles: str) -> Iterator[list]:
    featurizer = predictor.molecules
    with open_table(source) as table:
        place, width = table.column(smiles), len(table.header)
        taken = sorted({*table.header} & {*predictor.all_columns})
        if taken:
            raise DataError(
                f"{source} has a column {taken[0]!r} already, which is to be written"
            )
        yield [*table.header, *predictor.all_columns]
        for rows in _chunks(table):
            problems = [table.misfit(row.cells) for row in rows]
            fitting = [
                row.cells[place]
                for row, problem in zip(rows, problems, strict=True)
                if problem is None
            ]
            made = featurize(featurizer, fitting)
            graphs = [DataError(p) if p else next(made) for p in problems]
            for row, predicted in zip(rows, predictor.rows(graphs), strict=True):
                yield [*(row.cells + [""] * width)[:width], *predicted]


def _sdf_lines(predictor: Predictor, source: Path) -> Iterator[list]:
    featurizer = predictor.molecules
    load_chemistry()
    yield ["name", "smiles", *predictor.all_columns]
    for entries in _chunks(_sdf_entries(source)):
        made = list(map_in_workers(_SdfEntry(featurizer), entries))
        graphs = [entry if isinstance(entry, DataError) else entry[1] for entry in made]
        rows = zip(entries, made, predictor.rows(graphs), strict=True)
        for text, entry, predicted in rows:
            smiles = "" if isinstance(entry, DataError) else entry[0]
            yield [text.partition("\n")[0].strip(), smiles, *predicted]


def _sdf_entries(source: Path) -> Iterator[str]:
    """The text of each entry."""
    lines: list[str] = []
    with source.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            if line.startswith("$$$$"):
                yield "".join(lines)
                lines = []
            else:
                lines.append(line)
    if "".join(lines).strip():
        yield "".join(lines)


@dataclass(frozen=True)
class _SdfEntry:
    """Reads an entry as SMILES and graph, in a process that may crash."""

    featurizer: SmilesFeaturizer

    def __call__(self, text: str) -> tuple[str, Graph | DataError]:
        from rdkit import Chem, rdBase

        with rdBase.BlockLogs():
            remove = not self.featurizer.keeps_hydrogens
            stream = io.BytesIO(f"{text}$$$$\n".encode())
            mol = next(Chem.ForwardSDMolSupplier(stream, removeHs=remove), None)
            smiles = ""
            try:
                with rdkit_failures("this entry"):
                    smiles = Chem.MolToSmiles(Chem.RemoveHs(mol)) if mol else ""
                    return smiles, self.featurizer.from_molecule(mol)
            except DataError as error:
                return smiles, error


def _folder_lines(predictor: Predictor, source: Path) -> Iterator[list]:
    featurizer = predictor.spec.featurizer
    if not isinstance(featurizer, GraphFeaturizer):
        raise ConfigError(
            f"a model of {predictor.spec.dataset} does not read folders of graphs; "
            f"give it a table of SMILES or an SDF file"
        )
    graphs, unusable = featurizer.read_folder(source)
    yield ["graph", *predictor.all_columns]
    for index, values in enumerate(predictor.values(graphs).tolist()):
        if index in unusable:
            yield [index, *predictor.empty_row(unusable[index])]
        else:
            yield [index, *values, None]


def _chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, ROWS_AT_ONCE)):
        yield chunk
