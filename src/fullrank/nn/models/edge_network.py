import torch
from torch import Tensor
from torch_geometric.nn import NNConv

from fullrank.nn.kernels import dispatch
from fullrank.nn.kernels.sums import outer_product_sum
from fullrank.nn.neighborhoods import Layout, Pairs


class EdgeNetworkConv(NNConv):
    r"""PyG's :class:`~torch_geometric.nn.NNConv` with an edge network of two layers,
    without a matrix per edge.

    With :math:`\mathbf{m}_{uv} = [\mathrm{ReLU}(\mathbf{W} \mathbf{e}_{uv} +
    \mathbf{b}) \Vert 1]`, the edge network is :math:`A(\mathbf{e}_{uv}) = \sum_k
    m_{uv,k} \mathbf{A}_k`, so that

    .. math::
        \sum_{u \in \mathcal{N}(v)} A(\mathbf{e}_{uv}) \mathbf{h}_u = \sum_k
        \mathbf{A}_k \sum_{u \in \mathcal{N}(v)} m_{uv,k} \mathbf{h}_u

    is an expanding convolution without Re-SUM, whose coefficients are those of the
    edge. With the backend ``"plain"`` the layer is PyG's.

    Args:
        channels: Size of each input and output sample.
        edge_dim: Number of edge features.
        edge_channels: Hidden width of the edge network.
        root_weight: Whether to add a linear map of the node itself.
    """

    def __init__(
        self, channels: int, edge_dim: int, edge_channels: int, root_weight: bool = True
    ) -> None:
        network = torch.nn.Sequential(
            torch.nn.Linear(edge_dim, edge_channels),
            torch.nn.ReLU(),
            torch.nn.Linear(edge_channels, channels * channels),
        )
        super().__init__(channels, channels, network, root_weight=root_weight)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        if dispatch.is_plain():
            return super().forward(x, edge_index, edge_attr)
        m, last = self.nn[:-1](edge_attr), self.nn[-1]
        m = torch.cat([m, m.new_ones(len(m), 1)], dim=1)
        size = len(x)
        pairs = Pairs.read(
            edge_index, Layout(size, size, self_loops=False, order="dst")
        )
        m = pairs.arrange(m, None)
        sums = dispatch.run(
            outer_product_sum, x, m, pairs.src, pairs.dst, size, pairs.ptr
        )  # [N, edge_channels + 1, d]
        matrices = torch.cat([last.weight.t(), last.bias[None]])
        out = sums.flatten(1) @ matrices.view(-1, self.out_channels)
        if self.root_weight:
            out = out + self.lin(x)
        return out + self.bias
