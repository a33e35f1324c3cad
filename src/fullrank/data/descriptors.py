"""Descriptors: numbers about a whole molecule, which a network reads before its head.

Only what RDKit computes in C++ is used. The complete list of its Python interface takes
seven times as long, most of it for a few of the descriptors.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fullrank.data.packed.graphs import Field, Part

if TYPE_CHECKING:
    from rdkit import Chem

DescriptorKind = Literal["rdkit", "morgan"]
MORGAN_COLUMNS = 1024
MORGAN_RADIUS = 2
# Connectivity indices of higher order follow from the others and take half the time.
_SLOW = ("chi2v", "chi3v", "chi4v", "chi2n", "chi3n", "chi4n", "kappa3")
_LARGEST = 1e6  # of a descriptor, so that squares fit into single precision


def descriptor_arrays(
    mol: "Chem.Mol", kinds: Sequence[DescriptorKind]
) -> dict[str, np.ndarray]:
    """The stored arrays of one molecule, by level and name."""
    return {f"graph.{kind}": _COMPUTED[kind](mol) for kind in kinds}


def descriptor_fields(kinds: Sequence[DescriptorKind]) -> dict[str, Field]:
    """What a batch carries: all descriptors side by side, as ``descriptors``."""
    parts = tuple(Part(f"graph.{kind}") for kind in kinds)
    return {"descriptors": Field(parts)} if parts else {}


def descriptor_names(kinds: Sequence[DescriptorKind]) -> list[str]:
    """What each column of ``descriptors`` is."""
    found: list[str] = []
    for kind in kinds:
        if kind == "rdkit":
            found += _rdkit_names()
        else:
            found += [f"Morgan {column}" for column in range(MORGAN_COLUMNS)]
    return found


def _rdkit(mol: "Chem.Mol") -> np.ndarray:
    """Properties, counts (MQN) and surface areas by charge, refractivity and logP."""
    from rdkit.Chem import rdMolDescriptors as rdkit

    values = [
        *_properties().ComputeProperties(mol),
        *rdkit.MQNs_(mol),
        *rdkit.PEOE_VSA_(mol),
        *rdkit.SMR_VSA_(mol),
        *rdkit.SlogP_VSA_(mol),
    ]
    # Partial charges of elements without parameters are not numbers.
    known = np.nan_to_num(np.array(values), nan=0.0)
    return known.clip(-_LARGEST, _LARGEST).astype(np.float32)


def _morgan(mol: "Chem.Mol") -> np.ndarray:
    """How often each kind of neighbourhood occurs, hashed into some columns."""
    counts = _generator().GetCountFingerprintAsNumPy(mol)
    return counts.clip(max=255).astype(np.uint8)


_COMPUTED = {"rdkit": _rdkit, "morgan": _morgan}


@cache
def _generator() -> Any:
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    return GetMorganGenerator(radius=MORGAN_RADIUS, fpSize=MORGAN_COLUMNS)


@cache
def _properties() -> Any:
    from rdkit.Chem.rdMolDescriptors import Properties

    return Properties([n for n in Properties().GetPropertyNames() if n not in _SLOW])


@cache
def _rdkit_names() -> list[str]:
    tables = {"MQN": 42, "PEOE_VSA": 14, "SMR_VSA": 10, "SlogP_VSA": 12}
    return [
        *_properties().GetPropertyNames(),
        *(f"{name}{i + 1}" for name, n in tables.items() for i in range(n)),
    ]
