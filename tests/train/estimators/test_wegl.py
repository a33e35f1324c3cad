import numpy as np
import pytest

from fullrank.errors import ConfigError
from fullrank.train.estimators.wegl import WEGL


def test_transport_is_the_assignment_where_sizes_agree():
    """With as many nodes as points, each point moves to one node of its own."""
    scipy = pytest.importorskip("scipy.optimize")
    rng = np.random.default_rng(0)
    wegl = WEGL()
    wegl.reference = rng.normal(size=(6, 3))
    nodes = rng.normal(size=(12, 3)).astype(np.float32)
    found = wegl._transport(np.array([6, 6]), nodes)
    for z, row in zip(np.split(nodes, 2), found, strict=True):
        cost = ((wegl.reference[:, None] - z) ** 2).sum(axis=2)
        _, chosen = scipy.linear_sum_assignment(cost)
        expected = (z[chosen] - wegl.reference) / np.sqrt(6)
        assert np.allclose(row.reshape(6, 3), expected, atol=1e-5)


def test_the_order_of_nodes_does_not_matter():
    rng = np.random.default_rng(0)
    wegl = WEGL()
    wegl.reference = rng.normal(size=(4, 3))
    nodes = rng.normal(size=(7, 3))
    one, other = (wegl._transport(np.array([7]), x) for x in (nodes, nodes[::-1]))
    assert np.allclose(one, other, atol=1e-6)


def test_unknown_classifier():
    with pytest.raises(ConfigError, match="'svm'"):
        WEGL(classifier="svm")
