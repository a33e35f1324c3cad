"""The paper's equations written out pair by pair: the truth the layers must meet.

Written from the paper alone, with no code of the package.
"""

import torch


def pairs_of(edge_index, edge_attr, num_nodes, add_self_loops=True):
    """Drop self-loops with their features, then give each node one."""
    src, dst = edge_index
    if add_self_loops:
        keep = src != dst
        own = torch.arange(num_nodes)
        src, dst = torch.cat([src[keep], own]), torch.cat([dst[keep], own])
        if edge_attr is not None:
            zeros = torch.zeros(num_nodes, edge_attr.size(1), dtype=edge_attr.dtype)
            edge_attr = torch.cat([edge_attr[keep], zeros])
    return src, dst, edge_attr


def sum_to(messages, dst, num_nodes):
    out = torch.zeros(num_nodes, messages.size(1), dtype=messages.dtype)
    return out.scatter_add(0, dst[:, None].expand_as(messages), messages)


def plain_layer(conv, x, edge_index, edge_attr=None, *, expanding, add_self_loops=True):
    """ExpandingConv or CombConv with the paper's coefficients and a SUM."""
    x_src, x_dst = (x, x) if isinstance(x, torch.Tensor) else x
    add_self_loops = add_self_loops and isinstance(x, torch.Tensor)
    n = len(x_dst)
    src, dst, edge_attr = pairs_of(edge_index, edge_attr, n, add_self_loops)
    h_u, h_v = x_src[src], x_dst[dst]
    if edge_attr is not None:
        h_u = h_u + conv.edge_lin(edge_attr)
    m = torch.tanh(conv.coefficients.lin(torch.cat([h_v, h_u], dim=1)))
    if expanding:
        message = torch.einsum("ek,ei->eki", m, h_u).reshape(len(src), -1)
    else:
        message = m * h_u
    if conv.re_sum:
        return sum_to(conv.mlp(message), dst, n)
    return conv.mlp(sum_to(message, dst, n))
