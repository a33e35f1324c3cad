"""The typed configuration of an experiment, and the identity of its runs."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from fullrank.data import GraphDataset
from fullrank.data.descriptors import DescriptorKind
from fullrank.data.files import content_digest
from fullrank.data.options import Options
from fullrank.data.parsing import parse_yaml
from fullrank.data.sources import AnySource, Source
from fullrank.data.sources.base import (
    ContinuousStructureOptions,
    Location,
    StructureOptions,
)
from fullrank.errors import ConfigError, nearest
from fullrank.nn import conv_names, network_names
from fullrank.nn.coefficients.tanh import INITS
from fullrank.nn.models.graph_net import HEADS, READOUTS
from fullrank.pretrained import resolve
from fullrank.train.estimators import ESTIMATORS

# The convolutions that have `model.s`, and the name of their argument.
AGGREGATORS = {
    "expc": "num_aggregators",
    "expc-continuous": "num_aggregators",
    "expc-structural": "num_aggregators",
    "gat": "heads",
    "gatv2": "heads",
}
# The convolutions that read data.structure, its type, and an example.
STRUCTURAL = {
    "expc-structural": (StructureOptions, "{hops: 2}"),
    "combc-structural": (StructureOptions, "{hops: 2}"),
    "expc-continuous": (ContinuousStructureOptions, "{kind: continuous}"),
}
# The convolutions with the keys `re_sum` and `init`.
RANK_CONVS = ("expc", "combc", *STRUCTURAL)
# Models other than GraphNet, and the keys that apply to them.
NAMED_MODELS = sorted({*network_names(), *ESTIMATORS} - {"graph-net"})
_OF_NAMED_MODELS = ("name", "args", "layers", "hidden", "dropout")
FOLDS = ("gin", "fair")
Start = Annotated[
    Location,
    BeforeValidator(lambda at: resolve(at) if isinstance(at, str | Path) else at),
]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class SplitConfig(Options):
    """The split into training, validation and test graphs.

    Attributes:
        kind: ``random``, ``given`` or ``scaffold``; or folds with the protocol ``gin``
            (the epoch with the best mean test curve) or ``fair`` (the epoch that is
            best on a held-out part of each training fold). By default the split that
            comes with the data set.
        seed: Seed of the split, independent of the seeds of training.
        folds: ``gin`` and ``fair``: number of folds.
        fold: ``gin`` and ``fair``: run only this fold, numbered from 0.
        folder: ``gin`` and ``fair``: a folder with the folds of Zhang et al.;
            stratified folds by default.
        hold_out: ``fair``: fraction of each training fold that is held out to choose
            the epoch.
        apart: ``random``: whether rows of the same molecule may be in different parts;
            they stay together by default.
        calibration: Number of training graphs, or a fraction below 1 of them, held out
            to calibrate intervals and probabilities; none by default.
    """

    kind: Literal["random", "given", "scaffold", "gin", "fair"] | None = None
    seed: Seed = 0
    folds: Annotated[int, Field(ge=2)] = 10
    fold: Annotated[int, Field(ge=0)] | None = None
    folder: Path | None = None
    hold_out: Annotated[float, Field(gt=0, lt=1)] = 0.1
    apart: bool | None = None
    calibration: PositiveFloat | None = None

    @model_validator(mode="after")
    def _check(self) -> "SplitConfig":
        if self.kind not in FOLDS and (self.fold, self.folder) != (None, None):
            raise ValueError("fold and folder are for the kinds 'gin' and 'fair'")
        if self.fold is not None and self.fold >= self.folds:
            raise ValueError(f"there is no fold {self.fold} of {self.folds}")
        return self


class ModelConfig(Options):
    """A `fullrank.nn.GraphNet`, or another model by name.

    Attributes:
        name: A network of `fullrank.nn.network_names` or an estimator of
            `fullrank.train.estimators`, used instead of a GraphNet. Of the other keys,
            only ``args``, ``layers``, ``hidden`` and ``dropout`` apply to it.
        args: Further arguments of the model ``name``.
        conv: Name of the convolution, see `fullrank.nn.conv_names`.
        layers: Number of convolutions; with 0, the encoded nodes are read out.
        hidden: Width of each layer.
        s: Number of aggregators of ``expc``, or of heads of ``gat`` and ``gatv2``; for
            ``expc-structural`` and ``expc-continuous``, of the aggregators that read
            features.
        re_sum: ``expc`` and ``combc``: whether the MLP is before the sum (Re-SUM) or
            after it.
        init: ``expc`` and ``combc``: initialisation of the coefficients, ``paper`` (the
            default) or ``balanced``.
        conv_args: Further arguments of the convolution.
        batch_norm: Whether to apply batch norm after each layer.
        norm_encoder: Whether to apply batch norm before the first layer.
        norm_readout: Whether to apply batch norm before the head.
        dropout: Dropout in the head; the head ``qm9`` has none.
        layer_dropout: Dropout after each layer; none by default, as in the paper.
        jumping_knowledge: Whether to read out all layers, or only the last one.
        readout: Pooling of the nodes of a graph: ``sum``, ``mean`` or ``max``.
        head: Layers after the readout: ``ogb`` is one linear layer, ``tu`` two, ``qm9``
            three, ``qm9-paper`` three with the authors' widths.
        virtual_node: Whether to add a node to each graph that is connected to all
            others.
        descriptors: Descriptors of the whole molecule, concatenated with the readout:
            ``rdkit`` (properties and counts), ``morgan`` (hashed neighbourhoods).
    """

    name: str | None = None
    args: dict[str, Any] | None = None
    conv: str = "expc"
    layers: NonNegativeInt = 4
    hidden: PositiveInt = 64
    s: PositiveInt | None = None
    re_sum: bool | None = None
    init: Literal[INITS] | None = None  # type: ignore[valid-type]
    conv_args: dict[str, Any] = Field(default_factory=dict)
    batch_norm: bool = False
    norm_encoder: bool | None = None
    norm_readout: bool | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    layer_dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    jumping_knowledge: bool = True
    readout: Literal[READOUTS] = "sum"  # type: ignore[valid-type]
    head: Literal[HEADS] = "ogb"  # type: ignore[valid-type]
    descriptors: list[DescriptorKind] | None = None
    virtual_node: bool | None = None

    @field_validator("name")
    @classmethod
    def _known_name(cls, name: str | None) -> str | None:
        if name is not None and name not in NAMED_MODELS:
            raise ValueError(
                f"there is no such model{nearest(name, NAMED_MODELS)}; known: "
                f"{', '.join(NAMED_MODELS)}"
            )
        return name

    @field_validator("conv")
    @classmethod
    def _known(cls, conv: str) -> str:
        if conv not in conv_names():
            raise ValueError(
                f"there is no such convolution{nearest(conv, conv_names())}"
            )
        return conv

    @model_validator(mode="after")
    def _check_named(self) -> "ModelConfig":
        if self.name is None:
            if self.args is not None:
                raise ValueError("args is for models with a name; see conv_args")
            return self
        for key, field in type(self).model_fields.items():
            default = field.get_default(call_default_factory=True)
            if key not in _OF_NAMED_MODELS and getattr(self, key) != default:
                raise ValueError(
                    f"{key} is for a GraphNet; {self.name} has "
                    f"{', '.join(_OF_NAMED_MODELS[1:])}"
                )
        return self

    @model_validator(mode="after")
    def _check(self) -> "ModelConfig":
        if self.s is not None and self.conv not in AGGREGATORS:
            raise ValueError(f"s is for {', '.join(AGGREGATORS)}, not for {self.conv}")
        for key in ("re_sum", "init"):
            if getattr(self, key) is not None and self.conv not in RANK_CONVS:
                raise ValueError(
                    f"{key} is for {', '.join(RANK_CONVS)}, not for {self.conv}"
                )
        for name, value in self._named.items():
            if name in self.conv_args:
                raise ValueError(
                    f"{name if name in ('re_sum', 'init') else 's'} is {value} and "
                    f"conv_args.{name} is {self.conv_args[name]}; leave one out"
                )
        if self.conv == "pna" and "deg" in self.conv_args:
            raise ValueError(
                f"conv_args.deg is {self.conv_args['deg']}, but degrees are counted in "
                f"the training graphs; leave it out"
            )
        return self

    @property
    def label(self) -> str:
        """The label of runs: the name of the model, or the convolution."""
        return self.name or self.conv

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the convolution besides its sizes."""
        return {**self.conv_args, **self._named}

    @property
    def _named(self) -> dict[str, Any]:
        """`s`, `re_sum` and `init` under the convolution's names, where given."""
        named = {
            AGGREGATORS.get(self.conv, "s"): self.s,
            "re_sum": self.re_sum,
            "init": self.init,
        }
        return {name: value for name, value in named.items() if value is not None}


