"""What is said of layers is checked by running them."""

from fractions import Fraction

import numpy as np
import pytest
import torch
import torch_geometric.nn.conv as pyg
from torch_geometric.data import Batch, Data
from torch_geometric.nn.aggr import SumAggregation

from fullrank.errors import ConfigError
from fullrank.lab import (
    MAX,
    MEAN,
    NMEAN,
    SUM,
    Proof,
    Witness,
    as_aggregator,
    collide,
    compare,
)
from fullrank.nn import ThreeStageGIN0
from lab.probe.pyg_layers import AGGREGATIONS, ELSEWHERE, LAYERS, OUT, REFUSED, D, mlp

KNOWN = {"SUM": SUM, "MEAN": MEAN, "nMEAN": NMEAN, "MAX": MAX}


def star(rows, degrees):
    """Node 0 in the middle; one more node makes up for missing degrees."""
    x = torch.tensor([*rows, [0.0] * len(rows[0])], dtype=torch.float64)
    n = len(rows)
    ends = [(u, 0) for u in range(1, n)] + [(0, u) for u in range(1, n)]
    if degrees is None:
        x = x[:n]
    else:
        ends += [(n, u) for u in range(1, n) for _ in range(degrees[u] - 2)]
    edge_index = torch.tensor(ends, dtype=torch.long).view(-1, 2).T.contiguous()
    return Data(x=x, edge_index=edge_index)


def run(layer, call, rows, degrees):
    data = Batch.from_data_list([star(rows, degrees)])
    with torch.no_grad():
        out = call(layer, data) if call else layer(data.x, data.edge_index)
    return out[0].flatten()


def by_definition(name, rows, degrees):
    """In fractions; degrees of witnesses are n times a square."""
    n, columns = len(rows), np.array(rows, dtype=object)
    if name == "nMEAN":
        roots = [round((n * degree) ** 0.5) for degree in degrees]
        assert [root**2 for root in roots] == [n * degree for degree in degrees]
        return tuple(np.array([Fraction(1, root) for root in roots]).dot(columns))
    said = {"SUM": columns.sum(0), "MEAN": columns.sum(0) / n, "MAX": columns.max(0)}
    return tuple(said[name])


def check_witness(witness, name, layer, call):
    both = witness.first, witness.second
    assert np.array_equal(both[0].rows[0], both[1].rows[0])
    outputs = [run(layer, call, x.numpy().tolist(), x.degrees) for x in both]
    gap = float((outputs[0] - outputs[1]).abs().max())
    scale = max(1.0, *(float(out.abs().max()) for out in outputs))
    exact = [by_definition(name, x.rows.tolist(), x.degrees) for x in both]
    if witness.confusing.name == name:
        assert exact[0] == exact[1]
        assert gap > 1e-7 * scale
    else:
        assert exact[0] != exact[1]
        assert gap <= 1e-8 * scale


def check_proof(name, layer, call):
    """Where the known aggregator agrees, the layer must."""
    generator = np.random.default_rng(0)
    for n in (2, 3, 5):
        degrees = [n, *generator.integers(2, 6, n - 1).tolist()]
        rows = generator.normal(size=(n, D))
        weights = np.ones(n) if name == "SUM" else np.array(degrees) ** -0.5
        moved = rows.copy()
        moved[1:] += generator.normal(size=(n - 1, D))
        gap = weights @ (moved - rows)
        moved[0] -= gap / weights[0]
        one, other = (run(layer, call, x.tolist(), degrees) for x in (rows, moved))
        assert torch.allclose(one, other, atol=1e-9)


def check(make, call, names, **arguments):
    """Compare a layer with known aggregators, and check every answer by execution."""
    torch.manual_seed(0)
    layer = make(**arguments)
    judged = compare(layer, SUM, call=call).f  # once, and used again
    layer = layer.double().eval()
    proved = set()
    for name in names:
        comparison = compare(judged, KNOWN[name])
        assert not isinstance(comparison.at_least, Proof)
        for evidence in (comparison.at_least, comparison.at_most):
            if isinstance(evidence, Witness):
                check_witness(evidence, name, layer, call)
        if isinstance(comparison.at_most, Proof):
            check_proof(name, layer, call)
            proved.add(name)
    return proved


