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
    bits = np.ascontiguousarray(np.unpackbits(known, axis=1).T)  # [bits, K]
    sizes = bits.sum(axis=0, dtype=np.uint16)  # [K]
    found = np.empty(len(queries))
    for row, query in enumerate(np.unpackbits(queries, axis=1)):
        shared = bits[query.nonzero()[0]]  # [bits of the query, K]
        common = shared.sum(axis=0, dtype=np.uint16)
        union = sizes + np.uint16(len(shared)) - common
        # A molecule without atoms has no bits; it is similar to none.
        found[row] = np.divide(common, np.maximum(union, 1), dtype=float).max()
    return found


@cache
def _generator() -> Any:
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    return GetMorganGenerator(radius=RADIUS, fpSize=NUM_BITS)
