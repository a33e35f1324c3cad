"""Packages that come with an extra: which one, and the error if it is missing."""

import importlib.util
from functools import cache

from fullrank.errors import MissingPackage

#: The extra that installs each optional package, by the name it is imported under.
EXTRAS = {
    "filelock": "program",
    "jinja2": "program",
    "lightning": "program",
    "markupsafe": "program",
    "optuna": "program",
    "pandas": "program",
    "platformdirs": "program",
    "plotly": "program",
    "psutil": "program",
    "pyarrow": "program",
    "pydantic": "program",
    "rich": "program",
    "safetensors": "program",
    "sklearn": "program",
    "torchmetrics": "program",
    "typer": "program",
    "yaml": "program",
    "qm9pack": "chem",
    "rdkit": "chem",
    "ogb": "ogb",
    "igraph": "baselines",
    "ot": "baselines",
    "ray": "cluster",
    "onnx": "onnx",
    "onnxscript": "onnx",
    "aiohttp": "serve",
    "fastapi": "serve",
    "uvicorn": "serve",
}


@cache
def need(package: str) -> None:
    """Raise an error that says how to install ``package``, unless it is installed."""
    if importlib.util.find_spec(package) is None:
        raise missing(package)


def missing(package: str) -> MissingPackage:
    """The error for an optional package that is not installed."""
    return MissingPackage(
        f"the package {package!r} is not installed: "
        f"pip install 'fullrank[{EXTRAS[package]}]'"
    )
