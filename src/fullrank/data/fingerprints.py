"""Morgan fingerprints: how similar a molecule is to those that are known."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rdkit import Chem

RADIUS = 2
NUM_BITS = 1024
NUM_BYTES = NUM_BITS // 8


def fingerprints(mols: "Sequence[Chem.Mol]") -> np.ndarray:
    """The folded fingerprint of each molecule, as bytes of bits: ``[M, 128]``."""
    from rdkit.DataStructs import BitVectToBinaryText

    generator = _generator()
    texts = [BitVectToBinaryText(generator.GetFingerprint(mol)) for mol in mols]
    return np.frombuffer(b"".join(texts), np.uint8).reshape(-1, NUM_BYTES)


def nearest_similarity(queries: np.ndarray, known: np.ndarray) -> np.ndarray:
    r"""The largest Tanimoto similarity of each fingerprint to one that is known.

    .. math:: \max_k \frac{|q \cap k|}{|q \cup k|}

    Args:
        queries: ``[M, bytes]``.
        known: ``[K, bytes]``, at least one.
    """
    words = np.ascontiguousarray(known).view(np.uint64).T.copy()  # [words, K]
    sizes = np.bitwise_count(words).sum(axis=0, dtype=np.int32)  # [K]
    found = np.empty(len(queries))
    for row, query in enumerate(np.ascontiguousarray(queries).view(np.uint64)):
        common = np.zeros(len(sizes), dtype=np.int32)
        for column, word in zip(words, query, strict=True):
            if word:
                common += np.bitwise_count(column & word)
        union = sizes + np.bitwise_count(query).sum(dtype=np.int32) - common
        found[row] = (common / np.maximum(union, 1)).max()  # without atoms, 0
    return found


@cache
def _generator() -> Any:
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    return GetMorganGenerator(radius=RADIUS, fpSize=NUM_BITS)
