"""The paper's experiments as ready configurations, such as ``expc/qm9-gap``."""

from functools import cache
from importlib import resources

from fullrank.errors import ConfigError, nearest


@cache
def ready_configs() -> dict[str, str]:
    """The YAML text of every ready configuration by its name."""
    folder = resources.files("fullrank.paper") / "experiments"
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
