r"""Coefficient matrices: their rank, and Propositions 1 to 3 as functions.

All statements are about *fixed* matrices M. In a layer M depends on the features, so
even with full rank a layer may have collisions: see :func:`fullrank.lab.collide`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fullrank.errors import ModelError
from fullrank.lab.theory.distance import multiset_distance

RTOL = 1e-10


def numerical_rank(matrix: Tensor, rtol: float = RTOL) -> Tensor:
    """Number of singular values above `rtol` times the largest one.

    Args:
        matrix: One matrix or a batch of them, ``[..., s, n]``.
        rtol: Relative tolerance.
    """
    return ranks(matrix, rtol)[0]


def effective_rank(matrix: Tensor) -> Tensor:
    r"""The exponential of the entropy of the singular values, between 1 and the rank.

    .. math::
        \exp\Big(-\sum_i p_i \log p_i\Big), \quad p_i = \sigma_i / \sum_j \sigma_j

    (Roy and Vetterli, 2007); 0 for the zero matrix.
    """
    return ranks(matrix)[1]


def ranks(matrix: Tensor, rtol: float = RTOL) -> tuple[Tensor, Tensor]:
    """Numerical and effective rank of one matrix or a batch, from one decomposition."""
    values = _singular_values(matrix)
    largest = values.amax(dim=-1, keepdim=True) if values.size(-1) else values
    total = values.sum(dim=-1)
    shares = values / total.clamp(min=torch.finfo(values.dtype).tiny).unsqueeze(-1)
    effective = torch.special.entr(shares).sum(dim=-1).exp() * (total > 0)
    return (values > rtol * largest).sum(dim=-1), effective


@dataclass(frozen=True)
class StackingGain:
    """Proposition 1 (i) and (ii): the gain from stacking M′ on M.

    Attributes:
        rank_before: Rank of M.
        rank_after: Rank of the stack.
        example: Two sequences, different as multisets, that the stack distinguishes and
            M does not; ``None`` if there is no gain.
    """

    rank_before: int
    rank_after: int
    example: tuple[Tensor, Tensor] | None

    @property
    def strictly_stronger(self) -> bool:
        return self.rank_after > self.rank_before


def stacking_gain(matrix: Tensor, added: Tensor, rtol: float = RTOL) -> StackingGain:
    r"""Does :math:`f_{\binom{M}{M'}}` distinguish more than :math:`f_M`?

    It always distinguishes at least as much, and strictly more if and only if the rank
    grows.

    Args:
        matrix: M, ``[s, n]``.
        added: M′, ``[s', n]``.
        rtol: Relative tolerance of the ranks.
    """
    before = int(numerical_rank(matrix, rtol))
    after = int(numerical_rank(torch.cat([matrix, added]), rtol))
    if after == before:
        return StackingGain(before, after, None)
    ignored = null_space(matrix, rtol)  # [n, n - rank]
    strongest = torch.linalg.svd(added.double() @ ignored).Vh[0]
    return StackingGain(before, after, _shifted(ignored @ strongest))


@dataclass(frozen=True)
class Injectivity:
    """Proposition 1 (iii): are all multisets of size n distinguished?

    Attributes:
        rank: Rank of M.
        size: n.
        example: Two sequences with the same output that are different multisets;
            ``None`` if there are none.
    """

    rank: int
    size: int
    example: tuple[Tensor, Tensor] | None

    @property
    def holds(self) -> bool:
        return self.rank == self.size


def injectivity(matrix: Tensor, rtol: float = RTOL) -> Injectivity:
    r"""Does :math:`f_M` distinguish every two multisets of size n?

    It does if and only if the rank of M is n.
    """
    rank, size = int(numerical_rank(matrix, rtol)), matrix.size(1)
    if rank == size:
        return Injectivity(rank, size, None)
    return Injectivity(rank, size, _shifted(null_space(matrix, rtol)[:, 0]))


@dataclass(frozen=True)
class Overlap:
    """Proposition 2: the overlap of the images of two aggregators, before and after.

    Attributes:
        before: Dimension of the overlap of the images of M₁ and M₂.
        after: The same for the stacked matrices, projected to the first s rows.
        rank_before: Rank of [M₁ M₂].
        rank_after: Rank of the stacked [M₁ M₂; M₁′ M₂′].
    """

    before: int
    after: int
    rank_before: int
    rank_after: int

    @property
    def shrinks(self) -> bool:
        return self.after < self.before


def overlap_dimension(
    first: Tensor, second: Tensor, dim: int = 1, rtol: float = RTOL
) -> int:
    r"""Dimension of the overlap of two images,
    :math:`d (\mathrm{rank} M_1 + \mathrm{rank} M_2 - \mathrm{rank} [M_1 M_2])`.

    Args:
        first: M₁, ``[s, n₁]``.
        second: M₂, ``[s, n₂]``.
        dim: d, the width of the rows that are aggregated.
        rtol: Relative tolerance of the ranks.
    """
    both = torch.cat([first, second], dim=1)
    ranks = [int(numerical_rank(matrix, rtol)) for matrix in (first, second, both)]
    return dim * (ranks[0] + ranks[1] - ranks[2])


def stacked_overlap(
    first: Tensor,
    second: Tensor,
    added_first: Tensor,
    added_second: Tensor,
    dim: int = 1,
    rtol: float = RTOL,
) -> Overlap:
    """The change of the overlap of two images when rows are added to both matrices.

    The overlap can shrink only if the rank of [M₁ M₂] grows. The converse is false;
    :data:`GROWTH_WITHOUT_GAIN` is an example.

    Args:
        first: M₁, ``[s, n₁]``.
        second: M₂, ``[s, n₂]``.
        added_first: M₁′, ``[s', n₁]``.
        added_second: M₂′, ``[s', n₂]``.
        dim: d, the width of the rows that are aggregated.
        rtol: Relative tolerance of the ranks.
    """
    low = torch.cat([first, second], dim=1)
    high = torch.cat([low, torch.cat([added_first, added_second], dim=1)])
    # The pairs (x₁, -x₂) with equal outputs; the overlap consists of M₁ x₁.
    agreeing = null_space(high, rtol)[: first.size(1)]
    shared = int(_rank_of_image(first.double(), agreeing, rtol))
    return Overlap(
        before=overlap_dimension(first, second, dim, rtol),
        after=dim * shared,
        rank_before=int(numerical_rank(low, rtol)),
        rank_after=int(numerical_rank(high, rtol)),
    )


#: M₁, M₂, M₁′, M₂′ for which the rank grows from 1 to 2 and the overlap is unchanged.
GROWTH_WITHOUT_GAIN = (
    torch.tensor([[1.0, 0.0]]),
    torch.tensor([[1.0, 0.0]]),
    torch.tensor([[0.0, 1.0]]),
    torch.tensor([[0.0, 1.0]]),
)


@dataclass(frozen=True)
class Certificate:
    r"""Proposition 3: two injective aggregators whose images meet only in zero.

    Zero is in every image, so "no intersection" means none but zero. If it holds, then
    for all :math:`X_1, X_2`

    .. math::
        \lVert M_1 X_1 - M_2 X_2 \rVert \ge
        \sigma_{\min}([M_1\, M_2]) \sqrt{\lVert X_1 \rVert^2 + \lVert X_2 \rVert^2}

    Attributes:
        rank: Rank of [M₁ M₂].
        needed: n₁ + n₂.
        smallest_singular_value: That of [M₁ M₂], over all n₁ + n₂ directions.
    """

    rank: int
    needed: int
    smallest_singular_value: float

    @property
    def holds(self) -> bool:
        return self.rank == self.needed

    def guaranteed_gap(self, first: Tensor, second: Tensor) -> float:
        """A lower bound on the distance between the outputs for two sequences."""
        size = torch.cat([first.flatten(), second.flatten()]).norm()
        return self.smallest_singular_value * float(size)


def certificate(first: Tensor, second: Tensor, rtol: float = RTOL) -> Certificate:
    """Certify that two aggregators are injective and share no output except zero.

    Args:
        first: M₁, ``[s, n₁]``.
        second: M₂, ``[s, n₂]``.
        rtol: Relative tolerance of the rank.
    """
    both = torch.cat([first, second], dim=1).double()
    rank, needed = int(numerical_rank(both, rtol)), both.size(1)
    smallest = _singular_values(both)[-1] if rank == needed else 0.0
    return Certificate(rank, needed, float(smallest))


def null_space(matrix: Tensor, rtol: float = RTOL) -> Tensor:
    """An orthonormal basis of ``{z : M z = 0}`` as columns, ``[n, n - rank]``."""
    rank = int(numerical_rank(matrix, rtol))
    return torch.linalg.svd(matrix.double()).Vh[rank:].T


def _rank_of_image(matrix: Tensor, basis: Tensor, rtol: float) -> Tensor:
    """Rank of M B for orthonormal columns B, with a tolerance relative to M."""
    values = _singular_values(matrix @ basis)
    largest = _singular_values(matrix)[:1]
    return (values > rtol * largest).sum() if values.numel() else values.sum()


def _shifted(direction: Tensor) -> tuple[Tensor, Tensor]:
    """Two sequences that differ by a multiple of `direction` and as multisets."""
    start = torch.arange(direction.numel(), dtype=direction.dtype).unsqueeze(1)
    # A permutation keeps the norm, which at most one of the two shifts can do.
    moved = [start + size * direction.unsqueeze(1) for size in (1, 2)]
    return start, max(moved, key=lambda other: multiset_distance(start, other))


def _singular_values(matrix: Tensor) -> Tensor:
    if not matrix.isfinite().all():
        raise ModelError(
            "a matrix with NaN or infinite entries has no rank; the weights or the "
            "features that it was computed from are not finite"
        )
    return torch.linalg.svdvals(matrix.double())
