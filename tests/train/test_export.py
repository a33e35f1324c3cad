import re
from pathlib import Path

import numpy as np
import pytest
import torch

from fullrank import load
from fullrank.data import PackedGraphs
from fullrank.errors import ConfigError
from fullrank.train import parse, run_one
from fullrank.train.export import export_onnx
from train.samples import SMILES, small_config, untrained

onnxruntime = pytest.importorskip("onnxruntime")
PAGE = Path(__file__).parents[2] / "docs" / "predict.md"


def exported(predictor, file, smiles):
    """What ONNX gives for some molecules in one batch."""
    export_onnx(predictor, file)
    featurizer = predictor.molecules
    graphs = [featurizer.from_smiles(text) for text in smiles]
    packed = PackedGraphs.from_graphs(graphs, fields=featurizer.fields)
    batch = packed.batch(range(len(smiles)))
    session = onnxruntime.InferenceSession(file)
    inputs = {given.name: batch[given.name].numpy() for given in session.get_inputs()}
    return session.run(None, inputs)[0]


def test_the_example_of_the_page_agrees(tmp_path, monkeypatch):
    """It has at most 20 lines and neither torch nor fullrank in it."""
    run = run_one(small_config(tmp_path, training={"epochs": 2}))
    predictor = load(run.path)
    export_onnx(predictor, tmp_path / "model.onnx")
    (code,) = re.findall(r"```python\n(import numpy.*?)```", PAGE.read_text(), re.S)
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) <= 20
    assert "torch" not in code
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(code, names)
    truth = predictor.predict(SMILES)["predicted_logp"]
    found = [names["predict"](smiles)[0, 0] for smiles in SMILES]
    np.testing.assert_allclose(found, truth, rtol=1e-5, atol=1e-5)
    assert np.std(found) > 1e-3


def test_an_ensemble_with_descriptors_and_any_number_of_molecules(tmp_path):
    model = {
        "descriptors": ["rdkit"],
        "head": "tu",
        "conv": "combc",
        "batch_norm": True,
    }
    config = small_config(tmp_path, model=model)
    files = [untrained(config, tmp_path / f"{seed}", seed) for seed in (0, 1)]
    predictor = load(files)
    found = exported(predictor, tmp_path / "model.onnx", SMILES)
    truth = predictor.predict(SMILES)["predicted_logp"]
    np.testing.assert_allclose(found[:, 0], truth, rtol=1e-5, atol=1e-5)


def test_probabilities_are_calibrated(tmp_path):
    config = small_config(
        tmp_path,
        ["kind"],
        "multiclass",
        split={"calibration": 25},
        training={"epochs": 2},
    )
    predictor = load(run_one(config).path)
    found = exported(predictor, tmp_path / "model.onnx", SMILES[:9])
    truth = predictor.predict(SMILES[:9])[predictor.columns]
    np.testing.assert_allclose(found, truth, rtol=1e-5, atol=1e-5)


def test_what_is_not_exported_is_said(tmp_path):
    data = {"name": "qm9", "targets": ["gap"], "limit": 60, "root": str(tmp_path)}
    config = parse({"data": data, "model": {"layers": 1, "hidden": 4}})
    geometry = load(untrained(config, tmp_path / "qm9.safetensors"))
    colored = small_config(
        tmp_path,
        data={"structure": {"hops": 1}},
        model={"conv": "expc-structural", "s": 2, "re_sum": True},
    )
    structural = load(untrained(colored, tmp_path / "colors.safetensors"))
    for predictor in (geometry, structural):
        with pytest.raises(ConfigError):
            export_onnx(predictor, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()
    assert torch.is_grad_enabled()
