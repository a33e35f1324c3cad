import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import RGCNConv

from fullrank.data import AddStructuralColors
from fullrank.lab import examine
from fullrank.lab.graphs.families import bicyclopentyl, decalin
from fullrank.lab.graphs.pairs import as_data
from fullrank.nn import GraphNet, ThreeStageGCN


@pytest.fixture
def molecules():
    """Two skeletons with random atoms of seven kinds, 32 times."""
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for index in range(32):
        graph = as_data(decalin() if index % 2 else bicyclopentyl())
        kinds = torch.randint(7, (graph.num_nodes,), generator=generator)
        graph.x = torch.nn.functional.one_hot(kinds, 7).float()
        graphs.append(graph)
    return Batch.from_data_list(graphs)


def model(conv, batch):
    torch.manual_seed(0)
    return GraphNet(batch.num_node_features, 8, 2, 2, conv=conv)


@pytest.mark.parametrize("conv", ["gcn", "gin0", "gat", "sage"])
def test_weak_aggregators_are_caught_in_every_layer(conv, molecules):
    for finding in examine(model(conv, molecules), molecules):
        assert finding.output.found
        assert finding.aggregate.found
        assert len(finding.output.first) == 4
        neighbors = finding.output.first.x[1:].norm()
        assert finding.output.distance >= 0.25 * float(neighbors) - 1e-9


def test_expanding_conv_without_resum_keeps_rank_and_its_aggregate_resists(molecules):
    torch.manual_seed(0)
    expc = GraphNet(7, 8, 2, 2, conv="expc", conv_args={"re_sum": False})
    gcn = examine(model("gcn", molecules), molecules)
    for ours, theirs in zip(examine(expc, molecules), gcn, strict=True):
        assert not ours.aggregate.found
        assert ours.profile.mean("kept") > theirs.profile.mean("kept")


def test_colours_of_the_data_blank_no_layer(molecules):
    """Layers that do not read colours say the same with and without them."""
    colors = AddStructuralColors(hops=1, node_labels="x")
    colored = Batch.from_data_list(
        [colors(graph) for graph in molecules.to_data_list()]
    )
    plain = examine(model("expc", molecules), molecules)
    for one, other in zip(plain, examine(model("expc", colored), colored), strict=True):
        assert torch.equal(one.output.second.x, other.output.second.x)
    for finding in examine(model("expc-structural", colored), colored):
        assert finding.why_not == ""
        first, second = finding.output.first, finding.output.second
        assert torch.equal(first.edge_color, second.edge_color)
        assert finding.output.free == first.x[1:].numel()


def test_why_there_is_no_collision_is_said():
    class Positions(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = RGCNConv(3, 3, num_relations=1)

        def forward(self, batch):
            kinds = torch.zeros(batch.num_edges).long()
            return self.conv(batch.x, batch.edge_index, kinds)

    edges = torch.tensor([[0, 1, 2, 1], [1, 0, 1, 2]])
    graph = Data(x=torch.randn(3, 3), edge_index=edges)
    (finding,) = examine(Positions(), graph)
    assert finding.output is None
    assert "edge_type" in finding.why_not


def test_a_graph_without_neighbourhoods_of_three_has_no_picture():
    edges = torch.tensor([[0, 1], [1, 0]])
    graph = Data(x=torch.randn(2, 3), edge_index=edges)
    (finding,) = examine(ThreeStageGCN(3, 4), graph)
    assert finding.output is None
    assert finding.why_not
    assert finding.profile.size.tolist() == [2, 2]
    empty = Data(x=torch.randn(0, 3), edge_index=edges[:, :0])
    (finding,) = examine(ThreeStageGCN(3, 4), empty)
    assert finding.output is None
