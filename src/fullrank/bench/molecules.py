"""``fullrank bench molecules``: comparison with chemprop and a random forest.

A cell is a data set with a split. Every method gets the same table with the same split
column, trains with its defaults, and predicts the test part from a table without
labels. Training and prediction run in separate processes; their cost is the resource
usage of the processes and all their children.
"""

import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.console import Console

from fullrank.bench.provenance import provenance
from fullrank.data import load_dataset
from fullrank.data.splits import PARTS
from fullrank.errors import ConfigError, DataError, RunError, nearest

MOLHIV_ROWS, QM9_ROWS = 8000, 10000
TABLES = {
    "delaney": ("logS", "regression"),
    "freesolv": ("freesolv", "regression"),
    "BBBP": ("p_np", "binary"),
}
SPLITS = ("random", "scaffold")
OURS = "fullrank"
ABLATIONS = {
    "without graph layers": ("model.layers=0",),
    "without descriptors": ("model.descriptors=null",),
    "GIN-0 instead of ExpC": ("model.conv=gin0", "model.s=null", "model.init=null"),
}
_FOREST = (
    "from fullrank.bench.molecules import forest; forest(*__import__('sys').argv[1:])"
)


@dataclass(frozen=True)
class Cell:
    """A data set with a split.

    Attributes:
        table: File with the columns ``smiles``, the target, and ``split``, which is
            ``train``, ``val`` or ``test``.
        test: File with only the SMILES of the test part.
    """

    name: str
    table: Path
    test: Path
    target: str
    task: Literal["regression", "binary"]

    @property
    def metric(self) -> str:
        return "RMSE" if self.task == "regression" else "1 − ROC-AUC"

    def score(self, predictions: Sequence[float]) -> float:
        """The root mean square error, or one minus the area under the ROC curve."""
        from sklearn.metrics import roc_auc_score, root_mean_squared_error

        with self.table.open(newline="", encoding="utf-8") as stream:
            rows = [r for r in csv.DictReader(stream) if r["split"] == "test"]
        truth = [float(row[self.target]) for row in rows]
        if len(truth) != len(predictions) or not np.isfinite(predictions).all():
            raise RunError(
                f"{self.name}: {np.isfinite(predictions).sum()} predictions for "
                f"{len(truth)} test molecules"
            )
        if self.task == "regression":
            return float(root_mean_squared_error(truth, predictions))
        return 1 - float(roc_auc_score(truth, predictions))


