"""Predictions of trained models for SMILES, SDF files and folders of graphs."""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fullrank.data import (
    DataError,
    Graph,
    GraphFeaturizer,
    MoleculeFeaturizer,
    PackedGraphs,
    PackedLoader,
    QM9Featurizer,
    featurize,
    open_table,
)
from fullrank.data.tables import delimiter_of, is_table
from fullrank.train.config import Config, ConfigError
from fullrank.train.files import replacing
from fullrank.train.saved import load_task, run_folders
from fullrank.train.sources import add_structure
from fullrank.train.task import GraphTask

if TYPE_CHECKING:
    import pandas as pd

ROWS_AT_ONCE = 1024
REASON = "reason"


def load(runs: str | Path | Sequence[str | Path]) -> "Predictor":
    """A trained model, or several of them as an ensemble.

    Args:
        runs: Run folders, or the folder of an experiment with several seeds or folds.
    """
    given = [runs] if isinstance(runs, (str, Path)) else runs
    return Predictor([folder for run in given for folder in run_folders(run)])


class Predictor:
    """Predicts with the mean of one or more trained models of the same task."""

    def __init__(self, folders: Sequence[Path]) -> None:
        if not folders:
            raise ConfigError("there is no run to predict with")
        loaded = [load_task(folder) for folder in folders]
        self.config, first = loaded[0]
        self.plan = first.plan
        self.tasks: list[GraphTask] = [task for _, task in loaded]
        for folder, (config, task) in zip(folders, loaded, strict=True):
            if _kind(config, task) != _kind(self.config, first):
                raise ConfigError(
                    f"{folder} and {folders[0]} do not predict the same from the same; "
                    f"they cannot be one ensemble"
                )

    @property
    def columns(self) -> list[str]:
        """What is predicted: values, or probabilities of labels or classes."""
        names = [target.name for target in self.plan.targets]
        if self.plan.task == "regression":
            return [f"predicted_{name}" for name in names]
        if self.plan.task == "binary":
            return [f"probability_{name}" for name in names]
        if self.plan.task == "multiclass":
            classes = self.plan.classes or range(self.plan.num_classes or 0)
            return [f"probability_{name}" for name in classes]
        raise ConfigError(
            f"a model of {self.plan.dataset} names functions; there is no input of "
            f"that kind to predict for"
        )

    @property
    def all_columns(self) -> list[str]:
        """The columns with the standard deviations of an ensemble, and the reason."""
        several = len(self.tasks) > 1
        spread = [f"{name}_std" for name in self.columns] if several else []
        return [*self.columns, *spread, REASON]

    def predict(self, smiles: Iterable[str]) -> "pd.DataFrame":
        """Predict for molecules, one row each, in original units.

        A row that cannot be predicted is empty and has a reason.
        """
        import pandas as pd

        reader = Reader(self.config)
        graphs = featurize(reader, smiles)
        chunks = [self.rows(chunk) for chunk in _chunks(graphs)]
        rows = [row for chunk in chunks for row in chunk]
        frame = pd.DataFrame(rows, columns=self.all_columns)
        return frame.astype(dict.fromkeys(self.all_columns[:-1], float))

    def rows(self, graphs: Sequence["Graph | DataError"]) -> list[list[Any]]:
        """The cells of `all_columns` for each graph, or why there is none."""
        usable = [graph for graph in graphs if isinstance(graph, Graph)]
        values = iter(())
        if usable:
            fields = Reader(self.config).fields
            packed = PackedGraphs.from_graphs(usable, fields=fields)
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
        if self.config.data.structure is not None:
            graphs = add_structure(graphs, self.config.data.structure)
        outputs = []
        for batch in PackedLoader(graphs, batch_size=self.config.training.batch_size):
            each = []
            for task in self.tasks:
                ready = task.on_after_batch_transfer(batch.to(task.device), 0)
                each.append(task.predict(task(ready)).double().cpu())
            outputs.append(torch.stack(each))
        runs = torch.cat(outputs, dim=1)  # [runs, G, C]
        parts = [runs.mean(dim=0)]
        if len(self.tasks) > 1:
            parts.append(runs.std(dim=0))
        return torch.cat(parts, dim=1).numpy()


def Reader(config: Config) -> MoleculeFeaturizer | QM9Featurizer:
    """Makes graphs of molecules as the data set of a model has them."""
    data = config.data
    if data.name == "qm9":
        distance = data.distance is not False
        return QM9Featurizer(edges=data.edges or "bonds", distance=distance)
    if is_table(data.name) or data.name.startswith("ogbg-mol"):
        return MoleculeFeaturizer(fragments=data.fragments or "keep")
    raise ConfigError(
        f"a model of {data.name} does not read molecules; give it a folder of graphs "
        f"in the TU layout"
    )


