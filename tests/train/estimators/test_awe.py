from itertools import pairwise

import numpy as np

from fullrank.train.estimators.awe import anonymous, random_walks, samples_needed


def test_anonymous_walks_are_equal_where_nodes_are_met_alike():
    walks = np.array([[5, 7, 5, 9], [1, 2, 1, 3], [1, 2, 3, 1], [4, 4, 4, 4]])
    first, second, third, fourth = anonymous(walks)
    assert first == second
    assert len({first, third, fourth}) == 3


def test_walks_follow_edges():
    edges = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])  # a path, and node 3 alone
    walks = random_walks(4, edges, 500, 5, np.random.default_rng(0))
    allowed = {(0, 1), (1, 0), (1, 2), (2, 1), (3, 3)}
    steps = {(a, b) for walk in walks.tolist() for a, b in pairwise(walk)}
    assert steps == allowed
    left = [walk[1] for walk in walks.tolist() if walk[0] == 1]
    assert 0.3 < left.count(0) / len(left) < 0.7  # both ways are as likely


def test_samples():
    # Two anonymous walks of one step (Bell's number of 2).
    assert samples_needed(1) == np.ceil(200 * (np.log(2**2 - 2) - np.log(0.05)))
