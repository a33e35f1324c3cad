"""Linear layers with lazily initialised widths."""

import torch
from torch_geometric.nn.dense.linear import Linear, is_uninitialized_parameter


class LazyLinear(Linear):
    """A linear layer that derives both of its widths from its first input or from
    loaded weights; PyG's derives only the input's."""

    def __init__(self, bias: bool = True) -> None:
        super().__init__(-1, 0, bias)

    def _load_from_state_dict(self, state_dict, prefix, *args, **kwargs) -> None:
        weight = state_dict.get(f"{prefix}weight")
        if weight is not None and not is_uninitialized_parameter(weight):
            materialize(self, weight.size(1), weight.size(0))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def materialize(lin: Linear, in_channels: int, out_channels: int | None = None) -> None:
    """Set the widths of a lazy linear layer, unless they are set."""
    if not is_uninitialized_parameter(lin.weight):
        return
    if out_channels is not None:
        lin.out_channels = out_channels
        if lin.bias is not None:
            lin.bias.data = lin.bias.new_empty(out_channels)
    lin.initialize_parameters(lin, (torch.empty(0, in_channels),))