@dataclass
class Cost:
    """Total cost of processes; memory is that of the largest.

    Attributes:
        cpu_seconds: CPU time of the processes and their children.
        peak_mb: Largest resident set.
    """

    cpu_seconds: float = 0.0
    seconds: float = 0.0
    peak_mb: float = 0.0

    def run(self, command: Sequence[object], scratch: Path) -> str:
        """Run a program with one thread, and return its output."""
        log = scratch / "log.txt"
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "FULLRANK_ROOT": str(scratch / "prepared"),  # the cost includes preparing
        }
        start = time.perf_counter()
        with log.open("w") as errors:
            process = subprocess.Popen(
                [str(part) for part in command],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            assert process.stdout is not None
            printed = process.stdout.read()
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.seconds += time.perf_counter() - start
        self.cpu_seconds += used.ru_utime + used.ru_stime
        self.peak_mb = max(self.peak_mb, used.ru_maxrss / 1024)
        if process.returncode:
            end = log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise RunError(f"{command[0]} ended with {process.returncode}: {end}")
        return printed


Method = Callable[[Cell, int, Path, Cost], list[float]]


def fullrank_method(
    changes: Sequence[str], cell: Cell, seed: int, to: Path, cost: Cost
) -> list[float]:
    """The recipe for molecules from the command line, with changed settings."""
    program = [sys.executable, "-m", "fullrank"]
    options = ["--target", cell.target, "--split-column", "split", "-q"]
    sets = [p for change in (f"seeds=[{seed}]", *changes) for p in ("--set", change)]
    train = [*program, "train", cell.table, *options, *sets, "--runs", to / "runs"]
    run = cost.run(train, to).strip()
    cost.run([*program, "predict", run, cell.test, "-o", to / "predicted.csv"], to)
    start = "predicted_" if cell.task == "regression" else "probability_"
    return _column(to / "predicted.csv", f"{start}{cell.target}")


def chemprop_method(
    program: Path, cell: Cell, seed: int, to: Path, cost: Cost
) -> list[float]:
    """chemprop with its defaults."""
    task = "regression" if cell.task == "regression" else "classification"
    common = ["--smiles-columns", "smiles", "--accelerator", "cpu", "-q"]
    train = [program, "train", "--data-path", cell.table, "--task-type", task]
    given = ["--target-columns", cell.target, "--splits-column", "split"]
    seeds = ["--pytorch-seed", str(seed), "--output-dir", to / "model"]
    cost.run([*train, *common, *given, *seeds], to)
    model = to / "model" / "model_0" / "best.pt"
    predict = [program, "predict", "--test-path", cell.test, "--model-paths", model]
    cost.run([*predict, *common, "--preds-path", to / "predicted.csv"], to)
    return _column(to / "predicted.csv", cell.target)


def forest_method(cell: Cell, seed: int, to: Path, cost: Cost) -> list[float]:
    """A random forest on Morgan counts, in a separate process."""
    out = to / "predicted.csv"
    given = [cell.table, cell.target, cell.task, str(seed), out]
    cost.run([sys.executable, "-c", _FOREST, *given], to)
    return _column(out, cell.target)


def forest(table: str, target: str, task: str, seed: str, out: str) -> None:
    """500 trees on Morgan counts (radius 2, 2048 columns), fitted on the train part."""
    from rdkit import Chem
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    with open(table, newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    generator = GetMorganGenerator(radius=2, fpSize=2048)
    molecules = (Chem.MolFromSmiles(row["smiles"]) for row in rows)
    x = np.array([generator.GetCountFingerprintAsNumPy(mol) for mol in molecules])
    y = np.array([float(row[target]) for row in rows])
    part = np.array([row["split"] for row in rows])
    kind = RandomForestRegressor if task == "regression" else RandomForestClassifier
    model = kind(500, random_state=int(seed)).fit(
        x[part == "train"], y[part == "train"]
    )
    tested = x[part == "test"]
    predicted = (
        model.predict(tested)
        if task == "regression"
        else model.predict_proba(tested)[:, 1]
    )
    np.savetxt(out, predicted, header=target, comments="")


def _column(file: Path, name: str) -> list[float]:
    with file.open(newline="", encoding="utf-8") as stream:
        return [float(row[name] or "nan") for row in csv.DictReader(stream)]


def methods(chemprop: Path | None) -> dict[str, Method]:
    """The methods by name."""
    found: dict[str, Method] = {OURS: partial(fullrank_method, ())}
    if chemprop is not None:
        found["chemprop"] = partial(chemprop_method, chemprop)
    found["random forest"] = forest_method
    return found | {
        name: partial(fullrank_method, changes) for name, changes in ABLATIONS.items()
    }


def write_cells(folder: Path, work: Path, names: Iterable[str] = ()) -> list[Cell]:
    """Write the tables of all cells, or of those whose name starts with one of
    ``names``.

    Args:
        folder: Folder with ``delaney.csv``, ``freesolv.csv`` and ``BBBP.csv``.
        work: Folder for the tables.
    """
    wanted = tuple(names)
    known = [*(f"{n}/{s}" for n in ("freesolv", "delaney", "BBBP") for s in SPLITS)]
    known += ["molhiv/scaffold", "qm9-gap/random"]
    cells = []
    for name in known:
        if not name.startswith(wanted or ("",)):
            continue
        data, split = name.split("/")
        if data == "molhiv":
            target, task, rows = "HIV_active", "binary", _molhiv()
        elif data == "qm9-gap":
            target, task, rows = "gap", "regression", _qm9()
        else:
            target, task = TABLES[data]
            rows = _split_rows(folder / f"{data}.csv", target, split)
        cells.append(_write_cell(work / data / split, name, target, task, rows))
    return cells


Rows = list[tuple[str, float, str]]


def _split_rows(file: Path, target: str, split: str) -> Rows:
    if not file.is_file():
        raise DataError(f"there is no table {str(file)!r}")
    with file.open(newline="", encoding="utf-8") as stream:
        return [
            (row["smiles"], float(row[target]), row[split].replace("valid", "val"))
            for row in csv.DictReader(stream)
        ]


def _molhiv() -> Rows:
    """A fixed sample in the parts of OGB's scaffold split."""
    dataset = load_dataset("ogbg-molhiv")
    smiles, labels, split = dataset.texts("smiles"), dataset.labels, dataset.split()
    rows: Rows = []
    for part in PARTS:
        everything = np.random.default_rng(0).permutation(getattr(split, part))
        chosen = everything[: round(MOLHIV_ROWS * len(everything) / len(dataset))]
        name = part.replace("valid", "val")
        rows += [(smiles[i], float(labels[i, 0]), name) for i in np.sort(chosen)]
    return [row for row in rows if _readable(row[0])]


def _qm9() -> Rows:
    """The gap in eV, which avoids tiny numbers; 80/10/10 at random."""
    dataset = load_dataset("qm9", targets=["gap"], limit=QM9_ROWS)
    split = dataset.split("random")
    smiles, labels = dataset.texts("smiles"), dataset.labels[:, 0] * 27.211386
    return [
        (smiles[i], float(labels[i]), part.replace("valid", "val"))
        for part in PARTS
        for i in getattr(split, part)
    ]


def _readable(smiles: str) -> bool:
    """Whether RDKit can read it: chemprop stops at a row that it cannot read."""
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        return Chem.MolFromSmiles(smiles) is not None


def _write_cell(to: Path, name: str, target: str, task: Any, rows: Rows) -> Cell:
    to.mkdir(parents=True, exist_ok=True)
    cell = Cell(name, to / "table.csv", to / "test.csv", target, task)
    with cell.table.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("smiles", target, "split"), *rows])
    with cell.test.open("w", newline="", encoding="utf-8") as stream:
        test = [[smiles] for smiles, _, part in rows if part == "test"]
        csv.writer(stream).writerows([["smiles"], *test])
    return cell