class OptimizerConfig(Options):
    """The optimiser.

    Attributes:
        name: ``adam`` or ``adamw``.
        lr: Learning rate; with ``onecycle``, its maximum.
        weight_decay: Weight decay.
        clip: Maximum gradient norm; no clipping by default.
    """

    name: Literal["adam", "adamw"] = "adam"
    lr: PositiveFloat = 1e-3
    weight_decay: NonNegativeFloat = 0.0
    clip: PositiveFloat | None = None


class ScheduleConfig(Options):
    """The learning rate schedule.

    Attributes:
        name: ``constant``, ``step``, ``cosine`` (to 0) or ``onecycle``.
        every: ``step``: number of epochs between two steps.
        factor: ``step``: factor of the learning rate at each step.
    """

    name: Literal["constant", "step", "cosine", "onecycle"] = "constant"
    every: PositiveInt = 10
    factor: Annotated[float, Field(gt=0, le=1)] = 0.8


class TrainingConfig(Options):
    """Duration and details of training.

    Attributes:
        epochs: Number of passes over the training graphs.
        batch_size: Number of graphs per step, over all devices.
        loss: ``mse``, ``mae`` or ``huber`` of normalised targets, or ``cross_entropy``
            for classification; by default ``mae`` or ``cross_entropy``.
        class_weights: ``balanced``, or a weight for each class (multiclass) or for the
            positive label of each target (binary).
        patience: Stop after this many epochs without a better validation metric.
        start: A model file, the folder of a run or experiment, or the name of a model
            that comes with the package, whose weights training starts from.
        references: Regression: whether a linear function of the node features, summed
            over each graph, is fitted to the training labels first, so that the network
            learns what it leaves; for properties that grow with a molecule, such as
            energies.
        precision: Floating-point precision: ``32``, ``64``, ``bf16-mixed`` or
            ``16-mixed``.
        deterministic: Whether to use deterministic operations only.
        similarity: Whether the model stores fingerprints of training molecules, so that
            predictions report the similarity to the nearest one; true by default.
    """

    epochs: PositiveInt = 100
    batch_size: PositiveInt = 64
    loss: Literal["mse", "mae", "huber", "cross_entropy"] | None = None
    class_weights: Literal["balanced"] | list[PositiveFloat] | None = None
    patience: PositiveInt | None = None
    start: Start | None = None
    references: bool | None = None
    precision: Literal["32", "64", "bf16-mixed", "16-mixed"] = "32"
    deterministic: bool = True
    similarity: bool | None = None

    @field_validator("precision", mode="before")
    @classmethod
    def _as_text(cls, precision: Any) -> Any:
        return str(precision) if isinstance(precision, int) else precision