@dataclass
class Outcome:
    """How many rows were predicted, and why the others were not."""

    predicted: int = 0
    failed: int = 0
    first_reason: str = ""

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        for row in rows:
            if row[-1] is None:
                self.predicted += 1
            else:
                self.failed += 1
                self.first_reason = self.first_reason or row[-1]


def predict_file(
    predictor: Predictor, source: Path, output: Path, smiles: str | None = None
) -> Outcome:
    """Predict for a CSV or TSV file of SMILES, an SDF file or a folder of graphs.

    A table keeps its rows and columns in their order; the predictions follow. However
    long it is, only a part of it is in memory.

    Args:
        smiles: The column of the SMILES; by default named as in training.
    """
    if not source.exists():
        raise FileNotFoundError(f"there is no file or folder {str(source)!r}")
    if output.resolve() == source.resolve():
        raise ConfigError(f"{output} is the input; write to another file")
    if source.is_dir():
        lines = _folder_lines(predictor, source)
    elif source.suffix.lower() == ".sdf":
        lines = _sdf_lines(predictor, source)
    else:
        column = smiles or predictor.config.data.smiles or "smiles"
        lines = _table_lines(predictor, source, column)
    outcome = Outcome()
    width = len(predictor.all_columns)
    with replacing(output, newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, delimiter=delimiter_of(output))
        writer.writerow(next(lines))
        for line in lines:
            writer.writerow(line)
            outcome.add([line[-width:]])
    return outcome


def _table_lines(predictor: Predictor, source: Path, smiles: str) -> Iterator[list]:
    reader = Reader(predictor.config)
    with open_table(source) as table:
        place, width = table.column(smiles), len(table.header)
        taken = sorted({*table.header} & {*predictor.all_columns})
        if taken:
            raise DataError(
                f"{source} has a column {taken[0]!r} already, which is to be written"
            )
        yield [*table.header, *predictor.all_columns]
        for chunk in _chunks(table):
            problems = [table.misfit(row.cells) for row in chunk]
            texts = [
                row.cells[place]
                for row, problem in zip(chunk, problems, strict=True)
                if not problem
            ]
            made = featurize(reader, texts)
            graphs = [DataError(p) if p else next(made) for p in problems]
            for row, cells in zip(chunk, predictor.rows(graphs), strict=True):
                yield [*(row.cells + [""] * width)[:width], *cells]


def _sdf_lines(predictor: Predictor, source: Path) -> Iterator[list]:
    reader = Reader(predictor.config)
    from rdkit import Chem, rdBase

    yield ["name", "smiles", *predictor.all_columns]
    with source.open("rb") as stream, rdBase.BlockLogs():
        molecules = Chem.ForwardSDMolSupplier(
            stream, removeHs=not reader.keeps_hydrogens
        )
        for chunk in _chunks(molecules):
            graphs = [_attempt(reader.from_molecule, mol) for mol in chunk]
            for mol, row in zip(chunk, predictor.rows(graphs), strict=True):
                name = mol.GetProp("_Name") if mol and mol.HasProp("_Name") else ""
                text = Chem.MolToSmiles(Chem.RemoveHs(mol)) if mol else ""
                yield [name, text, *row]


def _folder_lines(predictor: Predictor, source: Path) -> Iterator[list]:
    plan = predictor.plan
    featurizer = GraphFeaturizer(
        node_features=plan.node_features, edge_features=plan.edge_features
    )
    graphs, reasons = featurizer.read_folder(source)
    yield ["graph", *predictor.all_columns]
    for index, values in enumerate(predictor.values(graphs).tolist()):
        if index in reasons:
            yield [index, *predictor.empty_row(reasons[index])]
        else:
            yield [index, *values, None]


def _attempt(make: Callable[[Any], Graph], given: Any) -> "Graph | DataError":
    try:
        return make(given)
    except DataError as error:
        return error


def _chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, ROWS_AT_ONCE)):
        yield chunk


def _kind(config: Config, task: GraphTask) -> tuple:
    data = config.data
    plan = task.plan
    return (
        plan.task,
        plan.targets,
        plan.classes,
        plan.node_features,
        plan.edge_features,
        (data.name == "qm9", data.edges, data.distance, data.fragments),
        data.structure,
    )
