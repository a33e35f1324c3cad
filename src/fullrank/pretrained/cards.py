"""Cards: what a model was trained on, how good it is, and how to train it again."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

from fullrank.pretrained import model_file, names


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Score(_Part):
    """A test score with the ends of its 95% bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


class Output(_Part):
    """A target of a model.

    Attributes:
        name, unit: Of the target.
        half_width: Regression: of the interval with a coverage of 90%.
    """

    name: str
    unit: str = ""
    half_width: float | None = None


class Published(_Part):
    """Scores of others, and in what they differ.

    Attributes:
        metric: What is compared.
        note: Why they cannot be compared directly.
        scores: By method and target.
    """

    metric: str
    note: str
    scores: dict[str, dict[str, float]]


class Measured(_Part):
    """What `fullrank.train.card` reads from the run.

    Attributes:
        run, seed, commit: Of the training.
        size: Of the model file in bytes.
        sha256: Of the model file.
        task: ``regression`` or ``binary``.
        outputs: What is predicted.
        graphs: Number of molecules in each part of the split.
        calibration: Number of calibration molecules.
        fingerprints: Number of training molecules that similarity is measured against.
        elements: Atomic numbers of the training molecules.
        atoms: Smallest and largest number of heavy atoms of the training molecules.
        scores: On the test part.
        linear: The same without the network, if the model has references.
        epochs, seconds: Of the training.
        parameters: Of the network.
        versions: Of the packages that matter.
        processor: What it was trained on.
    """

    run: str
    seed: NonNegativeInt
    commit: str
    size: PositiveInt
    sha256: str
    task: str
    outputs: tuple[Output, ...]
    graphs: dict[str, int]
    calibration: NonNegativeInt
    fingerprints: NonNegativeInt
    elements: tuple[int, ...]
    atoms: tuple[int, int]
    scores: dict[str, Score]
    linear: dict[str, float] = {}
    epochs: PositiveInt
    seconds: float
    parameters: PositiveInt
    versions: dict[str, str]
    processor: str


class Card(_Part):
    """The card of a model.

    Attributes:
        title: What it predicts.
        data: The data set, and where it comes from.
        licence: Of the data.
        split: How training, validation, test and calibration part were chosen.
        settings: How the configuration was chosen.
        applicability: For which molecules it is meant, and for which not.
        commands: What trains it again.
        published: Scores of others, if there are comparable ones.
        measured: What the run says; None before it is trained.
    """

    title: str
    data: str
    licence: str
    split: str
    settings: str
    applicability: str
    commands: tuple[str, ...]
    published: Published | None = None
    measured: Measured | None = None

    @property
    def main_scores(self) -> dict[str, Score]:
        """The scores that a table has room for."""
        found = self.measured.scores if self.measured else {}
        wanted: tuple[str, ...] = ("rmse", "mae", "rocauc", "ap", "coverage_90")
        if "std_mae" in found:  # several targets, whose mean means little
            wanted = ("r2", "coverage_90")
        return {name: found[name] for name in wanted if name in found}


def read_card(file: Path) -> Card:
    """Read a card."""
    return Card.model_validate_json(file.read_text(encoding="utf-8"))


@cache
def card(name: str) -> Card:
    """The card of a model that comes with the package."""
    return read_card(model_file(name).with_suffix(".json"))


def configuration(name: str) -> str:
    """The configuration that trained a model, as YAML."""
    return model_file(name).with_suffix(".yaml").read_text(encoding="utf-8")


def as_markdown(name: str) -> str:
    """A card as text."""
    return "\n".join(_lines(name, card(name))) + "\n"


def overview() -> str:
    """All models as a Markdown table."""
    rows = [
        "| name | predicts | test scores (95% interval) | size |",
        "|---|---|---|--:|",
    ]
    for name in names():
        shown = card(name)
        scores = ", ".join(f"{k} {score}" for k, score in shown.main_scores.items())
        size = shown.measured.size if shown.measured else 0
        rows.append(f"| `{name}` | {shown.title} | {scores} | {size / 1e6:.1f} MB |")
    return "\n".join(rows)


