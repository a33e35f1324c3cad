import torch
from torch import Tensor
from torch_geometric.nn import global_add_pool
from torch_geometric.nn.inits import reset

from fullrank.nn.models.inputs import batch_norm


class VirtualNode(torch.nn.Module):
    r"""A node that is adjacent to all others of its graph, as in OGB's baselines.

    .. math::
        \tilde{\mathbf{h}}_v = \mathbf{h}_v + \mathbf{g}, \qquad
        \mathbf{g}' = \mathrm{MLP}(\mathbf{g} + \sum_v \tilde{\mathbf{h}}_v)

    Layers read :math:`\tilde{\mathbf{h}}`; the initial :math:`\mathbf{g}` is one
    learned vector for all graphs, initialised with zeros.

    Args:
        channels: Width of the layers.
        num_layers: Number of layers that read it.
    """

    def __init__(self, channels: int, num_layers: int) -> None:
        super().__init__()
        self.first = torch.nn.Parameter(torch.zeros(1, channels))
        self.mlps = torch.nn.ModuleList(
            torch.nn.Sequential(
                torch.nn.Linear(channels, 2 * channels),
                batch_norm(2 * channels),
                torch.nn.ReLU(),
                torch.nn.Linear(2 * channels, channels),
                batch_norm(channels),
                torch.nn.ReLU(),
            )
            for _ in range(num_layers - 1)
        )

    def reset_parameters(self) -> None:
        torch.nn.init.zeros_(self.first)
        reset(self.mlps)

    def forward(
        self, layer: int, h: Tensor, g: Tensor | None, batch: Tensor, size: int
    ) -> tuple[Tensor, Tensor]:
        """Return the input of a layer, and the virtual nodes of the next one.

        Args:
            layer: Index of the layer.
            h: The nodes, :math:`(N, d)`.
            g: The virtual nodes, :math:`(|\\mathcal{G}|, d)`; :obj:`None` at first.
            batch: The graph of each node.
            size: Number of graphs.
        """
        if g is None:
            g = self.first.expand(size, -1)
        h = h + g[batch]
        if layer < len(self.mlps):
            g = self.mlps[layer](g + global_add_pool(h, batch, size))
        return h, g