def test_every_layer_of_pyg_is_here():
    assert {*LAYERS, *ELSEWHERE, *REFUSED} == set(pyg.__all__)


@pytest.mark.parametrize("name", REFUSED)
def test_an_index_with_another_meaning_is_refused(name):
    for ask in (lambda layer: compare(layer, SUM), lambda layer: collide(layer, X)):
        with pytest.raises(ConfigError, match=name):
            ask(REFUSED[name]())


X = torch.randn(4, D, generator=torch.Generator().manual_seed(0))
FAST = ["GCNConv", "GINConv", "SAGEConv", "GATConv", "RGCNConv", "EdgeConv"]


@pytest.mark.parametrize("name", FAST)
def test_answers_about_common_layers_hold_when_they_run(name):
    make, call = LAYERS[name]
    known = "nMEAN" if name == "GCNConv" else "SUM"
    proved = check(make, call, [known])
    assert proved == ({known} if name in ("GCNConv", "GINConv") else set())


@pytest.mark.parametrize("aggr", ["max", "mean", "softmax"])
@pytest.mark.parametrize("name", ["GCNConv", "GINConv"])
def test_another_aggregation_is_never_proved_to_be_a_sum(name, aggr):
    """A maximum tells {1, 1} from {2, 0}, which have the same sum."""
    make, call = LAYERS[name]
    assert check(make, call, ["SUM", "nMEAN"], aggr=aggr) == set()


class Doubling(pyg.GINConv):
    def message(self, x_j):
        return x_j.abs()


class Updating(pyg.GCNConv):
    def update(self, inputs):
        return inputs.relu()


def hooked(stage):
    def make():
        layer = pyg.GINConv(mlp())
        register = getattr(layer, f"register_{stage}_forward_hook")
        register(lambda conv, inputs, out: out.abs())
        return layer

    return make


def patched():
    layer = pyg.GINConv(mlp())
    layer.message = lambda x_j: x_j.abs()
    return layer


def normalized():
    """What every node has is divided by what all nodes have."""

    class Mixing(torch.nn.Module):
        def forward(self, x):
            return x / (1 + x.abs().sum(dim=0))

    return pyg.GINConv(torch.nn.Sequential(torch.nn.Linear(D, OUT), Mixing()))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Doubling(mlp()),
        lambda: Updating(D, OUT),
        hooked("message"),
        hooked("aggregate"),
        hooked("propagate"),
        patched,
    ],
)
def test_a_changed_layer_is_judged_by_what_it_does(make):
    assert check(make, None, ["SUM"]) == set()


def outside_the_examples():
    """Layers that a change in a hook, a method or an aggregation makes no function of
    the sum, but only for features of 50 and more."""

    def clip(*args):
        return args[-1].clamp(-50, 50)

    class Clipping(SumAggregation):
        def forward(self, x, *args, **kwargs):
            return super().forward(clip(x), *args, **kwargs)

    yield pyg.GINConv(mlp(), aggr=Clipping())
    for stage in ("message", "aggregate"):
        layer = pyg.GINConv(mlp())
        getattr(layer, f"register_{stage}_forward_hook")(clip)
        yield layer
    layer = pyg.GINConv(mlp())
    layer.register_forward_pre_hook(lambda layer, args: (clip(args[0]), *args[1:]))
    yield layer
    layer = pyg.GINConv(mlp())
    layer.message = lambda x_j: clip(x_j)
    yield layer
    layer = pyg.GCNConv(D, OUT)
    layer.lin.register_forward_hook(clip)
    yield layer
    layer = ThreeStageGIN0(D, OUT)
    layer.coefficients.register_forward_hook(
        lambda part, args, m: m * (args[0].neighbors().abs().amax(1) < 50)[:, None]
    )
    yield layer


@pytest.mark.parametrize("layer", outside_the_examples())
def test_nothing_is_proved_of_a_modified_layer(layer):
    for known in (SUM, NMEAN):
        assert not isinstance(compare(layer, known).at_most, Proof)


