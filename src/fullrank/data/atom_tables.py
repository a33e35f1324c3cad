"""OGB's features of many molecules at once.

Asking RDKit for nine properties of every atom takes longer than parsing the SMILES. Its
binary form of a molecule holds all of them: atoms, bonds and rings one after the other,
each with a byte of flags and one byte for every value that is not the default. Here the
binaries of a block of molecules are read side by side with numpy.

RDKit does not document this form, so nothing is taken on trust. `reads_binaries`
compares the result with RDKit's accessors once per process, and a molecule whose binary
is not laid out as expected has no table; `fullrank.data.molecules` asks RDKit then.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fullrank.data.ogb_features import ogb_features

if TYPE_CHECKING:
    from rdkit import Chem

# Places in a binary, and the tags before its bonds and rings.
_NUM_ATOMS, _NUM_BONDS, _FIRST_ATOM = 20, 24, 30
_BONDS_BEGIN, _RINGS_BEGIN = 0x0B, 0x42
_MOST_ATOMS = 200  # indices of atoms are single bytes up to 255
# An atom is its number, a byte of flags, 32 flags of values, and the values.
_AROMATIC, _KNOWN_OF_ATOM, _ISOTOPE = 0x40, 0x60, 0x01
_CHARGE, _CHIRALITY, _HYBRIDISATION, _EXPLICIT_HS = 1, 2, 3, 4
_IMPLICIT_HS, _RADICALS = 6, 7
_SP3 = 4
# A bond is two atoms, a byte of flags, and the values; stereo comes with atoms.
_CONJUGATED, _TYPE, _DIRECTION, _STEREO, _KNOWN_OF_BOND = 0x20, 0x08, 0x04, 0x02, 0x6E
_SINGLE = 1
_ONES = np.array([byte.bit_count() for byte in range(256)])
_NO_CATEGORY = 255


class AtomTable(NamedTuple):
    """One molecule.

    Attributes:
        atoms: OGB's nine features: ``[N, 9]``.
        ends: The two atoms of each bond: ``[B, 2]``.
        bonds: OGB's three features: ``[B, 3]``.
    """

    atoms: np.ndarray
    ends: np.ndarray
    bonds: np.ndarray


def tables(mols: "Sequence[Chem.Mol]") -> list[AtomTable | None]:
    """The table of each molecule, or None if its binary cannot be read."""
    binaries = [mol.ToBinary() for mol in mols]
    block = _Block(binaries)
    readable = block.readable()
    if not readable.all():  # what is misread must not spill into the others
        block = _Block([binaries[place] for place in np.flatnonzero(readable)])
    ends = block.ends()
    after_atoms = np.cumsum(block.num_atoms)
    after_bonds = np.cumsum(block.num_bonds)
    pieces = zip(
        np.split(block.atoms(ends), after_atoms),
        np.split(ends, after_bonds),
        np.split(block.bonds(), after_bonds),
        strict=True,
    )
    return [AtomTable(*next(pieces)) if ok else None for ok in readable.tolist()]


class _Block:
    """The binaries of some molecules, and where their atoms, bonds and rings are."""

    def __init__(self, binaries: Sequence[bytes]) -> None:
        lengths = np.array([len(binary) for binary in binaries], dtype=np.int64)
        last = np.cumsum(lengths)
        first = last - lengths
        # Room to look ahead in a binary that is laid out differently.
        self.data = np.frombuffer(b"".join([*binaries, bytes(512)]), np.uint8)
        num_atoms, num_bonds = self._int32(first + _NUM_ATOMS, first + _NUM_BONDS)
        known = (num_atoms <= _MOST_ATOMS) & (num_bonds < lengths)
        self.num_atoms = np.where(known, num_atoms, 0)
        self.num_bonds = np.where(known, num_bonds, 0)
        begin = first + _FIRST_ATOM
        self.atom, end = self._walk(begin, self.num_atoms, self._atom_length)
        known &= self.data[end] == _BONDS_BEGIN
        self.bond, end = self._walk(end + 1, self.num_bonds, self._bond_length)
        known &= self.data[end] == _RINGS_BEGIN
        (num_rings,) = self._int32(end + 1)
        known &= num_rings <= self.num_bonds
        self.num_rings = np.where(known, num_rings, 0)
        self.ring, end = self._walk(end + 5, self.num_rings, self._ring_length)
        self.known = known & (end < last)
        self.first_atom = np.cumsum(self.num_atoms) - self.num_atoms

    def atoms(self, ends: np.ndarray) -> np.ndarray:
        """OGB's features: ``[N, 9]``."""
        total = len(self.atom)
        hydrogens = self._value(_EXPLICIT_HS) + self._value(_IMPLICIT_HS)
        joined = ends + np.repeat(self.first_atom, self.num_bonds)[:, None]
        degree = np.bincount(joined.ravel(), minlength=total)[:total]
        return _as_categories(
            atomic_num=self.data[self.atom],
            chirality=self._value(_CHIRALITY),
            degree=degree + hydrogens,
            formal_charge=self._value(_CHARGE),
            numH=hydrogens,
            number_radical_e=self._value(_RADICALS),
            hybridization=self._value(_HYBRIDISATION, default=_SP3),
            is_aromatic=self.data[self.atom + 1] & _AROMATIC != 0,
            is_in_ring=self._in_ring(),
        )

    def ends(self) -> np.ndarray:
        """The two atoms of each bond: ``[B, 2]``."""
        return self.data[self.bond[:, None] + np.arange(2)].astype(np.int64)

    def bonds(self) -> np.ndarray:
        """OGB's features: ``[B, 3]``."""
        flags, after = self.data[self.bond + 2], self.bond + 3
        typed, directed = flags & _TYPE != 0, flags & _DIRECTION != 0
        stereo = self.data[after + typed + directed]
        return _as_categories(
            bond_type=np.where(typed, self.data[after], _SINGLE),
            bond_stereo=np.where(flags & _STEREO != 0, stereo, 0),
            is_conjugated=flags & _CONJUGATED != 0,
        )

    def readable(self) -> np.ndarray:
        """Which molecules hold nothing but what is read here: ``[M]``."""
        flags = self.data[self.atom[:, None] + np.arange(1, 6)]
        accepted = np.array([_KNOWN_OF_ATOM, 0xFE, _ISOTOPE, 0, 0], np.uint8)
        strange_atom = (flags & ~accepted).any(axis=1)
        strange_bond = self.data[self.bond + 2] & ~np.uint8(_KNOWN_OF_BOND) != 0
        strange_bond |= (self.bonds() == _NO_CATEGORY).any(axis=1)
        readable = self.known.copy()
        for strange, counts in (
            (strange_atom, self.num_atoms),
            (strange_bond, self.num_bonds),
        ):
            readable[np.repeat(np.arange(len(counts)), counts)[strange]] = False
        return readable

    def _value(self, flag: int, default: int = 0) -> np.ndarray:
        """The value of each atom: ``[N]``."""
        flags = self.data[self.atom + 2]
        place = self.atom + 6 + _ONES[flags & ((1 << flag) - 1)]
        return np.where(flags >> flag & 1, self.data[place], default)

    def _in_ring(self) -> np.ndarray:
        """Whether each atom is in a ring: ``[N]``."""
        sizes = self.data[self.ring].astype(np.int64)
        begin = np.repeat(self.ring + 1 - np.cumsum(sizes) + sizes, sizes)
        members = self.data[begin + np.arange(len(begin))]
        first = np.repeat(np.repeat(self.first_atom, self.num_rings), sizes)
        found = np.bincount(first + members, minlength=len(self.atom))
        return found[: len(self.atom)] > 0

    def _atom_length(self, at: np.ndarray) -> np.ndarray:
        isotope = 4 * (self.data[at + 3] & _ISOTOPE)
        return 6 + _ONES[self.data[at + 2]] + isotope

    def _bond_length(self, at: np.ndarray) -> np.ndarray:
        flags = self.data[at + 2]
        length = 3 + _ONES[flags & (_TYPE | _DIRECTION)]
        atoms = self.data[at + length + 1]
        return length + np.where(flags & _STEREO, 2 + atoms.astype(np.int64), 0)

    def _ring_length(self, at: np.ndarray) -> np.ndarray:
        return 1 + self.data[at].astype(np.int64)

    def _int32(self, *places: np.ndarray) -> list[np.ndarray]:
        bytes_at = [self.data[at[:, None] + np.arange(4)] for at in places]
        return [four.view("<u4")[:, 0].astype(np.int64) for four in bytes_at]

    def _walk(
        self,
        begin: np.ndarray,
        counts: np.ndarray,
        length: Callable[[np.ndarray], np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where records of different length start: step by step, but in all molecules
        at once.

        Returns:
            The places of ``counts`` records of each molecule, and where they end.
        """
        order = np.argsort(-counts, kind="stable")  # those that go on stand first
        at, first = begin[order], (np.cumsum(counts) - counts)[order]
        places = np.empty(counts.sum(), dtype=np.int64)
        longest = int(counts.max(initial=0))
        going_on = len(counts) - np.cumsum(np.bincount(counts, minlength=longest))
        for step, n in enumerate(going_on[:longest].tolist()):
            places[first[:n] + step] = at[:n]
            at[:n] = np.minimum(at[:n] + length(at[:n]), len(self.data) - 300)
        end = np.empty_like(at)
        end[order] = at
        return places, end


def _as_categories(**values: np.ndarray) -> np.ndarray:
    """RDKit's values, by the names of OGB's lists, as columns of categories."""
    known = _categories()
    columns = [known[name].take(column, mode="clip") for name, column in values.items()]
    return np.stack(columns, axis=1)


@cache
def _categories() -> Mapping[str, np.ndarray]:
    """For each of OGB's lists, the position of the value that a byte stands for."""
    from rdkit.Chem import rdchem

    meanings: dict[str, Callable[[int], Any]] = {
        "chirality": lambda byte: str(rdchem.ChiralType.values.get(byte)),
        "hybridization": lambda byte: str(rdchem.HybridizationType.values.get(byte)),
        "bond_type": lambda byte: str(rdchem.BondType.values.get(byte)),
        "bond_stereo": lambda byte: str(rdchem.BondStereo.values.get(byte)),
        "formal_charge": lambda byte: byte - 256 if byte > 127 else byte,
    }
    found = {}
    for key, values in ogb_features().allowable_features.items():
        name = key.removeprefix("possible_").removesuffix("_list")
        meaning = meanings.get(name, int)
        other = len(values) - 1 if values[-1] == "misc" else _NO_CATEGORY
        position = {value: place for place, value in enumerate(values)}
        found[name] = np.array(
            [position.get(meaning(byte), other) for byte in range(256)], np.uint8
        )
    return found
