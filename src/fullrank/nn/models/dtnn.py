import torch
from torch import Tensor
from torch_geometric.data.data import BaseData
from torch_geometric.utils import scatter

from fullrank.errors import DataError
from fullrank.nn.conv.base import EdgeDim
from fullrank.nn.models.inputs import BatchNetwork, Channels


class DTNN(BatchNetwork):
    r"""The deep tensor neural network from `"Quantum-Chemical Insights from Deep Tensor
    Neural Networks" <https://arxiv.org/abs/1609.08259>`_.

    .. math::
        \mathbf{h}'_v = \mathbf{h}_v + \sum_{u \neq v} \tanh(\mathbf{W}_3 (
        (\mathbf{W}_1 \mathbf{h}_u + \mathbf{b}_1) \odot
        (\mathbf{W}_2 \hat{\mathbf{d}}_{uv} + \mathbf{b}_2)))

    over all pairs of atoms of a molecule, bonded or not; :math:`\hat{\mathbf{d}}` are
    Gaussians of the distance between the coordinates ``pos``. A network of two layers
    maps each atom to a contribution, and contributions are summed.

    Published setting (MoleculeNet's, which the paper cites, in DeepChem): 50 features
    per atom, 2 steps, 170 Gaussians from -1 to 18 Å, Adam with 1e-3 and batches of 64,
    for 100 epochs.

    Args:
        in_channels: Number of node features, or category counts.
        hidden_channels: Width of :math:`\mathbf{h}`.
        out_channels: Number of predictions per graph.
        num_layers: Number of interaction steps, which share their weights.
        edge_dim: Ignored.
        dropout: Dropout probability in the network of an atom.
        num_gaussians: Length of :math:`\hat{\mathbf{d}}`.
        longest: Largest centre of the Gaussians, in Å.
    """

    def __init__(
        self,
        in_channels: Channels,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 3,
        *,
        edge_dim: EdgeDim = None,
        dropout: float = 0.0,
        num_gaussians: int = 100,
        longest: float = 18.0,
    ) -> None:
        super().__init__(in_channels, hidden_channels, num_layers, None, dropout)
        d = hidden_channels
        self.num_layers = num_layers
        self.num_gaussians, self.longest = num_gaussians, longest
        self.from_atom = torch.nn.Linear(d, d)
        self.from_distance = torch.nn.Linear(num_gaussians, d)
        self.combine = torch.nn.Linear(d, d, bias=False)
        self.head = torch.nn.Sequential(
            torch.nn.Linear(d, d),
            torch.nn.Tanh(),
            torch.nn.Dropout(dropout),
            torch.nn.Linear(d, out_channels),
        )

    def gaussians(self, distance: Tensor) -> Tensor:
        """Return Gaussians of distances, :math:`(P, n)`; their width is their
        spacing."""
        step = (self.longest + 1) / (self.num_gaussians - 1)
        rank = torch.arange(self.num_gaussians, device=distance.device)
        return (-0.5 * ((distance[:, None] + 1) / step - rank).square()).exp()

    def forward(self, data: BaseData) -> Tensor:
        """Predict for each graph of a batch, :math:`(|\\mathcal{G}|, out)`."""
        if data.get("pos") is None:
            raise DataError("pos is missing: DTNN needs the coordinates of the atoms")
        h, graphs = self.read(data)
        dst, src = graphs.pairs()
        different = dst != src
        dst, src = dst[different], src[different]
        pos = data.pos.to(h.dtype)
        distance = (pos[dst] - pos[src]).norm(dim=1)
        by_distance = self.from_distance(self.gaussians(distance))  # [P, d]
        for _ in range(self.num_layers):
            product = self.from_atom(h)[src] * by_distance
            h = h + scatter(self.combine(product).tanh(), dst, dim_size=len(h))
        return scatter(self.head(h), graphs.batch, dim_size=graphs.size)