@pytest.mark.parametrize("size", [1.0, 1e-10])
def test_the_outputs_of_small_weights_are_no_rounding_errors(size):
    """An injective linear map of the sum distinguishes what the sum does."""
    layer = pyg.GINConv(torch.nn.Linear(1, 1, bias=False))
    torch.nn.init.constant_(layer.nn.weight, size)
    assert not isinstance(compare(layer, SUM).at_least, Witness)


def test_a_product_runs_on_as_many_rows_as_each_of_its_parts():
    product = SUM @ as_aggregator(pyg.SAGEConv(1, 3, aggr="median"))
    witness = compare(MEAN, product).at_least
    assert isinstance(witness, Witness)
    assert min(len(witness.first), len(witness.second)) >= 2


def test_what_is_no_function_of_a_neighbourhood_is_refused():
    class Noisy(pyg.GINConv):
        def message(self, x_j):
            return x_j + torch.rand_like(x_j)

    lstm = pyg.SAGEConv(D, OUT, aggr="lstm")  # depends on the order of neighbours
    for layer in (Noisy(mlp()), lstm, normalized()):
        with pytest.raises(ConfigError, match=type(layer).__name__):
            compare(layer, SUM)


def test_a_layer_that_needs_neighbours_is_compared_on_those_that_have_some():
    """A median over nobody raises an error in PyG."""
    assert check(lambda: pyg.SAGEConv(D, OUT, aggr="median"), None, ["SUM"]) == set()


def test_two_layers_are_compared_directly():
    torch.manual_seed(0)
    comparison = compare(pyg.GCNConv(3, 2), pyg.SAGEConv(3, 2))
    assert comparison.verdict in ("incomparable", "undecided")
    for evidence in (comparison.at_least, comparison.at_most):
        assert isinstance(evidence, Witness)
        assert evidence.first.dim == 3


def test_a_layer_that_needs_more_says_so():
    with pytest.raises(ConfigError, match="edge_type"):
        compare(pyg.RGCNConv(D, OUT, 1), SUM)


#: What changes with the order of the neighbours, or cannot run.
NO_FUNCTION = {
    ("FastRGCNConv", aggr) for aggr in AGGREGATIONS if aggr not in ("sum", "mean")
}
#: What changes in place what its derivative needs, so that it cannot be trained either.
NO_DERIVATIVE = {("GCN2Conv", aggr) for aggr in ("max", "min", "mul")}


def test_a_search_that_needs_a_missing_derivative_says_so():
    make, call = LAYERS["GCN2Conv"]
    with pytest.raises(ConfigError, match="GCN2Conv cannot be differentiated"):
        collide(make(aggr="max"), X, call=call)


@pytest.mark.slow
@pytest.mark.parametrize("aggr", [None, *AGGREGATIONS])
@pytest.mark.parametrize("name", LAYERS)
def test_every_answer_about_every_layer_holds_when_it_runs(name, aggr):
    make, call = LAYERS[name]
    try:
        layer = make() if aggr is None else make(aggr=aggr)
    except (TypeError, ValueError, AttributeError, AssertionError):
        assert aggr is not None
        pytest.skip(f"{name} takes no aggr={aggr}")
    arguments = {} if aggr is None else {"aggr": aggr}
    if (name, aggr) in NO_FUNCTION:
        with pytest.raises(ConfigError):
            check(make, call, ["SUM"], **arguments)
        return
    proved = check(make, call, ["SUM", "nMEAN"], **arguments)
    allowed = {"GCNConv": {"nMEAN"}, "GINConv": {"SUM"}}.get(name, set())
    assert proved == (allowed if aggr in (None, "sum") else set())
    if (name, aggr) in NO_DERIVATIVE:
        return
    found = collide(layer, X, call=call, starts=6)
    if found.found:
        layer = layer.double().eval()
        outputs = [
            run(layer, call, x.x.tolist(), None) for x in (found.first, found.second)
        ]
        assert torch.allclose(*outputs, rtol=1e-8, atol=1e-8)
        assert found.distance >= 0.5 - 1e-9
