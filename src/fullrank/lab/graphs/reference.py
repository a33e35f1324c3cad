"""A reference beyond 1-WL, which shows that a suite of pairs can be distinguished."""

import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.utils import to_dense_adj, unbatch, unbatch_edge_index


class PairNet(torch.nn.Module):
    r"""Random features of node pairs, bounded by the 3-WL test instead of 1-WL.

    .. math::
        X^{(t+1)}_{ij} = \tanh\Big(X^{(t)}_{ij} A
        + n^{-1/2} \sum_k (X^{(t)}_{ik} B) \odot (X^{(t)}_{kj} C)\Big)

    starting from the type of a pair (equal, joined, the features of both ends) and
    ending in the mean over all pairs. It needs n² numbers per graph and is not trained:
    it is the positive control of :func:`fullrank.lab.separates`.
    """

    def __init__(self, in_channels: int, channels: int = 16, num_layers: int = 4):
        super().__init__()
        self.encode = torch.nn.Linear(2 + 2 * in_channels, channels)
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(channels, 3 * channels) for _ in range(num_layers)
        )
        for parameter in self.parameters():
            # Larger than usual, so that differences grow from layer to layer.
            torch.nn.init.normal_(parameter, std=2 * channels**-0.5)

    def forward(self, batch: Batch) -> Tensor:
        features = unbatch(batch.x, batch.batch)
        edges = unbatch_edge_index(batch.edge_index, batch.batch)
        return torch.stack(
            [self._embed(x, edge) for x, edge in zip(features, edges, strict=True)]
        )

    def _embed(self, x: Tensor, edge_index: Tensor) -> Tensor:
        n = x.size(0)
        joined = to_dense_adj(edge_index, max_num_nodes=n)[0].to(x)
        ends = [x.unsqueeze(1).expand(n, n, -1), x.unsqueeze(0).expand(n, n, -1)]
        kind = torch.stack([joined, torch.eye(n).to(x)], dim=-1)
        pair = self.encode(torch.cat([kind, *ends], dim=-1)).tanh()  # [n, n, c]
        for layer in self.layers:
            own, left, right = layer(pair).permute(2, 0, 1).chunk(3)  # [c, n, n] each
            pair = (own + left @ right / n**0.5).tanh().permute(1, 2, 0)
        return pair.mean(dim=(0, 1))
