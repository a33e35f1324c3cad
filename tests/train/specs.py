"""Descriptions of models that only matter for what their outputs mean."""

from fullrank.data import Features, Target
from fullrank.train import ModelSpec


def spec(task, num_targets=1, num_classes=None, **options):
    arguments = {
        "run": "a-run",
        "dataset": "a set",
        "task": task,
        "targets": tuple(Target(f"t{i}") for i in range(num_targets)),
        "metric": "mae",
        "node_features": Features(),
        "edge_features": Features(),
        "network": {},
        "num_classes": num_classes,
    }
    return ModelSpec(**arguments | options)
