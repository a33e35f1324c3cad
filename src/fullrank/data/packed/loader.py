"""Batches of a packed set, epoch by epoch."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fullrank.data.packed.graphs import PackedGraphs
from fullrank.errors import DataError

if TYPE_CHECKING:
    from torch_geometric.data import Batch


class PackedLoader:
    """Yields the batches of one epoch each time it is iterated.

    The order of the graphs depends only on ``seed`` and the epoch, so an epoch can be
    repeated, resumed at any batch, or distributed over processes. Each complete
    iteration advances to the next epoch.

    Args:
        graphs: The packed graphs.
        indices: The graphs to load; all by default.
        batch_size: Number of graphs per batch.
        shuffle: Whether to shuffle the graphs every epoch.
        seed: Seed of the shuffling.
        drop_last: Whether to drop the last batch if it is incomplete.
        shard, num_shards: Load the part of process ``shard`` of ``num_shards``.
            Shuffled parts are padded to equal length with graphs of other parts;
            unshuffled parts contain every graph exactly once.
    """

    #: Lightning expects this attribute of every loader that has a sampler.
    batch_sampler = None

    def __init__(
        self,
        graphs: PackedGraphs,
        indices: Sequence[int] | np.ndarray | None = None,
        batch_size: int = 64,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        shard: int = 0,
        num_shards: int = 1,
    ) -> None:
        if batch_size < 1:
            raise DataError(f"batch_size must be at least 1, got {batch_size}")
        if not 0 <= shard < num_shards:
            raise DataError(f"shard must be in 0..{num_shards - 1}, got {shard}")
        self.graphs = graphs
        self.indices = np.arange(len(graphs)) if indices is None else np.array(indices)
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.shard, self.num_shards = shard, num_shards
        self.epoch = 0
        self._position = 0
        self._resume_at = 0

    @property
    def sampler(self) -> "PackedLoader":
        """The loader itself, for Lightning to call ``set_epoch`` on."""
        return self

    def __len__(self) -> int:
        full, rest = divmod(len(self._own(self.indices)), self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator["Batch"]:
        order = self.order()
        start, self._resume_at = self._resume_at, 0
        for position in range(start, len(self)):
            self._position = position + 1
            first = position * self.batch_size
            yield self.graphs.batch(order[first : first + self.batch_size])
        self.epoch, self._position = self.epoch + 1, 0

    def order(self) -> np.ndarray:
        """The graphs of this epoch, or of this shard, in order: ``[len(indices)]``."""
        order = self.indices
        if self.shuffle:
            order = np.random.default_rng([self.seed, self.epoch]).permutation(order)
        return self._own(order)

    def _own(self, order: np.ndarray) -> np.ndarray:
        if self.shuffle and self.num_shards > 1:
            length = -(-len(order) // self.num_shards) * self.num_shards
            order = np.resize(order, length)  # repeats from the start
        return order[self.shard :: self.num_shards]

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration."""
        if epoch != self.epoch:
            self.epoch, self._position, self._resume_at = epoch, 0, 0

    def state_dict(self) -> dict[str, int]:
        """The epoch, and the number of its batches that were loaded."""
        return {"epoch": self.epoch, "position": self._position}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continue from ``state`` in the next iteration."""
        self.epoch = state["epoch"]
        self._position = self._resume_at = state["position"]
