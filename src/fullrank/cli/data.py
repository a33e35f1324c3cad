"""``fullrank data``: list, prepare, describe, write and verify data sets."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fullrank.cli.options import writable
from fullrank.data import DataError, GraphDataset, known_names, source
from fullrank.data.cache import data_root, prepared_sets
from fullrank.data.features import Features
from fullrank.data.packed.storage import HEADER
from fullrank.data.packed.storage import verify as verify_folder
from fullrank.data.sources import SOURCES
from fullrank.data.tables import is_table
from fullrank.errors import nearest

if TYPE_CHECKING:
    from fullrank.data.statistics import TargetStatistics

app = typer.Typer(no_args_is_help=True, add_completion=False)
console = Console()

_NAME = typer.Argument(
    help="The name of a data set, a table of molecules, a folder in TU layout, or a "
    "folder of Python sources."
)
_ROOT = typer.Option(
    None, "--root", help="Folder of prepared sets; the user's cache by default."
)
_BAR = 40


@app.command("list")
def list_sets(root: Path | None = _ROOT) -> None:
    """List the known data sets and those that are prepared."""
    home = data_root(root)
    here = prepared_sets(home)
    table = Table("name", "about", "prepared", box=None, pad_edge=False)
    for name, about in known_names().items():
        table.add_row(name, about, _size(here.pop(name, [])))
    for name, folders in here.items():
        table.add_row(escape(name), "prepared here", _size(folders))
    console.print(table)
    _print(f"\nPrepared sets are in {home}")


# Not options: the name is an argument, and the others are nested.
_HIDDEN = ("kind", "name", "structure", "units")


def _options() -> Iterator[inspect.Parameter]:
    """A command-line option for each option of any source."""
    found: dict[str, list[type]] = {}
    for kind in SOURCES:
        for option in kind.model_fields:
            found.setdefault(option, []).append(kind)
    for option, kinds in found.items():
        if option not in _HIDDEN:
            yield _parameter(option, kinds)


def _parameter(option: str, kinds: list[Any]) -> inspect.Parameter:
    field = kinds[0].model_fields[option]
    about = kinds[0].documentation()[option].replace("``", "")
    if len(kinds) < len(SOURCES):
        names = [kind.model_fields["kind"].default for kind in kinds]
        about = f"{', '.join(names)}: {about}"
    flags = [f"--{option.replace('_', '-')}"]
    plain: Any = str  # the source checks the value
    if field.annotation is bool:
        plain = bool
        if field.default:
            flags = [f"{flags[0]}/--no-{option}"]
    elif any(get_origin(kind) is list for kind in get_args(field.annotation)):
        plain = list[str]
        flags.insert(0, flags[0].removesuffix("s"))
    return inspect.Parameter(
        option,
        inspect.Parameter.KEYWORD_ONLY,
        default=typer.Option(None, *flags, help=about),
        annotation=plain | None,
    )


def _of_a_dataset(show: Callable[..., None]) -> None:
    """Create a command that loads a data set, with the options of all sources and
    those that the function has itself."""
    _, *own = inspect.signature(show).parameters.values()

    def command(name: str, **options: Any) -> None:
        others = {parameter.name: options.pop(parameter.name) for parameter in own}
        given = {k: v for k, v in options.items() if v is not None and v != []}
        show(source(name, **given).load(), **others)

    first = inspect.Parameter(
        "name", inspect.Parameter.KEYWORD_ONLY, default=_NAME, annotation=str
    )
    keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    parameters = [first, *keywords, *_options()]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    app.command(show.__name__, help=show.__doc__)(command)


@_of_a_dataset
def prepare(dataset: GraphDataset) -> None:
    """Download a data set if necessary, and prepare it."""
    _print(f"{dataset.name}: {len(dataset):,} graphs")
    _print_notes(dataset)


@_of_a_dataset
def describe(dataset: GraphDataset) -> None:
    """Print statistics of graphs, nodes, edges, degrees and targets."""
    from fullrank.data.statistics import statistics

    found = statistics(dataset)
    kind = "undirected" if found.undirected else "directed"
    loops = f", {found.self_loops:,} self-loops" if found.self_loops else ""
    facts = Table(box=None, show_header=False, pad_edge=False)
    for fact, value in (
        ("name", dataset.name),
        ("source", dataset.source),
        ("task", f"{dataset.task}, measured by {dataset.metric}"),
        ("graphs", f"{found.num_graphs:,}"),
        ("mean nodes", f"{found.mean_nodes:.2f}"),
        ("mean edges", f"{found.mean_edges:.2f} ({kind}{loops})"),
        ("node features", _features(dataset.node_features)),
        ("edge features", _features(dataset.edge_features)),
        ("split", dataset.default_split),
    ):
        facts.add_row(fact, escape(value))
    console.print(facts)
    _print_histogram("nodes per graph", *_binned(found.sizes))
    degrees = np.repeat(np.arange(len(found.degrees)), found.degrees)
    _print_histogram("node degree", *_binned(degrees))
    if found.class_counts is not None:
        names = dataset.classes or map(str, range(len(found.class_counts)))
        _print_histogram("class", list(names), found.class_counts)
    if dataset.task == "tokens":
        words = list(dataset.vocabulary[:10])
        counts = np.bincount(dataset.labels.reshape(-1), minlength=len(words))
        _print_histogram("word", words, counts[: len(words)])
    _print_targets(found.targets)
    _print_notes(dataset)


@_of_a_dataset
def table(
    dataset: GraphDataset,
    output: Path = typer.Option(
        ..., "--output", "-o", callback=writable, help="The CSV file to write."
    ),
    columns: str | None = typer.Option(
        None, help="Names of the target columns, separated by commas."
    ),
) -> None:
    """Write molecules, targets and split of a set as a table."""
    from fullrank.data.molecule_table import write_molecule_table

    names = None if columns is None else [name.strip() for name in columns.split(",")]
    write_molecule_table(dataset, output, names)
    _print(f"{dataset.name}: {len(dataset):,} rows in {output}")


@app.command()
def verify(name: str = _NAME, root: Path | None = _ROOT) -> None:
    """Compare the files of a prepared set with their checksums."""
    home = data_root(root)
    here = prepared_sets(home)
    path = Path(name)
    known = path.stem if is_table(path) else path.name
    folders = here.get(known) or [
        folder for folder in (path, home / name) if (folder / HEADER).exists()
    ]
    if not folders:
        raise DataError(
            f"{name!r} is not prepared in {home}{nearest(name, here)}; run "
            f"`fullrank data prepare {name}` first"
        )
    for folder in folders:
        size = verify_folder(folder)
        _print(f"{folder}: {size / 1e6:,.1f} MB, unchanged")


def _print(line: str) -> None:
    """Print a line in which names may look like Rich markup."""
    console.print(line, markup=False, highlight=False)


def _size(folders: Iterable[Path]) -> str:
    size = sum(file.stat().st_size for folder in folders for file in folder.iterdir())
    return f"{size / 1e6:,.1f} MB" if size else "-"


def _features(features: Features) -> str:
    if features.kind == "none":
        return "none"
    shown = ", ".join(features.names[:12])
    more = f", … ({features.dim} in total)" if features.dim > 12 else ""
    return f"{features.dim} {features.kind}: {shown}{more}"


def _binned(values: np.ndarray, bins: int = 10) -> tuple[list[str], np.ndarray]:
    """Ranges of integers, and the number of values in each.

    The ranges have equal widths, or double in width if most values are far below the
    maximum.
    """
    low, high = int(values.min()), int(values.max())
    if high - low > bins * (np.median(values) - low + 1):
        starts = low + np.array([0, *2 ** np.arange((high - low).bit_length())])
    else:
        starts = np.arange(low, high + 1, -(-(high - low + 1) // bins))
    found = np.searchsorted(starts, values, side="right") - 1
    ends = [*(starts[1:] - 1), high]
    labels = [
        str(s) if s == e else f"{s}–{e}" for s, e in zip(starts, ends, strict=True)
    ]
    return labels, np.bincount(found, minlength=len(starts))


def _print_histogram(title: str, labels: list[str], counts: np.ndarray) -> None:
    table = Table(title, "", "count", box=None, pad_edge=False)
    table.columns[2].justify = "right"
    for label, count in zip(labels, counts.tolist(), strict=True):
        eighths = round(8 * _BAR * count / max(counts.max(), 1))
        bar = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
        table.add_row(escape(label), bar, f"{count:,}")
    console.print()
    console.print(table)


def _print_targets(targets: "tuple[TargetStatistics, ...]") -> None:
    if not targets:
        return
    table = Table("target", "unit", box=None, pad_edge=False)
    for heading in ("mean", "std", "min", "max", "missing"):
        table.add_column(heading, justify="right")
    for target in targets:
        numbers = (target.mean, target.std, target.smallest, target.largest)
        table.add_row(
            escape(target.name),
            target.unit,
            *(f"{number:.5g}" for number in numbers),
            f"{target.missing:,}",
        )
    console.print()
    console.print(table)


def _print_notes(dataset: GraphDataset) -> None:
    """Print the number of notes of each kind, and the first few of them."""
    for kind, found in (dataset.notes or {}).items():
        if isinstance(found, list) and found:
            some = ", ".join(_note(item) for item in found[:5])
            more = ", …" if len(found) > 5 else ""
            _print(f"{kind}: {len(found):,} ({some}{more})")
        elif not isinstance(found, list):
            _print(f"{kind}: {found:,}")


def _note(item: Any) -> str:
    if isinstance(item, dict):
        return f"row {item['row']}: {item['reason']}"
    return ": ".join(map(str, item)) if isinstance(item, list) else str(item)
