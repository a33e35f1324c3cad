"""The configurations that come with the package."""

from importlib import resources

from fullrank.errors import ConfigError, nearest


def ready_configs() -> dict[str, str]:
    """Name, such as ``expc/qm9-gap``, and YAML text of each ready configuration."""
    folder = resources.files("fullrank.paper") / "experiments"
    return {
        f"{family.name}/{file.name.removesuffix('.yaml')}": file.read_text("utf-8")
        for family in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if family.is_dir()
        for file in sorted(family.iterdir(), key=lambda entry: entry.name)
    }


def ready_config(name: str) -> str:
    """The YAML text of a ready configuration."""
    ready = ready_configs()
    if name not in ready:
        raise ConfigError(
            f"there is no ready configuration {name!r}{nearest(name, ready)}"
        )
    return ready[name]
