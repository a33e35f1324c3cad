"""Write the inventories of other projects that the API pages refer to.

    python docs/_site/make_inventories.py

The names are read from the installed packages; the addresses follow the patterns of
each project's site, so that neither this nor building the site needs a network.
"""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import sphobjinv

FOLDER = Path(__file__).parent / "inventories"
Entry = tuple[str, str, str]  # name, role, address

#: Modules whose classes and functions have the pages ``generated/NAME.html``.
GENERATED = {
    "torch_geometric": [
        "torch_geometric.data",
        "torch_geometric.loader",
        "torch_geometric.nn.aggr",
        "torch_geometric.nn.conv",
        "torch_geometric.nn.models",
        "torch_geometric.nn.norm",
        "torch_geometric.nn.pool",
        "torch_geometric.transforms",
        "torch_geometric.explain",
    ],
    "torch": ["torch.nn", "torch.nn.functional", "torch.optim"],
}
#: Others, with the address of each.
SINGLE: dict[str, list[Entry]] = {
    "torch": [
        ("torch.Tensor", "class", "tensors.html#torch.Tensor"),
        ("torch.device", "class", "tensor_attributes.html#torch.device"),
        ("torch.dtype", "class", "tensor_attributes.html#torch.dtype"),
        ("torch.Generator", "class", "generated/torch.Generator.html#torch.Generator"),
        ("torch.compile", "function", "generated/torch.compile.html#torch.compile"),
    ],
    "torch_geometric": [],
    "python": [
        *(
            (name, "class", f"library/stdtypes.html#{name}")
            for name in ("int", "float", "complex", "str", "list", "tuple", "dict")
        ),
        *(
            (name, "class", f"library/stdtypes.html#{name}")
            for name in ("set", "frozenset", "bytes", "range", "slice")
        ),
        *(
            (name, "class", f"library/functions.html#{name}")
            for name in ("bool", "object", "type")
        ),
        ("None", "data", "library/constants.html#None"),
        ("True", "data", "library/constants.html#True"),
        ("False", "data", "library/constants.html#False"),
        *(
            (name, "exception", f"library/exceptions.html#{name}")
            for name in ("Exception", "ValueError", "KeyboardInterrupt", "ImportError")
        ),
        *(
            (f"collections.abc.{name}", "class", f"library/collections.abc.html#{name}")
            for name in ("Callable", "Iterable", "Iterator", "Mapping", "Sequence")
        ),
        *(
            (f"typing.{name}", role, f"library/typing.html#typing.{name}")
            for name, role in {
                "Any": "data",
                "Literal": "data",
                "Self": "data",
                "NamedTuple": "class",
                "Protocol": "class",
                "Annotated": "data",
                "ClassVar": "data",
            }.items()
        ),
        ("pathlib.Path", "class", "library/pathlib.html#pathlib.Path"),
        ("abc.ABC", "class", "library/abc.html#abc.ABC"),
        ("enum.Enum", "class", "library/enum.html#enum.Enum"),
        (
            "contextlib.ContextDecorator",
            "class",
            "library/contextlib.html#contextlib.ContextDecorator",
        ),
        ("fractions.Fraction", "class", "library/fractions.html#fractions.Fraction"),
    ],
    "numpy": [
        (
            "numpy.ndarray",
            "class",
            "reference/generated/numpy.ndarray.html#numpy.ndarray",
        ),
        ("numpy.dtype", "class", "reference/generated/numpy.dtype.html#numpy.dtype"),
        (
            "numpy.random.Generator",
            "class",
            "reference/random/generator.html#numpy.random.Generator",
        ),
    ],
    "pandas": [
        (
            "pandas.DataFrame",
            "class",
            "reference/api/pandas.DataFrame.html#pandas.DataFrame",
        ),
    ],
    "networkx": [
        (name, "class", "reference/classes/graph.html#networkx.Graph")
        for name in ("networkx.Graph", "networkx.classes.graph.Graph")
    ],
}


def generated(module: str) -> Iterator[Entry]:
    """The public names of a module, and their aliases in the packages above it."""
    for name in getattr(importlib.import_module(module), "__all__", ()) or dir(
        importlib.import_module(module)
    ):
        found = getattr(importlib.import_module(module), name)
        if name.startswith("_") or not (
            inspect.isclass(found) or inspect.isfunction(found)
        ):
            continue
        root = module.split(".")[0]
        if not found.__module__.startswith(root):
            continue
        role = "class" if inspect.isclass(found) else "function"
        address = f"generated/{module}.{name}.html#{module}.{name}"
        names = {f"{module}.{name}", f"{found.__module__}.{found.__qualname__}"}
        above = module.rpartition(".")[0]
        if getattr(importlib.import_module(above), name, None) is found:
            names.add(f"{above}.{name}")
        yield from ((known, role, address) for known in sorted(names))


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for project, single in SINGLE.items():
        entries = {(name, role): address for name, role, address in single}
        for module in GENERATED.get(project, ()):
            for name, role, address in generated(module):
                entries.setdefault((name, role), address)
        inventory = sphobjinv.Inventory()
        inventory.project, inventory.version = project, ""
        for (name, role), address in sorted(entries.items()):
            inventory.objects.append(
                sphobjinv.DataObjStr(
                    name=name,
                    domain="py",
                    role=role,
                    priority="1",
                    uri=address,
                    dispname="-",
                )
            )
        packed = sphobjinv.compress(inventory.data_file(contract=True))
        sphobjinv.writebytes(FOLDER / f"{project}.inv", packed)
        print(project, len(entries))


if __name__ == "__main__":
    main()
