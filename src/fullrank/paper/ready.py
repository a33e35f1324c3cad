"""The paper's experiments by name: ready configurations, tables and figures.

Listing them imports neither torch nor the rest of the package.
"""

from functools import cache
from importlib import resources
from typing import Any

import yaml

from fullrank.errors import ConfigError, nearest


@cache
def ready_configs() -> dict[str, str]:
    """The YAML text of every ready configuration by name, such as ``expc/qm9-gap``."""
    folder = paper_file("experiments")
    return {
        f"{family.name}/{file.name.removesuffix('.yaml')}": file.read_text("utf-8")
        for family in sorted(folder.iterdir(), key=lambda entry: entry.name)
        for file in sorted(family.iterdir(), key=lambda entry: entry.name)
    }


def ready_config(name: str) -> str:
    """The YAML text of one ready configuration."""
    try:
        return ready_configs()[name]
    except KeyError:
        raise ConfigError(
            f"there is no ready configuration {name!r}{nearest(name, ready_configs())}"
        ) from None


def table_names() -> list[str]:
    """The names of the paper's tables, and of our own."""
    return sorted(
        file.name.removesuffix(".yaml") for file in paper_file("tables").iterdir()
    )


@cache
def figure_values() -> dict[str, Any]:
    """The content of ``figures.yaml``: the learning-curve figures by name."""
    return read_yaml(paper_file("figures.yaml"))


def paper_file(name: str) -> Any:
    """A file or folder of data in this package."""
    return resources.files("fullrank.paper") / name


def read_yaml(file: Any) -> Any:
    """The values in a YAML file of this package."""
    return yaml.safe_load(file.read_text(encoding="utf-8"))
