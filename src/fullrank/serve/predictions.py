"""Predictions as streams: blocks of rows, as JSON or as a table."""

import asyncio
import io
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from fullrank.data.tables import table_text, text_table
from fullrank.data.workers import batched
from fullrank.errors import DataError
from fullrank.serve.batching import Busy
from fullrank.serve.models import Prediction, ServedModel

#: Number of blocks of one request in progress, so that no process is idle.
BLOCKS_AHEAD = 3
_BLOCK = TypeAdapter(list[Prediction])


@dataclass(frozen=True)
class UploadedTable:
    """An uploaded table.

    Attributes:
        header: Its columns, except those that predictions replace.
        cells: The cells of these columns, for each row.
        smiles: The molecule of each row, or the reason why the row is rejected.
    """

    header: list[str]
    cells: list[list[str]]
    smiles: list[str | DataError]


def read_table(body: bytes, model: ServedModel, column: str | None) -> UploadedTable:
    """Read the table of a request.

    Args:
        column: Column of the SMILES; by default as in training.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"the table is not UTF-8 text ({error})") from None
    table = text_table(Path("the table"), io.StringIO(text, newline=""))
    place = table.column(column or model.card.smiles)
    kept = [i for i, name in enumerate(table.header) if name not in model.columns]
    cells, smiles = [], []
    for row in table:
        problem = table.misfit(row.cells)
        padded = row.cells + [""] * len(table.header)
        cells.append([padded[i] for i in kept])
        smiles.append(DataError(problem) if problem else padded[place])
    return UploadedTable([table.header[i] for i in kept], cells, smiles)


async def predicted(
    model: ServedModel, smiles: Sequence[Any], seconds: float
) -> AsyncIterator[list[list[Any]]]:
    """Blocks of rows. The first one is computed before this returns, so that a busy
    server can still answer with an error status."""
    deadline = asyncio.get_running_loop().time() + seconds
    blocks = deque(batched(smiles, model.batcher.at_once))
    first: list[list[Any]] = []
    if blocks:
        async with asyncio.timeout_at(deadline):
            first = await model.batcher.answers(blocks.popleft())
    late = [*[None] * (len(model.columns) - 1), f"not predicted within {seconds:g} s"]
    return _stream(model, first, blocks, deadline, late)


async def _stream(
    model: ServedModel,
    first: list[list[Any]],
    blocks: deque[list[Any]],
    deadline: float,
    late: list[Any],
) -> AsyncIterator[list[list[Any]]]:
    """The rows of all blocks; ``late`` replaces rows that exceed the time limit."""
    if first:
        yield first
    under_way: deque[tuple[int, asyncio.Task[list[list[Any]]]]] = deque()
    try:
        while blocks or under_way:
            while blocks and len(under_way) < BLOCKS_AHEAD:
                block = blocks.popleft()
                task = asyncio.create_task(_patiently(model, block))
                under_way.append((len(block), task))
            size, task = under_way.popleft()
            try:
                async with asyncio.timeout_at(deadline):
                    rows = await task
            except TimeoutError:
                rows = [late] * size
            yield rows
    finally:
        for _, task in under_way:
            task.cancel()


async def _patiently(model: ServedModel, block: list[Any]) -> list[list[Any]]:
    """The rows of a block, computed as soon as the queue has room."""
    while True:
        with suppress(Busy):
            return await model.batcher.answers(block)
        await asyncio.sleep(0.05)


async def as_csv(
    model: ServedModel, table: UploadedTable, blocks: AsyncIterator[list[list[Any]]]
) -> AsyncIterator[str]:
    """The table with the predictions as further columns, as CSV."""
    yield table_text([[*table.header, *model.columns]])
    cells = iter(table.cells)
    async for rows in blocks:
        yield table_text([*next(cells), *row] for row in rows)


async def as_json(
    model: ServedModel, smiles: Iterable[str], blocks: AsyncIterator[list[list[Any]]]
) -> AsyncIterator[bytes]:
    """The JSON text of `fullrank.serve.app.Predictions`."""
    given = iter(smiles)
    yield b'{"model":' + TypeAdapter(str).dump_json(model.name) + b',"predictions":['
    separator = b""
    async for rows in blocks:
        found = [model.prediction(next(given), row) for row in rows]
        yield separator + _BLOCK.dump_json(found)[1:-1]
        separator = b","
    yield b"]}"
