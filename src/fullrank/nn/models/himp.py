from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data.data import BaseData
from torch_geometric.nn import GINConv, GINEConv
from torch_geometric.utils import scatter, tree_decomposition

from fullrank.extras import need
from fullrank.nn.conv.base import EdgeDim
from fullrank.nn.models.inputs import BatchNetwork, Channels, Graphs, batch_norm

_KINDS = 4  # of cliques: ring, bond, bridged compound, single atom


class HIMP(BatchNetwork):
    r"""Hierarchical inter-message passing from `"Hierarchical Inter-Message Passing for
    Learning on Molecular Graphs" <https://arxiv.org/abs/2006.12179>`_.

    A GIN on the molecule and one on its junction tree, whose nodes are rings, bonds and
    single atoms. After each layer an atom :math:`v` and the cliques :math:`c` that
    contain it exchange messages:

    .. math::
        \mathbf{t}_c \mathrel{+}= \mathrm{ReLU}(\mathbf{W}_1\,\mathrm{mean}_{v \in c}\,
        \mathbf{h}_v), \qquad \mathbf{h}_v \mathrel{+}= \mathrm{ReLU}(\mathbf{W}_2\,
        \mathrm{mean}_{c \ni v}\,\mathbf{t}_c)

    The trees come from :func:`~torch_geometric.utils.tree_decomposition`, which reads
    only the bonds, once per molecule. If several junction trees are equally good, its
    choice, and therefore the network, depends on the numbering of the atoms.

    Published setting (ogbg-molhiv): 2 layers of width 64, dropout 0.5, mean readout,
    Adam with 1e-4, batches of 128, 50 epochs.

    Args:
        in_channels: Number of node features, or category counts.
        hidden_channels: Width of all layers.
        out_channels: Number of predictions per graph.
        num_layers: Number of layers.
        edge_dim: Number of edge features, or category counts, or :obj:`None`.
        dropout: Dropout probability after each layer and before the head.
    """

    def __init__(
        self,
        in_channels: Channels,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        *,
        edge_dim: EdgeDim = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(in_channels, hidden_channels, num_layers, edge_dim, dropout)
        need("rdkit")
        d, layers, nn = hidden_channels, range(num_layers), torch.nn
        self.tree_encoder = nn.Embedding(_KINDS, d)
        self.edge_encoders = nn.ModuleList(
            nn.Linear(max(1, self.edge_width), d) for _ in layers
        )
        self.convs = nn.ModuleList(GINEConv(_mlp(d), train_eps=True) for _ in layers)
        self.norms = nn.ModuleList(batch_norm(d) for _ in layers)
        self.tree_convs = nn.ModuleList(
            GINConv(_mlp(d), train_eps=True) for _ in layers
        )
        self.tree_norms = nn.ModuleList(batch_norm(d) for _ in layers)
        self.to_tree = nn.ModuleList(nn.Linear(d, d) for _ in layers)
        self.to_atoms = nn.ModuleList(nn.Linear(d, d) for _ in layers)
        self.read_atoms, self.read_tree = nn.Linear(d, d), nn.Linear(d, d)
        self.head = nn.Linear(d, out_channels)

    def forward(self, data: BaseData) -> Tensor:
        """Predict for each graph of a batch, :math:`(|\\mathcal{G}|, out)`."""
        h, graphs = self.read(data)
        edge_attr = graphs.edge_attr
        if edge_attr is None:
            edge_attr = h.new_ones(graphs.edge_index.size(1), 1)
        kinds, tree_edges, (atom, clique), clique_batch = junction_trees(graphs)
        t = self.tree_encoder(kinds)
        for i in range(len(self.convs)):
            h = self.convs[i](h, graphs.edge_index, self.edge_encoders[i](edge_attr))
            h = self._drop(self.norms[i](h).relu())
            t = t + self.to_tree[i](_mean(h[atom], clique, len(t))).relu()
            t = self.tree_convs[i](t, tree_edges)
            t = self._drop(self.tree_norms[i](t).relu())
            h = h + self.to_atoms[i](_mean(t[clique], atom, len(h))).relu()
        h = self._drop(_mean(h, graphs.batch, graphs.size))
        t = self._drop(_mean(t, clique_batch, graphs.size))
        read = self._drop((self.read_atoms(h) + self.read_tree(t)).relu())
        return self.head(read)

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)


def junction_trees(graphs: Graphs) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the kind of each clique, the edges between cliques, the pairs of an atom
    and a clique that contains it, and the graph of each clique."""
    nodes, starts = graphs.nodes.tolist(), graphs.starts.tolist()
    ends = graphs.edge_index.cpu().sort(dim=0).values
    bonds = ends[:, ends[0] < ends[1]].unique(dim=1)
    graph_of_bond = graphs.batch.cpu()[bonds[0]]
    kinds, edges, members, batch = [], [], [], []
    cliques = 0
    for graph, (size, start) in enumerate(zip(nodes, starts, strict=True)):
        own = bonds[:, graph_of_bond == graph].numpy() - start
        tree, holds, kind = _junction_tree(size, own.astype(np.int32).tobytes())
        kinds.append(kind)
        edges.append(tree + cliques)
        members.append(holds + torch.tensor([[start], [cliques]]))
        batch += [graph] * len(kind)
        cliques += len(kind)
    device = graphs.batch.device
    return (
        torch.cat(kinds).to(device),
        torch.cat(edges, dim=1).to(device),
        torch.cat(members, dim=1).to(device),
        torch.tensor(batch, device=device),
    )


@lru_cache(maxsize=1_000_000)
def _junction_tree(num_atoms: int, bonds: bytes) -> tuple[Tensor, Tensor, Tensor]:
    from rdkit import Chem

    molecule = Chem.RWMol()
    for _ in range(num_atoms):
        molecule.AddAtom(Chem.Atom(0))
    for one, other in zip(*np.frombuffer(bonds, np.int32).reshape(2, -1), strict=True):
        molecule.AddBond(int(one), int(other), Chem.BondType.SINGLE)
    tree, members, _, kinds = tree_decomposition(molecule, return_vocab=True)
    return tree, members, kinds


def _mlp(channels: int) -> torch.nn.Sequential:
    return torch.nn.Sequential(
        torch.nn.Linear(channels, 2 * channels),
        batch_norm(2 * channels),
        torch.nn.ReLU(),
        torch.nn.Linear(2 * channels, channels),
    )


def _mean(x: Tensor, index: Tensor, size: int) -> Tensor:
    return scatter(x, index, dim_size=size, reduce="mean")