@dataclass
class Row:
    """One finished job."""

    cell: str
    method: str
    seed: int
    metric: str
    score: float
    cpu_seconds: float
    seconds: float
    peak_mb: float
    provenance: dict[str, Any] = field(default_factory=dict)


def measure(
    cells: Sequence[Cell],
    chosen: dict[str, Method],
    seeds: Sequence[int],
    rows_file: Path,
    work: Path,
    report: Callable[[Row], None],
) -> list[Row]:
    """Run the jobs without a row, append each row when it finishes, and return all."""
    rows = read_rows(rows_file)
    done = {(row.cell, row.method, row.seed) for row in rows}
    here = asdict(provenance())
    for cell in cells:
        for seed in seeds:
            for name, method in chosen.items():
                if (cell.name, name, seed) in done:
                    continue
                shutil.rmtree(work, ignore_errors=True)
                work.mkdir(parents=True)
                cost = Cost()
                score = cell.score(method(cell, seed, work, cost))
                row = Row(cell.name, name, seed, cell.metric, score, **asdict(cost))
                row.provenance = here
                with rows_file.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(asdict(row)) + "\n")
                rows.append(row)
                report(row)
    return rows


def read_rows(file: Path) -> list[Row]:
    """The rows of jobs that finished earlier."""
    if not file.exists():
        return []
    lines = file.read_text(encoding="utf-8").splitlines()
    return [Row(**json.loads(line)) for line in lines if line.strip()]


