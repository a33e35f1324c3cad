import pytest

from fullrank.nn import ExpandingConv
from fullrank.testing import random_graph


@pytest.fixture
def local():
    """The neighbourhoods of a random graph with five features."""
    x, edge_index = random_graph(5, num_nodes=7, num_edges=15)
    return ExpandingConv(5, 4).neighborhoods(x, edge_index)
