"""Predictions for a long table: rows per CPU second and memory, and chemprop's."""

import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from rich.console import Console
from rich.table import Table

from fullrank.bench.provenance import provenance
from fullrank.data import MoleculeFeaturizer
from fullrank.data.featurizers import Reading, featurize
from fullrank.data.tables import open_table
from fullrank.data.workers import batched
from fullrank.errors import ConfigError
from fullrank.train import Config, Model, parse
from fullrank.train.confidence import add_confidence
from fullrank.train.model import design_model
from fullrank.train.recipe import RECIPE, recipe
from fullrank.train.splitting import make_split

WORKERS = 2
# Enough for the maximum number of fingerprints that a model stores.
_TRAINING_ROWS = 5_200
_TRAINING_ROWS_OF_CHEMPROP = 200
_SECONDS_BETWEEN_LOOKS = 0.2
# A program: creates a model in a folder, and predicts a table with this many rows.
Program = Callable[[Path, Path, int], "Row"]


@dataclass(frozen=True)
class Row:
    """The cost of one program for the same table.

    Attributes:
        rows_per_cpu_second: Over all of its processes, including start and exit.
        pss_mb: Peak memory of all its processes; shared pages are counted once.
    """

    program: str
    rows: int
    rows_per_cpu_second: float
    rows_per_second: float
    pss_mb: float


def run(
    quick: bool,
    json_file: Path | None,
    molecules: Path,
    chemprop: Path | None,
    names: Sequence[str] = (),
) -> list[Row]:
    """Measure, print, and write the rows as JSON if a file is given.

    Args:
        json_file: File for the rows; its rows of other programs are kept.
        molecules: Table with a column ``smiles``, repeated as often as necessary.
        chemprop: The chemprop program; not measured by default.
        names: The programs to measure; all by default.
    """
    rows = 2_000 if quick else 50_000
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), molecules, rows, programs(chemprop), names)
    table = Table(title=f"Predictions for {rows:,} molecules, {WORKERS} workers")
    for name in ("program", "rows per CPU second", "rows per second", "memory (MB)"):
        table.add_column(name, justify="left" if name == "program" else "right")
    for row in found:
        numbers = (row.rows_per_cpu_second, row.rows_per_second, row.pss_mb)
        table.add_row(row.program, *(f"{number:,.0f}" for number in numbers))
    Console().print(table)
    if json_file is not None:
        before = json.loads(json_file.read_text()) if json_file.exists() else []
        joined = {row["program"]: row for row in before}
        source = {"provenance": asdict(provenance())}
        joined |= {row.program: asdict(row) | source for row in found}
        json_file.write_text(json.dumps(list(joined.values()), indent=1))
    return found


def programs(chemprop: Path | None) -> dict[str, Program]:
    """The programs by name."""
    found: dict[str, Program] = {
        "one network": partial(_fullrank, "one network"),
        "recipe": partial(_fullrank, "recipe"),
    }
    if chemprop is not None:
        found["chemprop"] = partial(_chemprop, chemprop)
    return found


def measure(
    folder: Path,
    molecules: Path,
    rows: int,
    known: Mapping[str, Program],
    names: Sequence[str] = (),
) -> list[Row]:
    """Create models and a table in ``folder``, and run each program on it."""
    for name in names:
        if name not in known:
            raise ConfigError(
                f"there is no program {name!r}; known: {', '.join(known)}"
            )
    table = folder / "molecules.csv"
    smiles = _readable(molecules, rows)
    _write(table, list(islice(cycle(smiles), rows)))
    labels = np.random.default_rng(0).normal(size=_TRAINING_ROWS)
    _write(folder / "training.csv", list(islice(cycle(smiles), len(labels))), labels)
    return [known[name](folder, table, rows) for name in names or known]


def _fullrank(name: str, folder: Path, table: Path, rows: int) -> Row:
    training = folder / "training.csv"
    data: dict[str, Any] = {"name": str(training), "targets": ["label"]}
    data |= {"root": str(folder), "allow_rejected": True}
    config, networks = parse({"data": data}), 1
    if name == "recipe":
        config = recipe(training, ["label"]).config.changed(data=data, ensemble=None)
        networks = RECIPE["ensemble"]
    files = [_untrained(config, folder / f"{name}{n}", n) for n in range(networks)]
    output = folder / f"{name}.csv"
    ours = [sys.executable, "-m", "fullrank", "predict", "-q", f"--workers={WORKERS}"]
    command = [*ours, *map(str, files), str(table), "-o", str(output)]
    return _timed(f"fullrank, {name}", command, output, rows)


def _readable(molecules: Path, most: int) -> list[str]:
    """The molecules that RDKit can read: chemprop stops at any other."""
    with open_table(molecules) as given:
        place = given.column("smiles")
        texts = [row.cells[place] for row in islice(given, most) if row.cells[place:]]
    made = featurize(Reading(MoleculeFeaturizer()), batched(texts, 1024), WORKERS)
    reasons = [reason for block in made for reason in block.reasons]
    both = zip(texts, reasons, strict=True)
    found = [text for text, reason in both if reason is None]
    if not found:
        raise ConfigError(f"{molecules} has no molecule that RDKit can read")
    return found


def _untrained(config: Config, file: Path, seed: int) -> Path:
    """An untrained model: the time of a prediction does not depend on the weights."""
    dataset = config.load_data(progress=False)
    split = make_split(config, dataset)
    torch.manual_seed(seed)
    model = Model(design_model(config, dataset, split))
    model.fit_descriptors(dataset, split.train)
    add_confidence(model, dataset, split, similarity=True)
    model.save(file)
    return file


def _chemprop(program: Path, folder: Path, table: Path, rows: int) -> Row:
    where, training = folder / "chemprop", folder / "training_of_chemprop.csv"
    with (folder / "training.csv").open() as stream:
        training.write_text("".join(islice(stream, _TRAINING_ROWS_OF_CHEMPROP)))
    # More epochs than its warm-up.
    train = ["train", "-i", training, "-o", where, "--epochs", 3, "-s", "smiles"]
    train += ["--target-columns", "label", "--accelerator", "cpu"]
    _timed("training", list(map(str, [program, *train])), where, rows)
    model = next(where.rglob("best.pt"))
    output = folder / "chemprop.csv"
    predict = ["predict", "-i", table, "-o", output, "--model-paths", model]
    predict += ["-s", "smiles", "--accelerator", "cpu", "-n", WORKERS]
    return _timed("chemprop", list(map(str, [program, *predict])), output, rows)


def _timed(name: str, command: Sequence[str], output: Path, rows: int) -> Row:
    before, begin = _cpu_of_children(), time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ
    )
    peak = 0
    while process.poll() is None:
        peak = max(peak, _pss(process.pid))
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    if process.returncode or not output.exists():
        raise ConfigError(
            f"{' '.join(command)} ended with status {process.returncode} and wrote no "
            f"predictions; run it separately to see why"
        )
    cpu, seconds = _cpu_of_children() - before, time.perf_counter() - begin
    return Row(name, rows, rows / cpu, rows / seconds, peak / 1e6)


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _pss(pid: int) -> int:
    """The proportional set size of a process and its descendants, in bytes."""
    total = 0
    try:
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            total += each.memory_full_info().pss
    except psutil.Error:  # a process has ended
        pass
    return total


def _write(
    file: Path,
    smiles: Sequence[str],
    labels: Sequence[float] | np.ndarray | None = None,
) -> None:
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        if labels is None:
            writer.writerows([["smiles"], *([text] for text in smiles)])
        else:
            writer.writerows([["smiles", "label"], *zip(smiles, labels, strict=True)])
