"""The quick start: does keeping the rank improve accuracy on real molecules?"""

from pathlib import Path
from typing import Any

from fullrank.train.config import Config, parse

MODELS: dict[str, dict[str, Any]] = {
    "GIN-0": {"conv": "gin0"},
    "ExpC-1": {"conv": "expc", "s": 1},
    "ExpC-4": {"conv": "expc", "s": 4},
    "ExpC-16": {"conv": "expc", "s": 16},
}


def quickstart_configs(
    runs: Path, molecules: int = 10_000, epochs: int = 20, seed: int = 0
) -> dict[str, Config]:
    """One run per model, with the same width, depth, data and schedule."""
    return {
        name: parse(
            {
                "data": {"name": "qm9", "targets": ["gap"], "limit": molecules},
                "model": {"layers": 4, "hidden": 64, "head": "qm9", **model},
                "optimizer": {"lr": 2e-3},  # chosen on validation, see docs/train.md
                "schedule": {"name": "onecycle"},
                "training": {"epochs": epochs},
                "seeds": [seed],
                "runs": runs,
            }
        )
        for name, model in MODELS.items()
    }
