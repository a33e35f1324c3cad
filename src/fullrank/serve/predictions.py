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

#: How many blocks of one request are under way, so that no process waits for it.
BLOCKS_AHEAD = 3
_BLOCK = TypeAdapter(list[Prediction])


@dataclass(frozen=True)
class Table:
    """An uploaded table.

    Attributes:
        header: Its columns without those that predictions replace.
        cells: Of these columns, for each row.
        smiles: For each row the molecule, or why it is not a row of the table.
    """

    header: list[str]
    cells: list[list[str]]
    smiles: list[str | DataError]


def read_table(body: bytes, model: ServedModel, column: str | None) -> Table:
    """The table in a request.

    Args:
        column: That of the SMILES; by default as in the model's training.
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
    return Table([table.header[i] for i in kept], cells, smiles)


async def predicted(
    model: ServedModel, smiles: Sequence[Any], seconds: float
) -> AsyncIterator[list[list[Any]]]:
    """Blocks of rows; the first one is there when this returns, so that a server that
    is busy or slow still says so."""
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
    """The first rows and those of all blocks, with ``late`` for rows that are late."""
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
    """The rows of a block, as soon as there is room for it."""
    while True:
        with suppress(Busy):
            return await model.batcher.answers(block)
        await asyncio.sleep(0.05)


async def as_csv(
    model: ServedModel, table: Table, blocks: AsyncIterator[list[list[Any]]]
) -> AsyncIterator[str]:
    """The table with the columns of the predictions."""
    yield table_text([[*table.header, *model.columns]])
    cells = iter(table.cells)
    async for rows in blocks:
        yield table_text([*next(cells), *row] for row in rows)


async def as_json(
    model: ServedModel, smiles: Iterable[str], blocks: AsyncIterator[list[list[Any]]]
) -> AsyncIterator[bytes]:
    """The text of `fullrank.serve.app.Predictions`."""
    given = iter(smiles)
    yield b'{"model":' + TypeAdapter(str).dump_json(model.name) + b',"predictions":['
    separator = b""
    async for rows in blocks:
        found = [model.prediction(next(given), row) for row in rows]
        yield separator + _BLOCK.dump_json(found)[1:-1]
        separator = b","
    yield b"]}"
