"""Which graphs are for training, validation and testing."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fullrank.data.molecules import scaffold
from fullrank.data.parsing import parse_json
from fullrank.errors import DataError

PARTS = ("train", "valid", "test")
ALL_PARTS = (*PARTS, "calibration")
_NOTHING = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Split:
    """The graphs of each part, by index, and how they were chosen.

    The calibration part says how sure a trained model is; it is often empty.
    """

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    how: Mapping[str, Any] = field(default_factory=dict)
    calibration: np.ndarray = field(default_factory=_NOTHING.copy)

    def __post_init__(self) -> None:
        for part in ALL_PARTS:
            indices = np.asarray(getattr(self, part), dtype=np.int64)
            object.__setattr__(self, part, indices)
        everything = np.concatenate([getattr(self, part) for part in ALL_PARTS])
        values, counts = np.unique(everything, return_counts=True)
        if (counts > 1).any():
            raise DataError(f"graph {values[counts > 1][0]} is in a split twice")
        if len(values) and values[0] < 0:
            raise DataError(f"a split contains the index {values[0]}")

    def __repr__(self) -> str:
        sizes = " / ".join(str(len(getattr(self, part))) for part in PARTS)
        return f"Split({sizes}, {dict(self.how)})"

    def check(self, num_graphs: int) -> "Split":
        """Itself, if all of its graphs exist in a set of ``num_graphs``."""
        largest = max(int(getattr(self, p).max(initial=-1)) for p in ALL_PARTS)
        if largest >= num_graphs:
            raise DataError(f"the split holds graph {largest} of a set of {num_graphs}")
        return self

    def save(self, file: str | Path) -> None:
        """Write ``split.json``: the indices and how they were made."""
        Path(file).write_text(json.dumps(self.to_json()), encoding="utf-8")

    def to_json(self) -> dict[str, Any]:
        """What `load` reads."""
        content: dict[str, Any] = {p: getattr(self, p).tolist() for p in PARTS}
        if len(self.calibration):
            content["calibration"] = self.calibration.tolist()
        return {**content, "how": dict(self.how)}

    @classmethod
    def load(cls, file: str | Path) -> "Split":
        """Read what `save` wrote."""
        try:
            content = parse_json(Path(file).read_text(encoding="utf-8"))
            train, valid, test = (np.array(content[part], int) for part in PARTS)
            calibration = np.array(content.get("calibration", []), int)
            return cls(train, valid, test, content.get("how", {}), calibration)
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise DataError(f"{file} is not a split: {error}") from error


def random_split(
    num_graphs: int,
    fractions: Sequence[float] = (0.8, 0.1, 0.1),
    seed: int = 0,
    molecules: Sequence[str] | None = None,
) -> Split:
    """Shuffle by ``seed``; the first part is for training, the last for testing.

    Args:
        molecules: What each graph is; equal ones stay in one part.
    """
    first: dict[str, int] = {}
    group = np.arange(num_graphs)
    if molecules is not None:
        group = np.array([first.setdefault(m, i) for i, m in enumerate(molecules)])
    firsts, counts = np.unique(group, return_counts=True)
    shuffled = np.random.default_rng(seed).permutation(len(firsts))
    how = {"kind": "random", "seed": seed, "fractions": list(fractions)}
    # A group is in the part in which its last graph would be.
    ends = np.array([len(p) for p in _cut(np.arange(num_graphs), fractions)]).cumsum()
    part = np.searchsorted(ends, counts[shuffled].cumsum() - 1, side="right")
    rank = np.empty(num_graphs, dtype=np.int64)
    rank[firsts[shuffled]] = np.arange(len(firsts))
    order = np.argsort(rank[group], kind="stable")
    part_of_graph = part[rank[group]][order]
    train, valid, test = (order[part_of_graph == p] for p in range(3))
    return Split(train, valid, test, how)


def given_split(part_of_graph: np.ndarray) -> Split:
    """From 0 (train), 1 (valid), 2 (test) or another number (unused) per graph."""
    train, valid, test = (np.flatnonzero(part_of_graph == p) for p in range(3))
    return Split(train, valid, test, {"kind": "given"})


def stratified_folds(labels: np.ndarray, k: int = 10, seed: int = 0) -> list[Split]:
    """Every graph is tested in one of ``k`` folds, each class spread evenly.

    The validation parts are empty; `hold_out` makes one.
    """
    if not 2 <= k <= len(labels):
        raise DataError(f"k must be between 2 and {len(labels)}, got {k}")
    order = _class_by_class(labels, seed)
    how = {"kind": "stratified folds", "k": k, "seed": seed}
    return [
        Split(
            np.sort(np.delete(order, np.s_[fold::k])),
            _NOTHING,
            np.sort(order[fold::k]),
            how | {"fold": fold},
        )
        for fold in range(k)
    ]


def zhang_folds(folder: str | Path, num_graphs: int) -> list[Split]:
    """The folds of Zhang et al. (DGCNN): ``train_idx-1.txt`` … ``test_idx-10.txt``.

    When ten does not divide the number of graphs these files leave out the remainder.
    """
    folds = []
    for fold, (train, test) in enumerate(_pairs_of_zhang(folder)):
        how = {"kind": "folds of Zhang et al.", "fold": fold}
        try:
            folds.append(Split(train, _NOTHING, test, how).check(num_graphs))
        except DataError as error:
            raise DataError(f"fold {fold + 1} in {folder}: {error}") from None
    return folds


def folds_fingerprint(folder: str | Path) -> str:
    """A hash of the folds in the files that `zhang_folds` reads."""
    content = [
        [train.tolist(), test.tolist()] for train, test in _pairs_of_zhang(folder)
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _pairs_of_zhang(folder: str | Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The training and test graphs of each of the ten folds."""
    for fold in range(1, 11):
        train, test = (
            Path(folder) / f"{part}_idx-{fold}.txt" for part in ("train", "test")
        )
        yield _indices(train), _indices(test)


