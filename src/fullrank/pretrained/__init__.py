"""Models that come with the package.

Each is a model file with a card and the configuration that trained it: ``NAME.json``,
``NAME.safetensors`` and ``NAME.yaml``. Listing them does not import torch.
"""

from functools import cache
from pathlib import Path

from fullrank.errors import ModelError, nearest

__all__ = ["FOLDER", "model_file", "names", "resolve", "unknown"]

FOLDER = Path(__file__).parent


@cache
def names() -> tuple[str, ...]:
    """The names of the models, sorted."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.json")))


def model_file(name: str) -> Path:
    """The file of the model with this name."""
    if name not in names():
        raise unknown(name)
    return FOLDER / f"{name}.safetensors"


def resolve(model: str | Path) -> Path:
    """The path of a model: itself if it exists, otherwise the model of that name.

    What is neither is returned unchanged.
    """
    path = Path(model)
    if not path.exists() and str(model) in names():
        return FOLDER / f"{model}.safetensors"
    return path


def unknown(model: str | Path) -> ModelError:
    """The error for what is neither a path nor the name of a model."""
    return ModelError(
        f"there is no model {str(model)!r}{nearest(Path(model).name, names())}: give a "
        f"model file, a run folder, or the name of a model that comes with fullrank "
        f"({', '.join(names())})"
    )
