r"""The paper's sums over edges, in the paper's notation.

This is the definition of the layers: plain operations on any device, one row for each
pair :math:`(v, u)` with :math:`u \in \mathcal{N}(v)`, and for ExpandingConv a tensor of
pairs times :math:`s d`. The kernels of :mod:`fullrank.nn.kernels` compute the same;
``with fullrank.nn.backend("plain")`` runs the layers with these functions.

A pair has coefficients :math:`\mathbf{m}_{uv}`, a row of ``m``, and the features of its
neighbour, :math:`\mathbf{h}_u + \mathbf{W}_e \mathbf{e}_{uv}`, a row of ``h``.
"""

from collections.abc import Callable

from torch import Tensor


def expand(m: Tensor, h: Tensor) -> Tensor:
    r"""ExpandingConv: :math:`\mathrm{vec}(\mathbf{m}_{uv} \mathbf{h}_u^{\top})`, where
    :math:`m_k h_i` is entry :math:`k d + i`."""
    return (m[:, :, None] * h[:, None, :]).flatten(1)  # [E, s * d]


def combine(m: Tensor, h: Tensor) -> Tensor:
    r"""CombConv: :math:`\mathbf{m}_{uv} \odot \mathbf{h}_u`."""
    return m * h  # [E, d]


def extract(
    z: Tensor,
    mlp: Callable[[Tensor], Tensor],
    aggregate: Callable[[Tensor], Tensor],
    re_sum: bool,
) -> Tensor:
    r"""With Re-SUM :math:`\sum_u \mathrm{MLP}(\mathbf{z}_{uv})`, without it
    :math:`\mathrm{MLP}(\sum_u \mathbf{z}_{uv})`.

    Args:
        z: The result of :func:`expand` or :func:`combine`.
        mlp: The MLP.
        aggregate: The sum, which maps rows of pairs to rows of nodes :math:`v`.
        re_sum: Whether to apply the MLP before the sum.
    """
    return aggregate(mlp(z)) if re_sum else mlp(aggregate(z))


def take_rows(x: Tensor, index: Tensor) -> Tensor:
    """Return ``x[index]``."""
    return x.index_select(0, index)


def sum_rows(x: Tensor, index: Tensor, size: int) -> Tensor:
    """Return the sum of the rows of ``x`` for each value of ``index``."""
    return x.new_zeros(size, *x.shape[1:]).index_add(0, index, x)
