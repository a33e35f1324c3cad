import numpy as np
import pandas as pd
import pytest
import torch

from fullrank import load
from fullrank.errors import ConfigError
from fullrank.train.embed import embed_file
from train.samples import SMILES, small_config, untrained, write_molecules


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    return untrained(small_config(folder), folder / "model.safetensors")


def test_vectors_are_what_the_head_reads(model, tmp_path):
    table = tmp_path / "in.csv"
    table.write_text("\n".join(["smiles", *SMILES, "C1CC"]) + "\n")
    for name in ("out.npy", "out.parquet"):
        done = embed_file(load(model), table, tmp_path / name, workers=2)
        assert done == (len(SMILES), len(SMILES) + 1)
    vectors = np.load(tmp_path / "out.npy")
    assert np.isnan(vectors[-1]).all()
    predictor = load(model)
    (only,) = predictor.models
    with torch.no_grad():
        outputs = only.network.head(torch.from_numpy(vectors[:-1]))
    found = only.predictions(outputs)[:, 0].numpy()
    truth = predictor.predict(SMILES)["predicted_logp"]
    np.testing.assert_allclose(found, truth, rtol=1e-5, atol=1e-6)
    frame = pd.read_parquet(tmp_path / "out.parquet")
    assert list(frame.columns) == ["smiles", "embedding", "reason"]
    assert np.array_equal(np.stack(frame["embedding"]), vectors, equal_nan=True)
    assert frame["smiles"].tolist() == [*SMILES, "C1CC"]
    assert "C1CC" in frame["reason"].iloc[-1]


def test_vectors_of_several_models_stand_side_by_side(model, tmp_path):
    config = small_config(tmp_path)
    other = untrained(config, tmp_path / "other.safetensors", seed=1)
    table = write_molecules(tmp_path / "in.csv")
    for name, models in (("a", model), ("b", other), ("ab", [model, other])):
        embed_file(load(models), table, tmp_path / f"{name}.npy")
    a, b, both = (np.load(tmp_path / f"{name}.npy") for name in ("a", "b", "ab"))
    np.testing.assert_allclose(both, np.concatenate([a, b], axis=1), rtol=1e-5)
    with pytest.raises(ConfigError, match=r"out\.txt"):
        embed_file(load(model), table, tmp_path / "out.txt")
