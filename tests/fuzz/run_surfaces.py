"""What is read from a run, a search or an interrupted prediction."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest.mock import patch

import numpy as np
from optuna.trial import TrialState

from fullrank.data import PackedGraphs
from fullrank.interrupt import Interrupted
from fullrank.report.run_page import write_run_page
from fullrank.report.tune_page import write_tune_page
from fullrank.train import Config, Model, Predictor, RunFolder, run_one
from fullrank.train.evaluate import load_data
from fullrank.train.export import export_onnx
from fullrank.train.predict import load_predictor
from fullrank.train.predict_file import FileOptions, predict_file
from fullrank.train.tune import tune
from fuzz import damage
from fuzz.surfaces import Surface, damaged, intact, make_model, spoil_model
from train.samples import small_config, write_molecules

INJECTED = "<script>alert(1)"


# --- a prediction that was interrupted


class _Stops(Predictor):
    """Is interrupted after three blocks."""

    blocks = 0

    def rows(self, block, interval=None):
        self.blocks += 1
        if self.blocks > 3:
            raise Interrupted
        return super().rows(block, interval)


@contextmanager
def _small_blocks() -> Iterator[None]:
    with patch("fullrank.train.predict_file.MOLECULES_AT_ONCE", 10):
        yield


def make_unfinished(folder: Path) -> None:
    make_model(folder)
    write_molecules(folder / "molecules.csv")
    with _small_blocks():
        try:
            predict_file(_Stops([_model(folder)]), *_files(folder))
        except Interrupted:
            return
    raise AssertionError("was not interrupted")


def spoil_unfinished(folder: Path, random: Random) -> None:
    kinds = {"predicted.csv.part": damage.TEXT, "predicted.csv.part.json": damage.JSON}
    name = random.choice(sorted(kinds))
    damaged(folder / name, kinds[name], random)


def read_unfinished(folder: Path) -> int:
    with _small_blocks():
        options = FileOptions(resume=True, workers=1)
        predict_file(Predictor([_model(folder)]), *_files(folder), options)
    found = (folder / "predicted.csv").read_text()
    assert found == intact(make_unfinished, _predicted_at_once)
    return 0


def _predicted_at_once(folder: Path) -> str:
    for file in folder.glob("predicted.csv.part*"):
        file.unlink()
    with _small_blocks():
        predict_file(Predictor([_model(folder)]), *_files(folder))
    return (folder / "predicted.csv").read_text()


def _files(folder: Path) -> tuple[Path, Path]:
    return folder / "molecules.csv", folder / "predicted.csv"


def _model(folder: Path) -> Model:
    return Model.load(folder / "model.safetensors")


# --- a model file to export


def read_exported(folder: Path) -> int:
    import onnxruntime

    predictor = load_predictor(folder / "model.safetensors")
    file = folder / "model.onnx"
    export_onnx(predictor, file)
    featurizer = predictor.molecules
    graph = PackedGraphs.from_graphs(
        [featurizer.from_smiles("CCO")], fields=featurizer.fields
    ).batch([0])
    # A session with threads cannot be freed in a fork, which does not have them.
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options)
    inputs = {given.name: graph[given.name].numpy() for given in session.get_inputs()}
    found = session.run(None, inputs)[0]
    truth = predictor.predict(["CCO"])[predictor.columns]
    np.testing.assert_allclose(found, truth, rtol=1e-4, atol=1e-5)
    return 0


# --- the page of a run


def make_trained(folder: Path) -> None:
    run_one(small_config(folder, training={"epochs": 1}))
    shutil.rmtree(next(folder.glob("runs/*/checkpoints")), ignore_errors=True)


def spoil_trained(folder: Path, random: Random) -> None:
    files = [file for file in folder.glob("runs/*/*") if not file.name.startswith(".")]
    kinds = {".json": damage.JSON, ".yaml": damage.YAML, ".csv": damage.TEXT}
    file = random.choice(sorted(files))
    damaged(file, kinds.get(file.suffix, damage.BYTES), random)


def read_trained(folder: Path) -> int:
    (run,) = (folder / "runs").iterdir()
    dataset = load_data(RunFolder(run), {"name": str(folder / "molecules.csv")})
    page = write_run_page(run, dataset).read_text(encoding="utf-8")
    assert INJECTED not in page
    assert "Learning curves" in page
    return 0


# --- a search

SPACE = """\
optimizer.lr: {low: 0.0001, high: 0.01, log: true}
model.hidden: [4, 8]
"""


def make_study(folder: Path) -> None:
    (folder / "space.yaml").write_text(SPACE)
    for storage in (None, _database(folder)):
        tune(_searched(folder), 2, space=_space(folder), storage=storage)


def spoil_study(folder: Path, random: Random) -> None:
    (journal,) = folder.glob("runs/tune-*/study.journal")
    kinds = {
        journal: (damage.flip_bit, damage.truncate, damage.empty, *damage.TEXT),
        _space(folder): damage.YAML,
        folder / "study.db": damage.BYTES,
    }
    file = random.choice([journal, journal, _space(folder), folder / "study.db"])
    damaged(file, kinds[file], random)
    (folder / "damaged").write_text(file.name)


def read_study(folder: Path) -> int:
    storage = None
    mark = folder / "damaged"
    if mark.exists() and mark.read_text() == "study.db":
        storage = _database(folder)
    tuned = tune(_searched(folder), 2, space=_space(folder), storage=storage)
    page = write_tune_page(tuned).read_text(encoding="utf-8")
    assert INJECTED not in page
    complete = tuned.study.get_trials(states=[TrialState.COMPLETE])
    assert tuned.study.best_value == min(trial.value for trial in complete)
    return 0


def _searched(folder: Path) -> Config:
    return small_config(
        folder, model={"layers": 1, "hidden": 4}, training={"epochs": 1}
    )


def _space(folder: Path) -> Path:
    return folder / "space.yaml"


def _database(folder: Path) -> str:
    return f"sqlite:///{folder / 'study.db'}"


RUN_SURFACES = {
    surface.name: surface
    for surface in (
        Surface("resume", make_unfinished, spoil_unfinished, read_unfinished),
        Surface("export", make_model, spoil_model, read_exported, inputs=50),
        Surface("page", make_trained, spoil_trained, read_trained),
        Surface("study", make_study, spoil_study, read_study, inputs=90),
    )
}