def _lines(name: str, shown: Card) -> Iterator[str]:
    yield f"# {name}: {shown.title}"
    for heading, text in (
        ("Data", shown.data),
        ("Licence of the data", shown.licence),
        ("Split", shown.split),
        ("Settings", shown.settings),
        ("Applicability", shown.applicability),
    ):
        yield f"\n**{heading}.** {text}"
    if shown.measured is not None:
        yield from _scores(shown, shown.measured)
        yield from _provenance(shown.measured)
    yield "\n**Train it again.**\n"
    yield from (f"    {command}" for command in shown.commands)


def _scores(shown: Card, measured: Measured) -> Iterator[str]:
    tested = measured.graphs["test"]
    yield (
        f"\n**Test scores** ({tested:,} molecules; in parentheses, the 95% interval of "
        f"1,000 bootstrap samples of the test molecules):\n"
    )
    several = len(measured.outputs) > 1
    overall = [(k, v) for k, v in measured.scores.items() if "/" not in k]
    yield "| metric | score |"
    yield "|---|---|"
    for metric, found in overall:
        if not several or metric in ("r2", "std_mae", "coverage_90"):
            yield f"| {metric} | {found} |"
    if several:
        yield from _targets(shown, measured)
    elif shown.published is not None:
        for label, scores in shown.published.scores.items():
            score = scores[measured.outputs[0].name]
            yield f"| {shown.published.metric}, {label} | {score:.3g} |"
    if shown.published is not None:
        yield f"\n{shown.published.note}"
    if "coverage_90" in measured.scores:
        yield (
            "\n`coverage_90` is the share of test values within their interval of 90% "
            f"(split conformal, {measured.calibration:,} calibration molecules)."
        )


def _targets(shown: Card, measured: Measured) -> Iterator[str]:
    others = shown.published.scores if shown.published else {}
    linear = ["linear fit"] if measured.linear else []
    yield ""
    heads = ["target", "unit", "MAE", "R²", "90% interval ±", *linear, *others]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for output in measured.outputs:
        cells = [
            output.name,
            output.unit,
            str(measured.scores[f"mae/{output.name}"]),
            f"{measured.scores[f'r2/{output.name}'].value:.4f}",
            "" if output.half_width is None else f"{output.half_width:.3g}",
            *(f"{measured.linear[f'mae/{output.name}']:.3g}" for _ in linear),
            *(f"{scores[output.name]:.3g}" for scores in others.values()),
        ]
        yield f"| {' | '.join(cells)} |"


def _provenance(measured: Measured) -> Iterator[str]:
    parts = ", ".join(f"{part} {count:,}" for part, count in measured.graphs.items())
    versions = ", ".join(f"{k} {v}" for k, v in measured.versions.items())
    trained, compared = measured.graphs["train"], measured.fingerprints
    against = f"all {trained:,} training molecules"
    if compared < trained:
        against = (
            f"a random sample of {compared:,} of the {trained:,} training molecules"
        )
    yield (
        f"\n**Similarity** is measured against {against}. They have "
        f"{measured.atoms[0]} to {measured.atoms[1]} heavy atoms and "
        f"{len(measured.elements)} elements besides hydrogen."
    )
    yield (
        f"\n**Training.** Run `{measured.run}`, seed {measured.seed}, commit "
        f"`{measured.commit}`; {parts}, calibration {measured.calibration:,}; "
        f"{measured.parameters:,} parameters; {measured.epochs} epochs in "
        f"{measured.seconds / 60:.1f} minutes on one core of a shared machine "
        f"({measured.processor}); {versions}."
    )
    yield (
        f"\n**File.** {measured.size / 1e6:.2f} MB, SHA-256 `{measured.sha256[:16]}…`."
    )
