"""Count what the pages of the data sets show, and write it to ``datasets.json``.

    python docs/_site/count_datasets.py --tu FOLDER --ogb FOLDER NAME ...

The folders are mirrors of the collections; without them, sets are downloaded.
"""

import argparse
import json
import subprocess
from pathlib import Path

import numpy as np

from fullrank.data import load_dataset
from fullrank.data.features import Features
from fullrank.data.statistics import statistics

FILE = Path(__file__).parent / "datasets.json"


def count(name: str, **options) -> dict:
    """The numbers of one set."""
    dataset = load_dataset(name, **options)
    found = statistics(dataset)
    degrees = np.arange(len(found.degrees))
    classes = found.class_counts
    return {
        "graphs": found.num_graphs,
        "nodes": round(found.mean_nodes, 6),
        "largest": int(found.sizes.max()),
        "edges": round(found.mean_edges, 6),
        "undirected": found.undirected,
        "self_loops": found.self_loops,
        "degree": round(float(np.average(degrees, weights=found.degrees)), 3),
        "largest_degree": len(found.degrees) - 1,
        "node_features": _features(dataset.node_features),
        "edge_features": _features(dataset.edge_features),
        "task": dataset.task,
        "metric": dataset.metric,
        "split": dataset.default_split,
        "classes": [] if classes is None else classes.tolist(),
        "targets": [_rounded(vars(target)) for target in found.targets],
    }


def _rounded(values: dict) -> dict:
    return {
        k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in values.items()
    }


def _features(features: Features) -> str:
    if features.kind == "none":
        return "none"
    shown = ", ".join(features.names[:12])
    return (
        f"{features.dim} {features.kind}: {shown}{', …' if features.dim > 12 else ''}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tu", help="a mirror of the TU collection")
    parser.add_argument("--ogb", help="a mirror of OGB")
    parser.add_argument("names", nargs="+", metavar="NAME")
    given = parser.parse_args()
    record = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {"sets": {}}
    git = ["git", "-C", str(FILE.parent), "rev-parse", "--short", "HEAD"]
    record["commit"] = subprocess.run(
        git, check=True, capture_output=True, text=True
    ).stdout.strip()
    for name in given.names:
        mirror = given.ogb if name.startswith("ogbg-") else given.tu
        options = {} if name == "qm9" or mirror is None else {"mirror": mirror}
        record["sets"][name] = count(name, **options)
        text = json.dumps(record, indent=1, ensure_ascii=False, sort_keys=True)
        FILE.write_text(text + "\n", "utf-8")
        print(name)


if __name__ == "__main__":
    main()