class ComputeConfig(Options):
    """Where the training runs; has no effect on the identity of a run.

    Attributes:
        accelerator: ``auto``, ``cpu`` or ``gpu``.
        devices: Number of processes on this machine.
        nodes: Number of machines.
    """

    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    devices: PositiveInt = 1
    nodes: PositiveInt = 1


class Config(Options):
    """An experiment: one run, or one for each fold and seed.

    Attributes:
        data: The data set and its targets.
        split: The split into training, validation and test graphs.
        model: The model.
        optimizer: The optimiser.
        schedule: The learning rate schedule.
        training: Duration and details of training.
        compute: Where the training runs.
        seeds: Seeds of weights and batches; one run each.
        ensemble: Number of networks per seed that predict together, each a run of its
            own; one by default.
        runs: The folder of run folders.
    """

    data: AnySource
    split: SplitConfig = SplitConfig()
    model: ModelConfig = ModelConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    training: TrainingConfig = TrainingConfig()
    compute: ComputeConfig = ComputeConfig()
    seeds: list[Seed] = Field([0], min_length=1)
    ensemble: PositiveInt | None = None
    runs: Path = Path("runs")

    @model_validator(mode="after")
    def _check(self) -> "Config":
        if self.split.kind == "gin" and self.training.patience is not None:
            raise ValueError(
                "training.patience needs a validation part; the protocol 'gin' has none"
            )
        read, example = STRUCTURAL.get(self.model.conv, (object, ""))
        if not isinstance(self.data.structure, read):
            raise ValueError(
                f"model.conv {self.model.conv} needs structural information; set "
                f"data.structure, for example to {example}"
            )
        if self.training.references and self.model.name in ESTIMATORS:
            raise ValueError(
                f"training.references is for networks; model.name {self.model.name} is "
                f"an estimator"
            )
        processes = self.compute.devices * self.compute.nodes
        if self.training.batch_size % processes:
            raise ValueError(
                f"training.batch_size {self.training.batch_size} cannot be divided "
                f"evenly among {processes} processes"
            )
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds {self.seeds} contains a duplicate")
        return self

    def load_data(self, labelled: bool = True, progress: bool = True) -> GraphDataset:
        """Load the data set, with the descriptors that the model uses."""
        return self.data.load(labelled, progress, self.model.descriptors or ())

    def changed(self, **sections: Mapping[str, Any] | Any) -> "Config":
        """A copy with some values changed: ``changed(model={"s": 4}, seeds=[1])``."""
        values = self.model_dump()
        for name, new in sections.items():
            values[name] = {**values[name], **new} if isinstance(new, Mapping) else new
        return parse(values)

    def text(self, every_key: bool = False) -> str:
        """The configuration as YAML, with all defaults; ``every_key`` includes None."""
        values = self.model_dump(mode="json", exclude_none=not every_key)
        return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)

    def determining(self) -> dict[str, Any]:
        """The values that determine the result of a run, besides the content of its
        data."""
        # Without None, so that new options do not change the ids of old runs.
        values = self.model_dump(
            mode="json",
            exclude_none=True,
            exclude={"compute": True, "runs": True, "data": True},
        )
        values["data"] = self.data.determining()
        values["split"].pop("folder", None)  # its content is hashed, see `Identity`
        if self.training.start is not None:
            values["training"]["start"] = content_digest(self.training.start)
        if self.schedule.name in ("constant", "step"):
            del values["training"]["epochs"]  # training longer continues the same run
        return values

    @property
    def digest(self) -> str:
        """A hash of :meth:`determining`."""
        return digest_of(self.determining())

    @property
    def experiment_digest(self) -> str:
        """A hash that is the same for all seeds and folds of an experiment."""
        values = self.determining()
        values["split"].pop("fold", None)
        del values["seeds"]
        return digest_of(values)


