"""The measured part of a model's card, from its run.

``python -m fullrank.train.card NAME RUN`` copies the model of a run to the folder of
models that come with the package, and completes ``NAME.json`` there.
"""

import hashlib
import sys
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor

from fullrank.data import GraphDataset
from fullrank.errors import ConfigError
from fullrank.pretrained import FOLDER
from fullrank.pretrained.cards import Card, Measured, Output, Score, read_card
from fullrank.train.bootstrap import RESAMPLES, bootstrap
from fullrank.train.calibration import COVERAGE
from fullrank.train.evaluate import Predicted, load_data, predict_part
from fullrank.train.files import write_text
from fullrank.train.metrics import measure
from fullrank.train.model import Model
from fullrank.train.references import graph_references
from fullrank.train.run_folder import RunFolder

_PACKAGES = ("torch", "torch_geometric", "rdkit", "numpy")


def write_card(
    name: str, run: RunFolder, folder: Path = FOLDER, resamples: int = RESAMPLES
) -> Card:
    """Copy the model of a finished run and complete its card.

    Args:
        name: Of the model; its card ``NAME.json`` exists.
        run: With a test part.
        folder: Where the card is.
        resamples: How many bootstrap samples the intervals come from.
    """
    file = folder / f"{name}.json"
    measured = measure_run(run, resamples)
    card = read_card(file).model_copy(update={"measured": measured})
    content = run.model_file.read_bytes()
    (folder / f"{name}.safetensors").write_bytes(content)
    write_text(file, card.model_dump_json(indent=2, exclude_none=True) + "\n")
    return card


def measure_run(run: RunFolder, resamples: int = RESAMPLES) -> Measured:
    """What a card says of the model of a run."""
    dataset = load_data(run)
    found = predict_part([run], dataset, "test")
    spec, environment, result = found.spec, run.environment, run.result
    assert result is not None
    if spec.seen is None:
        raise ConfigError(f"a model of {spec.dataset} does not read molecules")
    commits = [environment.commit, *environment.earlier_commits]
    if any(commit is None or commit.endswith("dirty") for commit in commits):
        raise ConfigError(
            f"the run {run.path} was trained with changes that are not committed: "
            f"{', '.join(map(str, commits))}"
        )
    kept = Model.load(run.model_file).kept
    content = run.model_file.read_bytes()
    return Measured(
        run=run.id,
        seed=result.seed,
        commit=str(environment.commit),
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        task=spec.task,
        outputs=_outputs(found),
        graphs=spec.graphs,
        calibration=len(kept.get("calibration_graphs", ())),
        fingerprints=len(kept.get("fingerprints", ())),
        elements=spec.seen.elements,
        atoms=spec.seen.atoms,
        scores=_scores(found, dataset, resamples),
        linear=_linear(found, dataset),
        epochs=result.epochs,
        seconds=result.seconds,
        parameters=result.parameters,
        versions={"Python": environment.python}
        | {package: version(package) for package in _PACKAGES},
        processor=environment.processor,
    )


def _outputs(found: Predicted) -> tuple[Output, ...]:
    widths = [None] * len(found.spec.targets)
    if found.spec.task == "regression" and found.calibration is not None:
        widths = found.calibration.half_widths(COVERAGE).tolist()
    return tuple(
        Output(name=target.name, unit=target.unit, half_width=width)
        for target, width in zip(found.spec.targets, widths, strict=True)
    )


def _scores(
    found: Predicted, dataset: GraphDataset, resamples: int
) -> dict[str, Score]:
    values, labels = found.values.double(), dataset.labels[found.graphs.numpy()]
    calibrate = found.calibration

    def measured(rows: Tensor) -> dict[str, float]:
        given = (found.values[rows], found.labels[rows], found.graphs[rows])
        scores = measure(found.spec, *given, dataset)
        if calibrate is not None:
            scores |= calibrate.worth(values[rows], labels[rows.numpy()])
        return scores

    return {
        name: Score(value=estimate.value, low=estimate.low, high=estimate.high)
        for name, estimate in bootstrap(measured, len(values), resamples).items()
    }


def _linear(found: Predicted, dataset: GraphDataset) -> dict[str, float]:
    """The scores of the references alone."""
    spec = found.spec
    if not spec.references:
        return {}
    table = torch.tensor(spec.references, dtype=torch.float64).T
    blocks = []
    for batch in dataset.loader(found.graphs.numpy(), batch_size=1024):
        given = (table, spec.node_features, batch.x, batch.batch, batch.num_graphs)
        blocks.append(graph_references(*given))
    values = torch.cat(blocks) + torch.tensor(spec.mean, dtype=torch.float64)
    return measure(spec, values, found.labels, found.graphs, dataset)


if __name__ == "__main__":
    write_card(sys.argv[1], RunFolder.open(sys.argv[2]))
