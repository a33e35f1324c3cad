"""Every layer of ``torch_geometric.nn.conv``, small, and how it is called."""

import torch
import torch_geometric.nn.conv as pyg
from torch.nn import Linear, ReLU, Sequential

D, OUT = 2, 3
AGGREGATIONS = (
    "sum",
    "mean",
    "max",
    "min",
    "mul",
    "var",
    "std",
    "median",
    "softmax",
    "powermean",
)

ELSEWHERE = {
    "MessagePassing": "the base class",
    "CuGraphSAGEConv": "needs cuGraph",
    "CuGraphGATConv": "needs cuGraph",
    "CuGraphRGCNConv": "needs cuGraph",
    "FusedGATConv": "needs dgNN",
    "PANConv": "needs torch-sparse",
    "SplineConv": "needs torch-spline-conv",
    "GravNetConv": "needs torch-cluster",
    "DynamicEdgeConv": "needs torch-cluster",
    "XConv": "needs torch-cluster",
    "HGTConv": "several kinds of nodes",
    "HANConv": "several kinds of nodes",
    "HeteroConv": "several kinds of nodes",
    "WLConv": "colours, not features",
}
REFUSED = {
    "HypergraphConv": lambda: pyg.HypergraphConv(D, OUT),
    "MeshCNNConv": lambda: pyg.MeshCNNConv(D, OUT),
}


def mlp(d_in=D, d_out=OUT):
    return Sequential(Linear(d_in, 4), ReLU(), Linear(4, d_out))


def edges(data):
    return torch.zeros(data.num_edges, dtype=torch.long)


def nodes(data):
    return torch.zeros(data.num_nodes, dtype=torch.long)


def ones(data, width=2):
    return torch.ones(data.num_edges, width, dtype=data.x.dtype)


def still(data):
    """All nodes at one place."""
    return torch.zeros(data.num_nodes, 3, dtype=data.x.dtype)


def with_edge_type(layer, data):
    return layer(data.x, data.edge_index, edges(data))


def with_edge_attr(layer, data):
    return layer(data.x, data.edge_index, ones(data))


def with_x_0(layer, data):
    return layer(data.x, torch.zeros_like(data.x), data.edge_index)


def with_pos(layer, data):
    return layer(data.x, still(data), data.edge_index)


