"""Losses as a sum and its divisor, so that parts of a batch can be added."""

import torch
import torch.nn.functional as F
from torch import Tensor

from fullrank.errors import ConfigError
from fullrank.train.model import ModelSpec

REGRESSION = {"mse": F.mse_loss, "mae": F.l1_loss, "huber": F.smooth_l1_loss}


class Loss(torch.nn.Module):
    """The loss of a task; labels that are NaN are ignored.

    Args:
        spec: Specification of the model.
        name: ``mse``, ``mae``, ``huber`` or ``cross_entropy``; the task's default if
            None.
    """

    def __init__(self, spec: ModelSpec, name: str | None = None) -> None:
        super().__init__()
        regression = spec.task == "regression"
        self.name = name or ("mae" if regression else "cross_entropy")
        if regression != (self.name in REGRESSION):
            raise ConfigError(f"the loss {self.name!r} does not support {spec.task}")
        self.task = spec.task
        weights = (
            None if spec.class_weights is None else torch.tensor(spec.class_weights)
        )
        self.register_buffer("weights", weights, persistent=False)
        self.weights: Tensor | None

    def forward(self, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sum over all labels, and their number or total weight.

        Args:
            output: Outputs of the network, ``[B, T]``, ``[B, C]`` or
                ``[B, tokens, C]``.
            target: Normalised values, 0/1 labels or class ids, one per row.
        """
        if self.task in ("regression", "binary"):
            known = ~target.isnan()
            filled = torch.where(known, target, 0)
            if self.task == "regression":
                each = REGRESSION[self.name](output, filled, reduction="none")
            else:
                each = F.binary_cross_entropy_with_logits(
                    output, filled, pos_weight=self.weights, reduction="none"
                )
            return torch.where(known, each, 0).sum(), known.sum()
        rows, ids = output.flatten(0, -2), target.flatten()
        total = F.cross_entropy(rows, ids, self.weights, reduction="sum")
        count = ids.numel() if self.weights is None else self.weights[ids].sum()
        return total, torch.as_tensor(count, device=output.device)
