import pytest
import torch
from torch_geometric.data import Data

from fullrank.data import load
from fullrank.lab import examine
from fullrank.nn import GraphNet, ThreeStageGCN
from shared_data import shared_data


@pytest.fixture(scope="module")
def mutag(tmp_path_factory):
    mirror = str(shared_data() / "tu")
    dataset = load("MUTAG", mirror=mirror, root=tmp_path_factory.mktemp("data"))
    return next(iter(dataset.loader(batch_size=32)))


def model(conv, batch):
    torch.manual_seed(0)
    return GraphNet(batch.num_node_features, 8, 2, 2, conv=conv)


@pytest.mark.parametrize("conv", ["gcn", "gin0", "gat", "sage"])
def test_weak_aggregators_are_caught_in_every_layer_on_real_molecules(conv, mutag):
    for finding in examine(model(conv, mutag), mutag):
        assert finding.output.found
        assert finding.aggregate.found
        assert len(finding.output.first) == 4
        neighbors = finding.output.first.x[1:].norm()
        assert finding.output.distance >= 0.25 * float(neighbors) - 1e-9


def test_expanding_conv_keeps_rank_and_its_aggregate_resists(mutag):
    expanding = examine(model("expc", mutag), mutag)
    gcn = examine(model("gcn", mutag), mutag)
    for ours, theirs in zip(expanding, gcn, strict=True):
        assert not ours.aggregate.found
        assert ours.profile.mean("kept") > theirs.profile.mean("kept")


def test_a_graph_without_neighbourhoods_of_three_has_no_picture():
    edges = torch.tensor([[0, 1], [1, 0]])
    graph = Data(x=torch.randn(2, 3), edge_index=edges)
    (finding,) = examine(ThreeStageGCN(3, 4), graph)
    assert finding.output is None
    assert finding.profile.size.tolist() == [2, 2]