#: Name, factory, and how to call it if not as layer(x, edge_index).
LAYERS = {
    "SimpleConv": (lambda **a: pyg.SimpleConv(**a), None),
    "GCNConv": (lambda **a: pyg.GCNConv(D, OUT, **a), None),
    "ChebConv": (lambda **a: pyg.ChebConv(D, OUT, 3, **a), None),
    "SAGEConv": (lambda **a: pyg.SAGEConv(D, OUT, **a), None),
    "GraphConv": (lambda **a: pyg.GraphConv(D, OUT, **a), None),
    "GatedGraphConv": (lambda **a: pyg.GatedGraphConv(D, 2, **a), None),
    "ResGatedGraphConv": (lambda **a: pyg.ResGatedGraphConv(D, OUT, **a), None),
    "GATConv": (lambda **a: pyg.GATConv(D, OUT, heads=2, **a), None),
    "GATv2Conv": (lambda **a: pyg.GATv2Conv(D, OUT, **a), None),
    "TransformerConv": (lambda **a: pyg.TransformerConv(D, OUT, **a), None),
    "AGNNConv": (lambda **a: pyg.AGNNConv(**a), None),
    "TAGConv": (lambda **a: pyg.TAGConv(D, OUT, **a), None),
    "GINConv": (lambda **a: pyg.GINConv(mlp(), **a), None),
    "GINEConv": (lambda **a: pyg.GINEConv(mlp(), edge_dim=2, **a), with_edge_attr),
    "ARMAConv": (lambda **a: pyg.ARMAConv(D, OUT, **a), None),
    "SGConv": (lambda **a: pyg.SGConv(D, OUT, **a), None),
    "SSGConv": (lambda **a: pyg.SSGConv(D, OUT, 0.1, **a), None),
    "APPNP": (lambda **a: pyg.APPNP(2, 0.1, **a), None),
    "MFConv": (lambda **a: pyg.MFConv(D, OUT, **a), None),
    "RGCNConv": (lambda **a: pyg.RGCNConv(D, OUT, 1, **a), with_edge_type),
    "FastRGCNConv": (lambda **a: pyg.FastRGCNConv(D, OUT, 1, **a), with_edge_type),
    "RGATConv": (lambda **a: pyg.RGATConv(D, OUT, 1, **a), with_edge_type),
    "SignedConv": (
        lambda **a: pyg.SignedConv(D, OUT, True, **a),
        lambda layer, data: layer(data.x, data.edge_index, data.edge_index),
    ),
    "DNAConv": (
        lambda **a: pyg.DNAConv(D, **a),
        lambda layer, data: layer(data.x[:, None], data.edge_index),
    ),
    "PointNetConv": (lambda **a: pyg.PointNetConv(mlp(D + 3), **a), with_pos),
    "GMMConv": (lambda **a: pyg.GMMConv(D, OUT, 2, 2, **a), with_edge_attr),
    "NNConv": (lambda **a: pyg.NNConv(D, OUT, mlp(2, D * OUT), **a), with_edge_attr),
    "CGConv": (lambda **a: pyg.CGConv(D, **a), None),
    "EdgeConv": (lambda **a: pyg.EdgeConv(mlp(2 * D), **a), None),
    "PPFConv": (
        lambda **a: pyg.PPFConv(mlp(D + 4), **a),
        lambda layer, data: layer(data.x, still(data), still(data), data.edge_index),
    ),
    "FeaStConv": (lambda **a: pyg.FeaStConv(D, OUT, heads=2, **a), None),
    "PointTransformerConv": (
        lambda **a: pyg.PointTransformerConv(D, OUT, **a),
        with_pos,
    ),
    "LEConv": (lambda **a: pyg.LEConv(D, OUT, **a), None),
    "PNAConv": (
        lambda **a: pyg.PNAConv(
            D, OUT, ["mean", "max"], ["identity"], torch.tensor([0, 1, 2, 3]), **a
        ),
        None,
    ),
    "ClusterGCNConv": (lambda **a: pyg.ClusterGCNConv(D, OUT, **a), None),
    "GENConv": (lambda **a: pyg.GENConv(D, OUT, **a), None),
    "GCN2Conv": (lambda **a: pyg.GCN2Conv(D, 0.1, **a), with_x_0),
    "WLConvContinuous": (lambda **a: pyg.WLConvContinuous(**a), None),
    "FiLMConv": (lambda **a: pyg.FiLMConv(D, OUT, **a), None),
    "SuperGATConv": (lambda **a: pyg.SuperGATConv(D, OUT, **a), None),
    "FAConv": (lambda **a: pyg.FAConv(D, **a), with_x_0),
    "EGConv": (lambda **a: pyg.EGConv(D, 4, num_heads=2, num_bases=2, **a), None),
    "PDNConv": (lambda **a: pyg.PDNConv(D, OUT, 2, 4, **a), with_edge_attr),
    "GeneralConv": (lambda **a: pyg.GeneralConv(D, OUT, **a), None),
    "HEATConv": (
        lambda **a: pyg.HEATConv(D, OUT, 1, 1, 2, 2, 2, **a),
        lambda layer, data: layer(
            data.x, data.edge_index, nodes(data), edges(data), ones(data)
        ),
    ),
    "LGConv": (lambda **a: pyg.LGConv(**a), None),
    "PointGNNConv": (
        lambda **a: pyg.PointGNNConv(mlp(D, 3), mlp(D + 3), mlp(OUT, D), **a),
        with_pos,
    ),
    "GPSConv": (
        lambda **a: pyg.GPSConv(D, pyg.GCNConv(D, D), norm=None, **a),
        lambda layer, data: layer(data.x, data.edge_index, data.batch),
    ),
    "AntiSymmetricConv": (lambda **a: pyg.AntiSymmetricConv(D, **a), None),
    "DirGNNConv": (lambda **a: pyg.DirGNNConv(pyg.SAGEConv(D, OUT, **a)), None),
    "MixHopConv": (lambda **a: pyg.MixHopConv(D, OUT, **a), None),
}
