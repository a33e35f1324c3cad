"""Graph neural networks whose aggregators keep the rank of what they aggregate."""

from fullrank.version import __version__

__all__ = ["__version__", "load"]


def __getattr__(name: str):
    # Imported on demand: `import fullrank.nn` must not bring the whole program along.
    if name == "load":
        from fullrank.train.predict import load_predictor

        return load_predictor
    raise AttributeError(f"module 'fullrank' has no attribute {name!r}")
