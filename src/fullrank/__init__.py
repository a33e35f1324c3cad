"""Graph neural networks whose aggregators keep the rank of what they aggregate."""

__version__ = "0.1.0"
