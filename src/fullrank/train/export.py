"""Export of trained networks to ONNX, for use without torch and fullrank.

The file contains the networks with their normalisation and calibration. The program
that uses it converts molecules to graphs: ``docs/predict.md`` shows how with RDKit and
numpy.
"""

import contextlib
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fullrank.data import MoleculeFeaturizer, PackedGraphs
from fullrank.errors import ConfigError
from fullrank.extras import need
from fullrank.nn import backend
from fullrank.train.files import replacing
from fullrank.train.model import Model
from fullrank.train.predict import Predictor

OUTPUT = "prediction"


def export_onnx(predictor: Predictor, file: Path) -> None:
    """Write the models to one ONNX file; an ensemble predicts its mean.

    Inputs are ``x`` (OGB's atom features, ``[N, 9]``), ``edge_index`` ``[2, E]``,
    ``edge_attr`` (OGB's bond features, ``[E, 3]``) and ``batch`` (the molecule of each
    atom, counted from 0, ``[N]``), all int64, and ``descriptors`` (float32,
    ``[G, D]``) if the model reads any. The output ``prediction`` ``[G, C]`` equals that
    of `Predictor.predict`: values in original units, or probabilities.
    """
    for package in ("onnx", "onnxscript"):
        need(package)
    featurizer = predictor.spec.featurizer
    if predictor.spec.structure is not None:
        raise ConfigError(
            "the model cannot be exported, because it reads structural colours, which "
            "ONNX cannot compute"
        )
    if not isinstance(featurizer, MoleculeFeaturizer):
        raise ConfigError(
            f"a model of {predictor.spec.dataset} cannot be exported, because it reads "
            f"geometries, or graphs that are not molecules"
        )
    # Two molecules, so that no size becomes a constant.
    example = PackedGraphs.from_graphs(
        [featurizer.from_smiles(smiles) for smiles in ("CC(=O)O", "c1ccncc1")],
        fields=featurizer.fields,
    ).batch([0, 1])
    names = ["x", "edge_index", "edge_attr", "batch"]
    names += ["descriptors"] if "descriptors" in example else []
    every = torch.export.Dim.DYNAMIC
    sizes = {name: {1 if name == "edge_index" else 0: every} for name in names}
    network = _Exported(predictor).cpu().eval()
    with backend("plain"), _quiet():
        program = torch.onnx.export(
            network,
            kwargs={name: example[name] for name in names},
            dynamo=True,
            input_names=names,
            output_names=[OUTPUT],
            dynamic_shapes=sizes,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    for part in (model.graph, *model.functions):
        _remove_notes(part)
    with replacing(file, "wb") as stream:
        stream.write(model.SerializeToString())


def _remove_notes(graph: Any) -> None:
    """Remove the stack traces of the export, which contain paths of this machine."""
    values = [*graph.value_info, *graph.node]
    for part in (graph, *values):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node:
                    _remove_notes(inner)


class _Exported(torch.nn.Module):
    """Maps the arrays of molecules to their predictions."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.models = torch.nn.ModuleList(predictor.models)
        self.task = predictor.spec.task
        self.calibration = None
        if self.task != "regression" and predictor.calibration is not None:
            self.calibration = predictor.calibration
            self.calibration.parameters  # noqa: B018  (fitted before it is traced)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor,
        batch: Tensor,
        descriptors: Tensor | None = None,
    ) -> Tensor:
        graphs = (
            int(batch.max().item()) + 1 if descriptors is None else len(descriptors)
        )
        torch._check(graphs >= 1)
        inputs = (x, edge_index, edge_attr, batch, graphs)
        found = []
        for model in map(_as_model, self.models):
            output = model.graph_net(*inputs, descriptors=descriptors)
            if model.spec.references:
                output = model.add_references(output, x, batch)
            found.append(model.predictions(output))
        mean = torch.stack(found).double().mean(dim=0)
        return mean if self.calibration is None else self.calibration.calibrated(mean)


def _as_model(module: torch.nn.Module) -> Model:
    assert isinstance(module, Model)
    return module


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the exporter's messages about other packages."""
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            log.setLevel(before)
