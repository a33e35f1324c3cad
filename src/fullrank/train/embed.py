"""Embeddings of molecules: the readout of a network, written to a file.

Molecules that are similar with respect to the target have similar embeddings, for
clustering, search, and as features of other models.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from fullrank.data.cache import shown
from fullrank.data.featurizers import featurize
from fullrank.data.tables import open_table
from fullrank.data.workers import available_cpus, batched
from fullrank.errors import ConfigError, DataError
from fullrank.extras import need
from fullrank.train.files import replacing
from fullrank.train.predict import MOLECULES_AT_ONCE, Predictor


class Embedded(NamedTuple):
    """A block of molecules as vectors.

    Attributes:
        smiles: The SMILES as given in the table.
        vectors: ``[M, d]``; NaN for molecules without a vector.
        reasons: Why a molecule has no vector, or None.
    """

    smiles: list[str]
    vectors: np.ndarray
    reasons: list[str | None]


def embed_file(
    predictor: Predictor,
    source: Path,
    output: Path,
    smiles: str | None = None,
    workers: int | None = None,
    progress: bool = False,
) -> tuple[int, int]:
    """Write the readout vector of each molecule of a table.

    Args:
        predictor: The model; the vectors of an ensemble are concatenated.
        source: The table.
        output: ``.npy`` for only the vectors, with NaN for molecules without one, or
            ``.parquet`` with the columns ``smiles``, ``embedding`` and ``reason``.
        smiles: Column of the SMILES; by default named as in training.
        workers: Number of featurisation processes; by default one per processor.
        progress: Whether to show a progress bar.

    Returns:
        Number of molecules with a vector, and number of rows.
    """
    writers = {".npy": _write_npy, ".parquet": _write_parquet}
    if output.suffix not in writers:
        raise ConfigError(f"{output} must end in .npy or .parquet")
    column = smiles or predictor.spec.smiles or "smiles"
    with open_table(source) as table:
        table.column(column)
        rows = sum(1 for _ in table)
    done = 0

    def counted() -> Iterator[Embedded]:
        nonlocal done
        texts = shown(_smiles(source, column), rows, "embed", progress)
        for block in embedded(predictor, texts, workers or available_cpus()):
            done += block.reasons.count(None)
            yield block

    with replacing(output, "wb") as stream:
        writers[output.suffix](stream, counted(), (rows, predictor.embedding_size))
    return done, rows


def embedded(
    predictor: Predictor, smiles: Iterable[str | DataError], workers: int
) -> Iterator[Embedded]:
    """Embed molecules block by block."""
    waiting: deque[list[str | DataError]] = deque()

    def blocks() -> Iterator[list]:
        for block in batched(smiles, MOLECULES_AT_ONCE):
            waiting.append(block)
            yield block

    for made in featurize(predictor.reading, blocks(), workers):
        given = waiting.popleft()
        vectors = np.full((len(given), predictor.embedding_size), np.nan, np.float32)
        if made.graphs is not None:
            usable = [reason is None for reason in made.reasons]
            vectors[usable] = predictor.embeddings(made.graphs)
        texts = ["" if isinstance(text, DataError) else text for text in given]
        yield Embedded(texts, vectors, made.reasons)


def _smiles(source: Path, column: str) -> Iterator[str | DataError]:
    with open_table(source) as table:
        place = table.column(column)
        for row in table:
            problem = table.misfit(row.cells)
            yield DataError(problem) if problem else row.cells[place]


def _write_npy(
    stream: IO[bytes], blocks: Iterable[Embedded], shape: tuple[int, int]
) -> None:
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    for block in blocks:
        stream.write(block.vectors.astype("<f4").tobytes())


def _write_parquet(
    stream: IO[bytes], blocks: Iterable[Embedded], shape: tuple[int, int]
) -> None:
    need("pyarrow")
    import pyarrow as pa
    from pyarrow import parquet

    vector = pa.list_(pa.float32(), shape[1])
    schema = pa.schema(
        {"smiles": pa.string(), "embedding": vector, "reason": pa.string()}
    )
    with parquet.ParquetWriter(stream, schema) as writer:
        for block in blocks:
            flat = pa.array(block.vectors.ravel())
            vectors = pa.FixedSizeListArray.from_arrays(flat, shape[1])
            columns = [
                pa.array(block.smiles),
                vectors,
                pa.array(block.reasons, pa.string()),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