def digest_of(values: Any) -> str:
    """A hash of a JSON-serialisable value."""
    text = json.dumps(values, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def load_config(file: str | Path, changes: Iterable[str] = ()) -> Config:
    """Read a configuration.

    Args:
        file: A YAML file.
        changes: ``section.key=value``, with the value in YAML.
    """
    try:
        text = Path(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"there is no file {str(file)!r}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {str(file)!r}: {error}") from None
    values = change_values(read_values(text, str(file)), changes)
    try:
        return parse(values)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None


def parse(values: Any) -> Config:
    """Check values and fill in defaults; errors name the key."""
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError("; ".join(_complaints(error))) from None


def read_values(text: str, name: str) -> dict[str, Any]:
    """The unchecked values of a YAML text; ``name`` is for messages."""
    try:
        values = parse_yaml(text)
    except ValueError as error:
        raise ConfigError(f"{name} is not valid YAML: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{name} does not contain keys and values")
    return values


def change_values(values: dict[str, Any], changes: Iterable[str]) -> dict[str, Any]:
    """Values with ``section.key=value`` applied, the value in YAML."""
    for change in changes:
        _apply(values, change)
    return values


def _apply(values: dict[str, Any], change: str) -> None:
    path, sign, text = change.partition("=")
    if not sign:
        raise ConfigError(f"a change must be key=value, got {change!r}")
    *sections, key = path.strip().split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise ConfigError(f"{change!r}: {section!r} is not a section")
    try:
        values[key] = parse_yaml(text)
    except ValueError:
        raise ConfigError(f"{change!r}: {text!r} is not valid YAML") from None


def _complaints(error: ValidationError) -> Iterator[str]:
    for entry in error.errors():
        path, model = _place_of(entry["loc"])
        key = ".".join(path)
        if entry["type"] == "extra_forbidden":
            known = [name for name in model.model_fields if name != "kind"]
            hint = nearest(path[-1], known)
            value = json.dumps(entry["input"], default=str)
            yield (
                f"there is no key {key!r} (with value {value})"
                f"{hint or ', only ' + ', '.join(known)}"
            )
        elif entry["type"] == "missing":
            yield f"the key {key!r} is missing"
        elif entry["type"] == "union_tag_not_found":
            yield f"the key '{key}.name' is missing"
        else:
            message = entry["msg"].removeprefix("Value error, ")
            where = f"{key} = {entry['input']!r}: " if len(path) > 1 or key else ""
            yield (message if isinstance(entry["input"], dict) else where + message)


def _place_of(location: Iterable[Any]) -> tuple[list[str], Any]:
    """The keys that lead to a value, and the section that it is or would be in.

    A union reports which of its members was tried; that is not a key.
    """
    path: list[str] = []
    model: Any = Config
    section = model
    for part in map(str, location):
        members = {name: m for m in _models_in(model) for name in _tags(m)}
        if part in members:
            model = section = members[part]
            continue
        if path and not hasattr(model, "model_fields"):
            continue
        path.append(part)
        section = model
        field = getattr(model, "model_fields", {}).get(part)
        found = _models_in(field.annotation) if field is not None else []
        model = found[0] if len(found) == 1 else getattr(field, "annotation", None)
    return path, section


def _models_in(kind: Any) -> list[type[BaseModel]]:
    """The sections that a value of this type may be."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [kind]
    return [model for part in get_args(kind) for model in _models_in(part)]


def _tags(model: type[BaseModel]) -> list[str]:
    """The values of the key that selects a section among alternatives."""
    if issubclass(model, Source):
        return [model.model_fields["kind"].default]
    return [model.__name__]


class DocumentedKey(NamedTuple):
    """A key of a configuration, its default in YAML, and its meaning."""

    key: str
    default: str
    meaning: str


def documented_keys() -> list[DocumentedKey]:
    """All keys of a configuration."""
    found: list[DocumentedKey] = []
    for name, field in Config.model_fields.items():
        sections = _models_in(field.annotation)
        if not sections:
            meaning = Config.documentation()[name]
            found.append(DocumentedKey(name, _shown(field), meaning))
        kinds: dict[DocumentedKey, list[str]] = {}
        for section in sections:
            for entry in _documented(section, name):
                kinds.setdefault(entry, []).extend(_tags(section))
        for entry, tags in kinds.items():
            # An option that only some sources have names these.
            some = f"{', '.join(tags)}: " if len(tags) < len(sections) and tags else ""
            found.append(entry._replace(meaning=some + entry.meaning))
    return found


def _documented(section: Any, where: str) -> Iterator[DocumentedKey]:
    for name, field in section.model_fields.items():
        if name == "kind" and issubclass(section, Source):  # derived from the name
            continue
        meaning = section.documentation()[name]
        yield DocumentedKey(f"{where}.{name}", _shown(field), meaning)
        for inner in _models_in(field.annotation):
            yield from _documented(inner, f"{where}.{name}")


def _shown(field: Any) -> str:
    if field.is_required():
        return "(needed)"
    default = field.get_default(call_default_factory=True)
    return "" if default is None else yaml_value(default)


def yaml_value(value: Any) -> str:
    """A value in YAML syntax."""
    plain = str(value) if isinstance(value, Path) else value
    return yaml.safe_dump(plain, default_flow_style=True).removesuffix("...\n").strip()
