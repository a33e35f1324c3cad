"""The server under load: many concurrent clients, on this machine."""

import asyncio
import json
import math
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

import aiohttp
import numpy as np
from rich.console import Console
from rich.table import Table

from fullrank.bench.provenance import provenance
from fullrank.data.tables import open_table
from fullrank.errors import RunError
from fullrank.train.predict import load_predictor

MOLECULES = 1000  # each request samples from these
MOST_ROWS = 8  # per request


@dataclass(frozen=True)
class Load:
    """Measurements of the clients.

    Attributes:
        clients: Number of concurrent clients; each sends a request after the previous
            answer.
        seconds: Duration.
        requests: Number of answered requests.
        rows: Number of molecules that were predicted or rejected.
        errors: Number of answers with a status other than 200, and of broken
            connections.
        wrong_rows: Number of rows that are missing or have the prediction of another
            molecule.
        rows_per_second: Total over all clients.
        median_ms, p99_ms: Time from a request to the end of its answer.
        ended: Exit status of the server after SIGTERM.
    """

    clients: int
    seconds: float
    requests: int
    rows: int
    errors: int
    wrong_rows: int
    rows_per_second: float
    median_ms: float
    p99_ms: float
    ended: int


def run(
    quick: bool,
    json_file: Path | None,
    model: Path,
    molecules: Path,
    clients: int,
    seconds: float,
) -> Load:
    """Measure, print, and write the numbers as JSON if a file is given.

    Raises:
        RunError: If an answer is missing or wrong, or the server does not exit cleanly.
    """
    found = measure(model, molecules, clients, 5.0 if quick else seconds)
    table = Table(title=f"{clients} clients for {found.seconds:.0f} seconds")
    for name, value in asdict(found).items():
        shown = f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
        table.add_row(name.replace("_", " "), shown)
    Console().print(table)
    if json_file is not None:
        content = {"provenance": asdict(provenance()), "load": asdict(found)}
        json_file.write_text(json.dumps(content, indent=1))
    if found.errors or found.wrong_rows or found.ended:
        raise RunError(
            f"the server gave {found.errors} errors and {found.wrong_rows} wrong rows, "
            f"and exited with status {found.ended}"
        )
    return found


def measure(model: Path, molecules: Path, clients: int, seconds: float) -> Load:
    """Serve a model, and compare its answers with known predictions."""
    predictor = load_predictor(model)
    with open_table(molecules) as table:
        place = table.column("smiles")
        cells = [row.cells[place] for row in islice(table, MOLECULES) if row.cells]
    smiles = [*dict.fromkeys(cells), "not a molecule"]
    column = predictor.columns[0]
    found = predictor.predict(smiles)[column].tolist()
    seen = _Seen(column, dict(zip(smiles, found, strict=True)))
    with _server(model) as (process, address):
        begin = time.perf_counter()
        asyncio.run(_clients(address, clients, begin + seconds, seen))
        elapsed = time.perf_counter() - begin
        process.send_signal(signal.SIGTERM)
        ended = process.wait()
    return Load(
        clients=clients,
        seconds=elapsed,
        requests=len(seen.seconds),
        rows=seen.rows,
        errors=seen.errors,
        wrong_rows=seen.wrong_rows,
        rows_per_second=seen.rows / elapsed,
        median_ms=1e3 * float(np.median(seen.seconds)),
        p99_ms=1e3 * float(np.quantile(seen.seconds, 0.99)),
        ended=ended,
    )


@dataclass
class _Seen:
    """Compares all answers with the expected predictions of the molecules."""

    column: str
    truth: Mapping[str, float]  # NaN where there is no prediction
    seconds: list[float] = field(default_factory=list)
    rows: int = 0
    errors: int = 0
    wrong_rows: int = 0

    def add(self, asked: Sequence[str], answer: dict) -> None:
        rows = answer["predictions"]
        self.rows += len(rows)
        good = sum(map(self._is_right, asked, rows))
        self.wrong_rows += max(len(asked), len(rows)) - good

    def _is_right(self, smiles: str, row: dict) -> bool:
        if row["smiles"] != smiles:
            return False
        if math.isnan(self.truth[smiles]):
            return row["reason"] is not None
        found = row["values"].get(self.column, math.nan)
        return math.isclose(found, self.truth[smiles], rel_tol=1e-3, abs_tol=1e-3)


@contextmanager
def _server(model: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "fullrank", "serve", str(model), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise RunError(
                f"{' '.join(command)} did not start; run it separately to see why"
            )
        yield process, address
    finally:
        process.kill()
        process.wait()


async def _clients(address: str, clients: int, end: float, seen: _Seen) -> None:
    connector = aiohttp.TCPConnector(limit=clients)
    async with aiohttp.ClientSession(address, connector=connector) as session:
        asking = (_client(session, random.Random(n), end, seen) for n in range(clients))
        await asyncio.gather(*asking)


async def _client(
    session: aiohttp.ClientSession, draw: random.Random, end: float, seen: _Seen
) -> None:
    """Repeatedly send requests for a few molecules."""
    known = list(seen.truth)
    while (begin := time.perf_counter()) < end:
        asked = draw.sample(known, min(len(known), draw.randint(1, MOST_ROWS)))
        try:
            async with session.post("/predict", json={"smiles": asked}) as answer:
                if answer.status == 200:
                    seen.add(asked, await answer.json())
                    seen.seconds.append(time.perf_counter() - begin)
                else:
                    seen.errors += 1
        except (aiohttp.ClientError, TimeoutError):
            seen.errors += 1
