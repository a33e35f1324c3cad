"""Python sources as graphs: predict the name of a function, as in ogbg-code2.

Each function is converted to its syntax tree. A node has a type (the class of the tree
node), an attribute (its identifier or constant, if any) and a depth. The target is the
function's name as a sequence of words; the name is masked wherever it occurs in the
function.
"""

import ast
import importlib.util
import re
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import field_validator

from fullrank.data.cache import data_root, prepared, shown
from fullrank.data.dataset import Description, GraphDataset, Target
from fullrank.data.files import files_digest
from fullrank.data.packed.graphs import Field, PackedGraphs, Part, offsets, text_arrays
from fullrank.data.sources import tokens
from fullrank.data.sources.base import Source, absolute
from fullrank.data.splits import grouped_split
from fullrank.errors import DataError

STANDARD_LIBRARY = "python-stdlib"
MASK = "_mask_"
NODE_TYPES = tuple(
    sorted(
        name
        for name, kind in vars(ast).items()
        if isinstance(kind, type)
        and issubclass(kind, ast.AST)
        and not issubclass(kind, ast.expr_context)
    )
)
NUM_ATTRIBUTES = 10_000
_LONGEST_ATTRIBUTE = 80
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_TYPE_IDS = {name: i for i, name in enumerate(NODE_TYPES)}


class PythonCodeSource(Source):
    """The functions of a folder of Python sources.

    Projects, that is, its top-level folders and modules, are never split between
    training and test.

    Attributes:
        name: The path of the folder, an installed package by name, or
            ``python-stdlib``.
    """

    kind: Literal["python_code"] = "python_code"

    @field_validator("name")
    @classmethod
    def _found_from_everywhere(cls, name: str) -> str:
        by_name = name in cls.known_names() or (
            name.isidentifier() and not Path(name).is_dir()
        )
        return name if by_name else str(absolute(name))

    @classmethod
    def known_names(cls) -> dict[str, str]:
        about = "function names in Python's standard library"
        return {STANDARD_LIBRARY: about}

    @classmethod
    def reads(cls, path: Path) -> bool:
        return any(path.rglob("*.py"))

    @property
    def is_path(self) -> bool:
        return Path(self.name).is_absolute()

    def _load(self, labelled: bool, progress: bool) -> GraphDataset:
        folder = _folder(self.name)
        files = sorted(
            file
            for file in folder.rglob("*.py")
            if file.is_file()
            and not {"site-packages", "__pycache__"}
            & set(file.relative_to(folder).parts)
        )

        def prepare(target: Path) -> None:
            skipped: list[list[str]] = []
            tracked = shown(files, len(files), f"Python in {folder.name}", progress)
            functions = list(_functions(tracked, folder, skipped))
            if not functions:
                raise DataError(f"{folder} contains no Python functions")
            _pack(functions, folder.name, skipped).save(target)

        digest = files_digest(folder, files)[:12]
        name = f"python-{folder.name}-{digest}"
        graphs = prepared(data_root(self.root) / name, prepare)
        return GraphDataset.described(graphs, source=str(folder))


def python_code(
    source: str | Path, root: str | Path | None = None, progress: bool = True
) -> GraphDataset:
    """The functions of a folder of Python sources, or of an installed package."""
    options = PythonCodeSource.checked(str(source), name=str(source), root=root)
    return options.load(progress=progress)


def words_of(name: str) -> list[str]:
    """The sub-tokens of an identifier: ``get_HTTPCode2`` is get, http, code, 2."""
    return [word.lower() for word in _WORD.findall(name)]


@dataclass
class Function:
    """The syntax tree of a function in depth-first order."""

    project: str
    name: str
    types: list[int]
    attributes: list[str | None]
    depths: list[int]
    parents: list[int]


def function_tree(
    function: ast.FunctionDef | ast.AsyncFunctionDef, project: str = ""
) -> Function:
    """The syntax tree of a function, with the function's name masked."""
    own_name = re.compile(rf"(?<!\w){re.escape(function.name)}(?!\w)")
    tree = Function(project, function.name, [], [], [], [])
    waiting: list[tuple[ast.AST, int, int]] = [(function, 0, -1)]
    while waiting:
        node, depth, parent = waiting.pop()
        here = len(tree.types)
        text = _attribute(node)
        tree.types.append(_TYPE_IDS[type(node).__name__])
        if text and function.name in text:
            text = own_name.sub(MASK, text)
        tree.attributes.append(text and text[:_LONGEST_ATTRIBUTE])
        tree.depths.append(depth)
        tree.parents.append(parent)
        children = [
            child
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, ast.expr_context)
        ]
        waiting += [(child, depth + 1, here) for child in reversed(children)]
    return tree


