import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fullrank.lab import multiset_distance, numerical_rank
from fullrank.serve.lab import DISTANCE, LabQuestion, experiment, plane_layer

POINTS = [(0.0, 0.0), (1.0, 0.2), (-0.5, 1.0), (0.3, -1.2)]


def star(points):
    n = len(points)
    spokes = list(range(1, n))
    edges = torch.tensor([spokes + [0] * (n - 1), [0] * (n - 1) + spokes])
    return torch.tensor(points, dtype=torch.float64), edges


def assert_true(question, answer):
    """What is answered is what the layer does when it runs."""
    layer = plane_layer(question.layer, question.s, question.re_sum, question.seed)
    x, edges = star(question.points)
    torch.testing.assert_close(
        torch.tensor(answer.outputs[0]).double(), layer(x, edges)[0]
    )
    assert answer.found == (answer.second is not None)
    if not answer.found:
        return
    other, _ = star(answer.second)
    assert torch.equal(x[0], other[0])
    assert float(multiset_distance(x[1:], other[1:])) >= 0.99 * DISTANCE
    torch.testing.assert_close(layer(other, edges)[0], layer(x, edges)[0])


coordinates = st.floats(-3, 3).map(lambda x: round(x, 2))


@settings(max_examples=8)
@given(
    layer=st.sampled_from(["gcn", "gin0", "gat", "expc", "combc"]),
    s=st.integers(1, 4),
    re_sum=st.booleans(),
    points=st.lists(st.tuples(coordinates, coordinates), min_size=2, max_size=5),
    seed=st.integers(0, 3),
)
def test_what_is_found_has_the_same_output(**question):
    asked = LabQuestion(**question)
    assert_true(asked, experiment(asked))


def test_one_aggregator_is_too_few_and_as_many_as_neighbours_are_enough():
    found = {
        s: experiment(LabQuestion(layer="expc", s=s, points=POINTS)) for s in (1, 4)
    }
    assert found[1].found
    assert not found[4].found
    kept = {s: answer.ranks[-1].value for s, answer in found.items()}
    assert kept == {1: 0.5, 4: 1.0}


@pytest.mark.parametrize("re_sum", [False, True])
def test_coefficients_and_sums_are_those_of_the_node(re_sum):
    question = LabQuestion(layer="expc", s=3, re_sum=re_sum, points=POINTS)
    answer = experiment(question)
    layer = plane_layer("expc", 3, re_sum, 0)
    x = torch.tensor(POINTS, dtype=torch.float64)
    pairs = torch.cat([x[:1].expand(4, 2), x], dim=1)  # [h_v || h_u]
    lin = layer.coefficients.lin
    m = torch.tanh(pairs @ lin.weight.T + lin.bias)  # [n, s]
    torch.testing.assert_close(torch.tensor(answer.coefficients).double(), m.T)
    assert answer.ranks[0].value == int(numerical_rank(m))
    if re_sum:
        messages = layer.mlp((m[:, :, None] * x[:, None, :]).flatten(1))
        assert answer.sums == (messages > 0).T.tolist()
        torch.testing.assert_close(
            torch.tensor(answer.outputs[0]).double(), messages.sum(0)
        )
    else:
        assert answer.sums is None
