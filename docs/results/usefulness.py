"""Do structural coefficients help where nothing has to be told apart?

Trains ExpC-4 with and without them on QM9 and ogbg-molhiv, with the same budget, and
writes a row for each run beside this file:

    python docs/results/usefulness.py qm9
    python docs/results/usefulness.py molhiv --folder ../shared/data/ogb
"""

import copy
import json
import sys
from pathlib import Path
from typing import Any

import typer

from fullrank.data import GraphDataset, load
from fullrank.data.transforms import AddStructuralColors
from fullrank.train import parse, run_one

OUT = Path(__file__).with_suffix(".json")
ARMS: dict[str, dict[str, Any]] = {
    "ExpC-4": {"conv": "expc", "s": 4},
    "ExpC-8": {"conv": "expc", "s": 8},
    "ExpC-4 + 4 at 1 hop": {"conv": "expc-structural", "conv_args": {"hops": 1}},
    "ExpC-4 + 4 at 2 hops": {"conv": "expc-structural", "conv_args": {"hops": 2}},
}
QM9 = {
    "data": {"name": "qm9", "limit": 2000},
    "model": {"hidden": 64, "layers": 4, "head": "qm9"},
    "schedule": {"name": "cosine"},
    "training": {"epochs": 20, "batch_size": 64},
}
MOLHIV = {
    "data": {"name": "ogbg-molhiv"},
    "model": {"hidden": 64, "layers": 3, "batch_norm": True, "readout": "mean"},
    "schedule": {"name": "cosine"},
    "training": {"epochs": 3, "batch_size": 256},
}
app = typer.Typer()


@app.command()
def qm9(runs: Path = Path("runs")) -> None:
    dataset = load("qm9", limit=2000)
    for target in ("mu", "alpha", "gap"):
        for seed in (0, 1, 2):
            for arm in ARMS:
                _run(dataset.select_targets([target]), QM9, arm, target, seed, runs)


@app.command()
def molhiv(folder: Path | None = None, runs: Path = Path("runs")) -> None:
    dataset = load("ogbg-molhiv", folder=folder)
    for arm in ARMS:
        _run(dataset, MOLHIV, arm, dataset.targets[0].name, 0, runs)


def _run(
    dataset: GraphDataset,
    settings: dict[str, Any],
    arm: str,
    target: str,
    seed: int,
    runs: Path,
) -> None:
    arguments = ARMS[arm]
    config = parse(
        {
            **settings,
            "data": {**settings["data"], "targets": [target]},
            "model": {**settings["model"], **arguments},
            "seeds": [seed],
            "runs": runs,
        }
    )
    if "conv_args" in arguments:
        dataset = _colored(dataset, arguments["conv_args"]["hops"])
    result = run_one(config, dataset)
    row = {"data": dataset.name, "target": target, "arm": arm, "seed": seed}
    row |= {"test": result["test"], "config": json.loads(config.model_dump_json())}
    rows = json.loads(OUT.read_text()) if OUT.exists() else []
    OUT.write_text(json.dumps([*rows, row], indent=1) + "\n")
    print(arm, target, seed, result["test"], file=sys.stderr)


def _colored(dataset: GraphDataset, hops: int) -> GraphDataset:
    colored = copy.copy(dataset)
    colored.graphs = AddStructuralColors(hops, node_labels="x").pack(dataset.graphs)
    return colored


if __name__ == "__main__":
    app()