def to_markdown(rows: Sequence[Row], seeds: Sequence[int]) -> str:
    """The tables of scores and costs, and a summary."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.seed in seeds:
            found.setdefault((row.cell, row.method), []).append(row)
    cells = list(dict.fromkeys(row.cell for row in rows))
    first = [OURS, "chemprop", "random forest"]
    names = list(dict.fromkeys([*first, *(row.method for row in rows)]))
    metrics = {row.cell: row.metric for row in rows}
    lines = [
        "Mean and standard deviation over the seeds; lower is better.",
        "",
        f"| cell | metric | {' | '.join(names)} |",
        "|---|---|" + "--:|" * len(names),
    ]
    for cell in cells:
        each = [_score(found.get((cell, name), []), seeds) for name in names]
        lines.append(f"| {cell} | {metrics[cell]} | {' | '.join(each)} |")
    lines += ["", "CPU seconds of training and prediction, and the largest process:"]
    lines += ["", f"| cell | {' | '.join(names)} |", "|---|" + "--:|" * len(names)]
    for cell in cells:
        each = [_cost(found.get((cell, name), [])) for name in names]
        lines.append(f"| {cell} | {' | '.join(each)} |")
    return "\n".join([*lines, "", *_verdict(found, cells, names, seeds)]) + "\n"


def _score(rows: Sequence[Row], seeds: Sequence[int]) -> str:
    if not rows:
        return "not run"
    scores = [row.score for row in rows]
    text = f"{statistics.fmean(scores):.3f}"
    if len(scores) > 1:
        text += f" ± {statistics.stdev(scores):.3f}"
    missing = len(seeds) - len(scores)
    return f"{text} ({len(scores)} of {len(seeds)} seeds)" if missing else text


def _cost(rows: Sequence[Row]) -> str:
    if not rows:
        return "not run"
    seconds = statistics.fmean(row.cpu_seconds for row in rows)
    return f"{seconds:.0f} s, {max(row.peak_mb for row in rows):.0f} MB"


def _verdict(
    found: Mapping[tuple[str, str], Sequence[Row]],
    cells: Sequence[str],
    names: Sequence[str],
    seeds: Sequence[int],
) -> Iterator[str]:
    """Our score divided by that of each method, over the cells that both completed."""
    for name in names:
        ratios, costs = {}, []
        for cell in cells:
            both = [found.get((cell, method), []) for method in (OURS, name)]
            if name == OURS or any(len(rows) < len(seeds) for rows in both):
                continue
            mine, theirs = (statistics.fmean(r.score for r in rows) for rows in both)
            ratios[cell] = mine / theirs
            costs.append([sum(r.cpu_seconds for r in rows) for rows in both])
        if ratios:
            worst = max(ratios, key=ratios.__getitem__)
            mine, theirs = map(sum, zip(*costs, strict=True))
            yield (
                f"- fullrank / {name}: geometric mean "
                f"{statistics.geometric_mean(ratios.values()):.3f} over {len(ratios)} "
                f"of {len(cells)} cells, worst {ratios[worst]:.3f} ({worst}); "
                f"{mine / theirs:.2f} times the CPU time in total"
            )


def run(
    folder: Path,
    chemprop: Path | None,
    out: Path,
    cells: Sequence[str] = (),
    names: Sequence[str] = (),
    seeds: int = 3,
) -> None:
    """Run the missing jobs, and write the table of all rows."""
    console = Console(stderr=True, highlight=False)
    known = methods(chemprop)
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no method {name!r}{nearest(name, known)}")
    chosen = {name: known[name] for name in names or known}

    def report(row: Row) -> None:
        console.print(f"{row.cell}, {row.method}, seed {row.seed}: {row.score:.4f}")

    rows_file = out.with_suffix(".jsonl")
    with tempfile.TemporaryDirectory() as work:
        tables = write_cells(folder, Path(work) / "tables", cells)
        job = Path(work) / "job"
        rows = measure(tables, chosen, range(seeds), rows_file, job, report)
    out.with_suffix(".md").write_text(to_markdown(rows, range(seeds)), encoding="utf-8")
    console.print(f"rows: {rows_file}, table: {out.with_suffix('.md')}")
