"""Graph neural networks whose aggregators keep the rank of what they aggregate."""

__version__ = "0.1.0"


def __getattr__(name: str):
    # Imported on demand: `import fullrank.nn` must not bring the whole program along.
    if name == "load":
        from fullrank.train.predict import load

        return load
    raise AttributeError(f"module 'fullrank' has no attribute {name!r}")
