import torch
from torch_geometric.utils import scatter

from fullrank.nn.models import DeeperGCN, GraphNet
from fullrank.nn.models.virtual_node import VirtualNode
from nn.models.graphs import random_batch


def test_by_hand_in_a_network():
    torch.manual_seed(0)
    net = GraphNet(3, 8, 2, 2, conv="gin0", edge_dim=2, virtual_node=True)
    net = net.double().eval()
    torch.nn.init.normal_(net.virtual.first)
    batch = random_batch(5, 8, 3)
    h, g, layers = net.encoder(batch.x), net.virtual.first.expand(3, -1), []
    for i, conv in enumerate(net.convs):
        h = h + g[batch.batch]
        if i == 0:
            g = net.virtual.mlps[0](g + scatter(h, batch.batch))
        h = conv(h, batch.edge_index, batch.edge_attr).relu()
        layers.append(h)
    read = scatter(torch.cat(layers, dim=1), batch.batch)
    assert torch.allclose(net(batch), net.head(read), atol=1e-10)


def test_joins_parts_of_a_graph_that_no_edge_joins():
    torch.manual_seed(0)
    batch = random_batch(6)
    batch.edge_index = batch.edge_index[:, :0]
    batch.edge_attr = batch.edge_attr[:0]
    batch.x.requires_grad_()
    for virtual_node, touched in ((True, 6), (False, 1)):
        net = DeeperGCN(3, 8, 2, 2, edge_dim=2, virtual_node=virtual_node)
        net = net.double().eval()
        h = []
        net.norm.register_forward_pre_hook(lambda norm, given, h=h: h.append(given[0]))
        net(batch)
        (gradient,) = torch.autograd.grad(h[0][0].sum(), batch.x)
        assert int(gradient.abs().sum(dim=1).gt(0).sum()) == touched


def test_reset():
    node = VirtualNode(4, 3)
    torch.nn.init.ones_(node.first)
    node.reset_parameters()
    assert node.first.eq(0).all()
    assert len(node.mlps) == 2  # the last layer has nothing to tell
