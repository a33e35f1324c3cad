"""Pages that are generated from the program itself: commands, keys, data sets."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STATISTICS = HERE / "datasets.json"

#: Where the objects of each inventory in ``inventories`` are documented.
INVENTORIES = {
    "torch_geometric": "https://pytorch-geometric.readthedocs.io/en/latest/",
    "torch": "https://docs.pytorch.org/docs/stable/",
    "python": "https://docs.python.org/3/",
    "numpy": "https://numpy.org/doc/stable/",
    "pandas": "https://pandas.pydata.org/docs/",
    "networkx": "https://networkx.org/documentation/stable/",
}

#: Names in signatures that have no page: those of packages without an inventory,
#: aliases of types, and bases that are not public.
NITPICK_IGNORE = [
    (r"py:.*", r"(pydantic|annotated_types|lightning|sklearn|rdkit|optuna|rich)\..*"),
    (r"py:.*", r"numpy\._typing\..*|numpy\.\w*int\d*|numpy\.float\d+|npt\..*"),
    (r"py:.*", r"(Chem\.Mol|nx\.Graph|pd\.DataFrame|Data|Batch|NoneType|FieldInfo)"),
    (r"py:.*", r"torch_geometric\.(typing\.|data\.data\.BaseData).*|torch\._C\..*"),
    (r"py:.*", r"fullrank\.(.*\.)?_\w+"),
    (r"py:class", r"fullrank\.(data|nn|lab|train)\.(\w+\.)+[A-Z]\w+"),
    (r"py:.*", r".*\.Annotated|Explanation|(.*Mapping|dict)\[str"),
    (r"py:.*", r"fullrank\.data\.sources\.base\.absolute|fullrank\.nn\.kernels"),
    (r"py:(func|attr)", r"rook_graph|shrikhande_graph|num_aggregators"),
]

#: Stands above the table that ``fullrank expressiveness`` writes.
EXPRESSIVENESS = (
    "Pairs of graphs that untrained networks distinguish. "
    "[Beyond 1-WL](../beyond-1wl.md) explains the rows, the protocol and where the "
    "graphs come from."
)

Row = tuple[str, ...]


def write(folder: Path) -> None:
    """Write all pages; those that are up to date are not touched."""
    pages = dict(_all_pages())
    for name, text in pages.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text("utf-8") != text:
            file.write_text(text, "utf-8")
    for part in ("commands", "datasets"):
        for file in (folder / part).glob("*.md"):
            if f"{part}/{file.name}" not in pages:
                file.unlink()


def _all_pages() -> Iterator[tuple[str, str]]:
    yield from _commands()
    yield "keys.md", _keys()
    yield from _datasets()


def _table(heads: Row, rows: Iterable[Row]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for row in rows:
        cells = (" ".join(cell.split()).replace("|", "\\|") for cell in row)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _toctree(names: Iterable[str], title: str = "", depth: int = 1) -> str:
    options = [f":maxdepth: {depth}", *([f":caption: {title}"] if title else [])]
    return "\n".join(["```{toctree}", *options, "", *names, "```", ""])


# Commands, as ``fullrank NAME --help`` describes them.


def _commands() -> Iterator[tuple[str, str]]:
    import typer

    from fullrank.cli.main import VERBS, app

    group: Any = typer.main.get_command(app)
    context = typer.Context(group, info_name="fullrank")
    for verb in VERBS:
        yield f"commands/{verb}.md", _command_page(group, context, verb)
    yield (
        "commands/index.md",
        "# Commands\n\n"
        "Each page is generated from the help of its command: "
        "`fullrank COMMAND --help` prints the same. `fullrank --version` prints the "
        "version, and `fullrank --debug COMMAND` shows the traceback of an error.\n\n"
        + _table(
            ("command", "what it does"),
            ((f"[{verb}]({verb}.md)", about) for verb, about in VERBS.items()),
        )
        + "\n\n```{toctree}\n:hidden:\n\n"
        + "\n".join(VERBS)
        + "\n```\n",
    )


def _command_page(group: Any, context: Any, verb: str) -> str:
    command = group.get_command(context, verb)
    inner = type(context)(command, info_name=verb, parent=context)
    text = f"# fullrank {verb}\n\n"
    if not hasattr(command, "list_commands"):
        return text + _command(command, inner)
    text += _prose(command.help) + "\n\n"
    for name in command.list_commands(inner):
        part = command.get_command(inner, name)
        deeper = type(context)(part, info_name=name, parent=inner)
        text += f"## fullrank {verb} {name}\n\n{_command(part, deeper)}\n\n"
    return text


def _command(command: Any, context: Any) -> str:
    usage = command.get_usage(context).removeprefix("Usage: ")
    text = f"{_prose(command.help)}\n\n```text\n{' '.join(usage.split())}\n```\n"
    arguments, options = [], []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if parameter.param_type_name == "argument":
            name = record[0] if record else parameter.name.upper()
            name = name.split(" <")[0].strip("[]")
            arguments.append((f"`{name}`", _plain(parameter.help or "")))
        elif record:
            options.append((f"`{record[0]}`", _plain(record[1])))
    if arguments:
        text += "\n" + _table(("argument", "meaning"), arguments) + "\n"
    return text + "\n" + _table(("option", "meaning"), options)


def _prose(help_text: str | None) -> str:
    parts = (help_text or "").replace("\b", "").split("\n\n")
    return "\n\n".join(_plain(" ".join(part.split())) for part in parts)


def _plain(text: str) -> str:
    """Help as Markdown: options and code keep their signs."""
    parts = text.split("`")
    for i in range(0, len(parts), 2):  # outside of code
        words = parts[i].replace("<", "&lt;").replace("*", "\\*")
        parts[i] = re.sub(r"(?<![\w-])--[a-z][\w-]*", r"`\g<0>`", words)
    return "`".join(parts)


# Keys of a configuration.


def _keys() -> str:
    from fullrank.train.config import documented_keys

    sections: dict[str, list[Row]] = {"data": []}
    for key, default, meaning in documented_keys():
        section = key.split(".")[0]
        source, colon, rest = meaning.partition(": ")
        known = (
            colon
            and section == "data"
            and all(map(str.isidentifier, source.split(", ")))
        )
        if known:
            for kind in source.split(", "):
                sections.setdefault(f"data: {kind}", []).append(
                    _key(key, default, rest)
                )
        else:
            where = section if "." in key else "the experiment"
            sections.setdefault(where, []).append(_key(key, default, meaning))
    text = (
        "# All keys of a configuration\n\n"
        "Generated from the classes that check a configuration; "
        "`fullrank train --keys` prints the same. Keys without a default are `null` "
        "unless given. `fullrank train TABLE --target COLUMN --print-config` shows "
        "their values, and `--set KEY=VALUE` changes one.\n"
    )
    for section, rows in sections.items():
        text += (
            f"\n## {_title(section)}\n\n{_table(('key', 'default', 'meaning'), rows)}\n"
        )
    return text


def _key(key: str, default: str, meaning: str) -> Row:
    shown = f"`{default}`" if default and default[0] != "(" else default
    return f"`{key}`", shown, meaning.replace("``", "`")


_KINDS = {
    "qm9": "QM9",
    "tu": "a set of the TU collection",
    "ogb": "a set of the Open Graph Benchmark",
    "csv": "a table of molecules",
    "tu_folder": "a folder in TU layout",
    "python_code": "Python sources",
}


def _title(section: str) -> str:
    if section == "data":
        return "data, for every source"
    kind = section.removeprefix("data: ")
    return f"data, for {_KINDS[kind]}" if kind in _KINDS else section


# Data sets.


def _datasets() -> Iterator[tuple[str, str]]:
    from fullrank.data.sources import known_names

    record = json.loads(STATISTICS.read_text("utf-8"))
    counted = record["sets"]
    used = _columns()
    names = known_names()
    for name, about in names.items():
        yield f"datasets/{name}.md", _dataset(name, about, counted.get(name), used)
    rows = [
        (
            f"[{name}]({name}.md)",
            about,
            *(
                (
                    f"{found['graphs']:,}",
                    f"{found['nodes']:.1f}",
                    f"{found['edges']:.1f}",
                )
                if (found := counted.get(name))
                else ("", "", "")
            ),
        )
        for name, about in names.items()
    ]
    heads = ("name", "what it is", "graphs", "mean nodes", "mean edges")
    yield (
        "datasets/index.md",
        "# Data sets\n\n"
        "The sets that are known by name, as `fullrank data list` prints them. Any "
        "other set of the TU collection, tables of molecules, folders of graphs and "
        "folders of Python code can be used as well ({doc}`/data`). Numbers are those "
        "of `fullrank data describe`, at commit "
        f"`{record['commit']}`; sets without numbers were not at hand.\n\n"
        + _table(heads, rows)
        + "\n\n```{toctree}\n:hidden:\n\n"
        + "\n".join(names)
        + "\n```\n",
    )


def _columns() -> dict[str, list[str]]:
    """The tables of the paper, and of ours, in which a data set is a column."""
    from fullrank.paper.cells import load_table
    from fullrank.paper.ready import table_names

    found: dict[str, list[str]] = {}
    for table in table_names():
        for column in load_table(table).columns:
            tables = found.setdefault(column.split("/")[0], [])
            if table not in tables:
                tables.append(table)
    return found


def _dataset(name: str, about: str, found: Any, used: dict[str, list[str]]) -> str:
    text = f"# {name}\n\n{about[:1].upper()}{about[1:]}.\n\n"
    text += _where(name)
    if found is None:
        text += (
            "\nThis set was not at hand when the site was made: "
            f"`fullrank data describe {name}` prints its numbers.\n"
        )
    else:
        text += "\n## Statistics\n\n" + _table(("", ""), _facts(found)) + "\n"
        if found.get("targets"):
            heads = ("target", "unit", "mean", "std", "min", "max", "missing")
            text += "\n" + _table(heads, (_target(t) for t in found["targets"])) + "\n"
    text += "\n## Split and protocol\n\n" + _protocol(name) + "\n"
    text += f"\n## Commands\n\n```bash\nfullrank data prepare {name}\n"
    text += f"fullrank data describe {name}\n"
    ready = [config for config in _ready() if config.split("/")[-1] == name]
    text += "".join(f"fullrank train {config}\n" for config in ready)
    for table in used.get(name, ()):
        only = "" if name == "qm9" else f" --only {name}"
        text += f"fullrank reproduce {table}{only} --dry-run\n"
    text += "```\n\nThe options of the source are keys of a "
    return text + "{doc}`configuration </generated/keys>`.\n"


def _ready() -> list[str]:
    from fullrank.paper.ready import ready_configs

    return list(ready_configs())


def _where(name: str) -> str:
    if name == "qm9":
        return (
            "The data come from the PyPI package `qm9pack` (MIT licence), installed by "
            "`pip install 'fullrank[chem]'`; nothing is downloaded. {doc}`/data` says "
            "how atoms and coordinates are matched.\n"
        )
    if name.startswith("ogbg-"):
        return (
            "Downloaded from the Open Graph Benchmark, or read from a mirror "
            "(`--mirror`, `$FULLRANK_MIRROR`) or an unpacked folder (`--folder`). "
            "Needs `pip install 'fullrank[ogb]'`.\n"
        )
    if name.startswith("python"):
        return (
            "Made from the sources of the running Python, so its size depends on the "
            "version of Python. {doc}`/data` says how.\n"
        )
    return (
        "Downloaded from the TU collection, or read from `NAME.zip` or `NAME/` in a "
        "mirror (`--mirror`, `$FULLRANK_MIRROR`).\n"
    )


def _facts(found: Any) -> Iterator[Row]:
    kind = "undirected" if found["undirected"] else "directed"
    loops = f", {found['self_loops']:,} self-loops" if found["self_loops"] else ""
    yield "graphs", f"{found['graphs']:,}"
    yield "nodes per graph", f"{found['nodes']:.2f} (at most {found['largest']:,})"
    yield "edges per graph", f"{found['edges']:.2f} ({kind}{loops})"
    yield "mean degree", f"{found['degree']:.2f} (at most {found['largest_degree']:,})"
    yield "node features", found["node_features"]
    yield "edge features", found["edge_features"]
    yield "task", f"{found['task']}, measured by {found['metric']}"
    if found["classes"]:
        yield "graphs per class", ", ".join(f"{count:,}" for count in found["classes"])


def _target(target: Any) -> Row:
    numbers = (f"{target[k]:.5g}" for k in ("mean", "std", "smallest", "largest"))
    return (target["name"], target["unit"], *numbers, f"{target['missing']:,}")


def _protocol(name: str) -> str:
    if name == "qm9":
        return (
            "80% of the molecules for training, 10% for validation, 10% for testing, "
            "at random with `split.seed`. Targets are standardised with the mean and "
            "standard deviation of the training part; errors are in the units above."
        )
    if name.startswith("ogbg-"):
        return "The split of OGB, scored with OGB's evaluator."
    if name.startswith("python"):
        return (
            "Top-level folders and modules are never divided between the parts. The "
            "score is the F1 of the words of a name."
        )
    return (
        "Ten stratified folds, or those of Zhang et al. from their files "
        "(`split.folder`). `split.kind: gin` reports the epoch with the best mean "
        "*test* curve, as GIN and the paper do; `fair` chooses the epoch of each fold "
        "on a tenth of its training graphs. Results of the two are not comparable."
    )
