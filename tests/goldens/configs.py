"""Ten small experiments whose final metrics must not change."""

import random
from pathlib import Path

from train.samples import write_molecules

_SOURCES = 8
_FUNCTION = '''
def {verb}_{noun}(items, {noun}):
    """Go through the items."""
    total = {number}
    for item in items:
        if item.{noun} > total and {noun} is not None:
            total += item.{verb}({noun})
    return total
'''


def write_graphs(folder: Path, count: int = 60) -> Path:
    """A folder in TU layout: cycles with random chords, labelled by their density."""
    rng = random.Random(0)
    edges, graph_of_node, labels, node_labels = [], [], [], []
    first = 1
    for graph in range(1, count + 1):
        size, label = rng.randint(6, 12), rng.randint(0, 1)
        pairs = {(i, (i + 1) % size) for i in range(size)}
        while len(pairs) < size + 2 + 3 * label:
            pairs.add((rng.randrange(size), rng.randrange(size)))
        for u, v in sorted(pairs):
            if u != v:
                edges += [(first + u, first + v), (first + v, first + u)]
        graph_of_node += [graph] * size
        node_labels += [rng.randint(0, 2) for _ in range(size)]
        labels.append(label)
        first += size
    folder.mkdir()
    lines = {
        "A": [f"{u}, {v}" for u, v in edges],
        "graph_indicator": graph_of_node,
        "graph_labels": labels,
        "node_labels": node_labels,
    }
    for name, values in lines.items():
        text = "\n".join(map(str, values)) + "\n"
        (folder / f"{folder.name}_{name}.txt").write_text(text)
    return folder


def write_sources(folder: Path) -> Path:
    """A folder of Python sources."""
    verbs, nouns = ("get", "set", "count", "find"), ("item", "name", "size")
    for project in range(_SOURCES):
        home = folder / f"project{project}"
        home.mkdir(parents=True)
        text = "".join(
            _FUNCTION.format(verb=verb, noun=noun, number=project)
            for verb in verbs[: 2 + project % 3]
            for noun in nouns
        )
        (home / "module.py").write_text(text)
    return folder


def golden_configs(home: Path) -> dict[str, dict]:
    """The values of each configuration, with its data written below ``home``."""
    table = str(write_molecules(home / "molecules.csv", repeat=2))
    graphs = str(write_graphs(home / "chords"))
    code = str(write_sources(home / "sources"))
    model = {"layers": 2, "hidden": 16}
    training = {"epochs": 4, "batch_size": 16}
    rows_apart = {"apart": True}  # each molecule is in two rows
    return {
        "qm9 sample, ExpC-4": {
            "data": {"name": "qm9", "targets": ["gap"], "limit": 200},
            "model": {**model, "conv": "expc", "s": 4, "head": "qm9"},
            "schedule": {"name": "onecycle"},
            "training": training,
        },
        "qm9 sample, CombC, two targets, complete graphs": {
            "data": {
                "name": "qm9",
                "targets": ["mu", "alpha"],
                "limit": 60,
                "edges": "complete",
            },
            "model": {**model, "conv": "combc"},
            "training": training,
        },
        "TU by gin": {
            "data": {"name": graphs},
            "split": {"kind": "gin", "folds": 3},
            "model": {**model, "conv": "gin0", "head": "tu", "dropout": 0.3},
            "training": training,
        },
        "TU by fair": {
            "data": {"name": graphs},
            "split": {"kind": "fair", "folds": 3},
            "model": {**model, "conv": "expc", "s": 2, "batch_norm": True},
            "schedule": {"name": "step", "every": 2},
            "training": training,
        },
        "table, regression": {
            "data": {"name": table, "targets": ["weight", "logp"]},
            "split": rows_apart,
            "model": {**model, "conv": "expc", "re_sum": False, "layer_dropout": 0.1},
            "optimizer": {"name": "adamw", "clip": 1.0, "weight_decay": 0.01},
            "schedule": {"name": "cosine"},
            "training": {**training, "loss": "huber"},
        },
        "table, binary": {
            "data": {"name": table, "targets": ["ring", "hetero"], "task": "binary"},
            "split": {"kind": "scaffold"},
            "model": {**model, "conv": "gat", "s": 2},
            "training": {**training, "class_weights": "balanced"},
        },
        "table, multiclass": {
            "data": {"name": table, "targets": ["kind"], "task": "multiclass"},
            "split": rows_apart,
            "model": {**model, "conv": "pna", "readout": "mean"},
            "training": {**training, "patience": 2},
        },
        "structural coefficients": {
            "data": {
                "name": table,
                "targets": ["logp"],
                "structure": {"hops": 2, "node_labels": "x"},
            },
            "split": rows_apart,
            "model": {**model, "conv": "expc-structural"},
            "training": training,
        },
        "ensemble": {
            "data": {"name": table, "targets": ["logp"]},
            "split": rows_apart,
            "model": {**model, "conv": "gcn"},
            "training": {**training, "precision": "64"},
            "seeds": [0, 1],
        },
        "code": {
            "data": {"name": code},
            "model": {**model, "conv": "combc", "re_sum": False},
            "training": training,
        },
    }
