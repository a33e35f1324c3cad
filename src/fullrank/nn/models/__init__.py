"""Networks: :class:`GraphNet`, and the other models of the paper's tables."""

from typing import Any

import torch

from fullrank.errors import ConfigError, nearest
from fullrank.nn.models.caps_gnn import CapsGNN
from fullrank.nn.models.deeper_gcn import DeeperGCN
from fullrank.nn.models.diff_pool import DiffPool
from fullrank.nn.models.dtnn import DTNN
from fullrank.nn.models.graph_net import GraphNet
from fullrank.nn.models.himp import HIMP
from fullrank.nn.models.k_gnn import KGNN
from fullrank.nn.models.mpnn import MPNN
from fullrank.nn.models.patchy_san import PatchySAN
from fullrank.nn.models.ppgn import PPGN

#: Networks by name. All take ``(in_channels, hidden_channels, out_channels, num_layers,
#: edge_dim=..., dropout=..., **own)`` and are called with a batch.
NETWORKS: dict[str, type[torch.nn.Module]] = {
    "graph-net": GraphNet,
    "capsgnn": CapsGNN,
    "deeper-gcn": DeeperGCN,
    "diffpool": DiffPool,
    "dtnn": DTNN,
    "himp": HIMP,
    "k-gnn": KGNN,
    "mpnn": MPNN,
    "patchy-san": PatchySAN,
    "ppgn": PPGN,
}


def network_names() -> list[str]:
    """Return the names of all networks."""
    return sorted(NETWORKS)


def make_network(name: str, **arguments: Any) -> Any:
    """Create a network by name."""
    if name not in NETWORKS:
        raise ConfigError(
            f"there is no network {name!r}{nearest(name, NETWORKS)}; known: "
            f"{', '.join(network_names())}"
        )
    return NETWORKS[name](**arguments)


__all__ = [
    "DTNN",
    "HIMP",
    "KGNN",
    "MPNN",
    "NETWORKS",
    "PPGN",
    "CapsGNN",
    "DeeperGCN",
    "DiffPool",
    "GraphNet",
    "PatchySAN",
    "make_network",
    "network_names",
]