def _attribute(node: ast.AST) -> str | None:
    """The identifier or constant of a node as text."""
    if isinstance(node, ast.Constant):
        try:
            return repr(node.value)
        except ValueError:  # an integer with more digits than Python converts
            return format(node.value, "#x")
    if isinstance(node, ast.Global | ast.Nonlocal):
        return " ".join(node.names)
    if isinstance(node, ast.alias):
        return f"{node.name} {node.asname or ''}".strip()
    for field in ("id", "attr", "arg", "name", "module"):
        value = getattr(node, field, None)
        if isinstance(value, str):
            return value
    return None


def _folder(name: str) -> Path:
    if name == STANDARD_LIBRARY:
        return Path(sysconfig.get_paths()["stdlib"])
    if Path(name).is_dir():
        return Path(name)
    importable = name.isidentifier() and name != "__main__"
    spec = importlib.util.find_spec(name) if importable else None
    if spec is None or not spec.submodule_search_locations:
        raise DataError(f"{name!r} is neither a folder nor an installed package")
    return Path(spec.submodule_search_locations[0])


def _functions(
    files: Iterator[Path], folder: Path, skipped: list[list[str]]
) -> Iterator[Function]:
    for file in files:
        inside = file.relative_to(folder)
        try:
            with warnings.catch_warnings(action="ignore"):
                module = ast.parse(file.read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
            skipped.append([str(inside), str(error)])
            continue
        project = inside.parts[0].removesuffix(".py")
        for node in ast.walk(module):
            special = isinstance(node, _FUNCTIONS) and node.name.startswith("__")
            if isinstance(node, _FUNCTIONS) and words_of(node.name) and not special:
                yield function_tree(node, project)


def _pack(
    functions: Sequence[Function], name: str, skipped: list[list[str]]
) -> PackedGraphs:
    how = {"kind": "by project"}
    split = grouped_split([f.project for f in functions], (0.8, 0.1, 0.1), how)
    part = np.zeros(len(functions), dtype=np.uint8)
    part[split.valid], part[split.test] = 1, 2
    training = [functions[i] for i in split.train]

    words = [words_of(function.name) for function in functions]
    vocabulary = tokens.vocabulary_of(words[i] for i in split.train)
    counts = Counter(a for f in training for a in f.attributes if a is not None)
    attributes = {a: i for i, (a, _) in enumerate(counts.most_common(NUM_ATTRIBUTES))}
    unknown, nothing = len(attributes), len(attributes) + 1

    num_nodes = np.array([len(function.types) for function in functions])
    first_node = np.repeat(offsets(num_nodes)[:-1], num_nodes)
    ids = [
        nothing if a is None else attributes.get(a, unknown)
        for f in functions
        for a in f.attributes
    ]
    x = np.stack(
        [
            [kind for f in functions for kind in f.types],
            ids,
            np.minimum([d for f in functions for d in f.depths], tokens.LARGEST_DEPTH),
        ],
        axis=1,
    ).astype(np.int32)
    parents = np.array([parent for f in functions for parent in f.parents])
    nodes = np.arange(len(parents))
    tree = np.stack([parents + first_node, nodes])[:, parents >= 0]
    edges, kinds = tokens.code_edges(
        tree, x[:, 1] != nothing, nodes, np.repeat(np.arange(len(functions)), num_nodes)
    )
    description = Description(
        name=name,
        task="tokens",
        targets=(Target("name"),),
        node_features=tokens.node_features(len(NODE_TYPES), len(attributes) + 2),
        edge_features=tokens.EDGE_FEATURES,
        metric="f1",
        default_split="given",
        num_classes=len(vocabulary) + 2,
        num_tokens=tokens.NUM_TOKENS,
        vocabulary=vocabulary,
        notes={"skipped": skipped, "projects": sorted({f.project for f in functions})},
    )
    arrays = {
        "node.x": x,
        "edge.attr": kinds,
        "graph.y": tokens.encode_names(words, vocabulary),
        "graph.split": part,
        **text_arrays("name", [" ".join(name) for name in words]),
        **text_arrays("project", [function.project for function in functions]),
    }
    fields = {
        "x": Field((Part("node.x"),), "int64"),
        "edge_attr": Field((Part("edge.attr"),)),
        "y": Field((Part("graph.y"),), "int64"),
    }
    return PackedGraphs.pack(num_nodes, edges, arrays, fields, description.to_json())