def hold_out(
    split: Split,
    fraction: float = 0.1,
    seed: int = 0,
    labels: np.ndarray | None = None,
) -> Split:
    """Move a part of the training graphs to validation, each class evenly."""
    if not 0 < fraction < 1:
        raise DataError(f"fraction must be between 0 and 1, got {fraction}")
    classes = np.zeros(len(split.train)) if labels is None else labels[split.train]
    order = _class_by_class(classes, seed)
    count = max(1, round(fraction * len(order)))
    chosen = np.linspace(0, len(order) - 1, count).round().astype(int)
    how = {**split.how, "held out": fraction, "held out by seed": seed}
    train = np.sort(split.train[np.delete(order, chosen)])
    valid = np.concatenate([split.valid, np.sort(split.train[order[chosen]])])
    return Split(train, valid, split.test, how)


def set_aside(
    split: Split,
    amount: float,
    seed: int = 0,
    molecules: Sequence[str] | None = None,
) -> Split:
    """Move some training graphs, chosen at random, to the calibration part.

    Args:
        amount: How many, or below 1 which part of the training graphs.
        molecules: What each graph of the set is; equal ones stay together.
    """
    train = split.train
    count = round(amount * len(train)) if amount < 1 else round(amount)
    if not 0 < count < len(train):
        raise DataError(
            f"{amount:g} of {len(train)} training graphs cannot be set aside for "
            f"calibration"
        )
    names = train if molecules is None else [molecules[int(i)] for i in train]
    groups, group = np.unique(names, return_inverse=True)
    rank = np.random.default_rng(seed).permutation(len(groups))[group]
    aside = rank <= np.sort(rank)[count - 1]
    how = {**split.how, "calibration": amount, "calibration by seed": seed}
    return replace(split, train=train[~aside], calibration=train[aside], how=how)


def scaffold_split(
    smiles: Sequence[str], fractions: Sequence[float] = (0.8, 0.1, 0.1)
) -> Split:
    """Molecules with the same Bemis-Murcko scaffold stay in one part.

    The most frequent scaffolds go to training, the rarest to testing, as in
    MoleculeNet and OGB.
    """
    how = {"kind": "scaffold", "fractions": list(fractions)}
    return grouped_split([scaffold(text) for text in smiles], fractions, how)


def grouped_split(
    group_of_graph: Sequence[str], fractions: Sequence[float], how: Mapping[str, Any]
) -> Split:
    """Whole groups in one part each, where there is room; the largest to training."""
    groups: dict[str, list[int]] = {}
    for index, group in enumerate(group_of_graph):
        groups.setdefault(group, []).append(index)
    ends = np.cumsum(fractions[:2]) * len(group_of_graph) + 1e-9
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for members in sorted(groups.values(), key=lambda g: (-len(g), g[0])):
        if not parts[0] or len(parts[0]) + len(members) <= ends[0]:
            parts[0].extend(members)
        elif len(parts[0]) + len(parts[1]) + len(members) <= ends[1]:
            parts[1].extend(members)
        else:
            parts[2].extend(members)
    train, valid, test = (np.array(part, dtype=np.int64) for part in parts)
    return Split(train, valid, test, how)


def _cut(order: np.ndarray, fractions: Sequence[float]) -> list[np.ndarray]:
    if len(fractions) != 3 or min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-9:
        raise DataError(
            f"fractions must be three numbers that add up to 1: {fractions}"
        )
    ends = (np.cumsum(fractions[:2]) * len(order) + 1e-9).astype(int)
    return np.split(order, ends)


def _class_by_class(labels: np.ndarray, seed: int) -> np.ndarray:
    """A shuffled order in which graphs of one class stand together."""
    order = np.random.default_rng(seed).permutation(len(labels))
    return order[np.argsort(np.asarray(labels)[order], kind="stable")]


def _indices(file: Path) -> np.ndarray:
    try:
        return np.loadtxt(file, dtype=np.int64, ndmin=1)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the fold {file}: {error}") from error
