"""Log rank and sampling while a model trains."""

from torch_geometric.data import Data

from fullrank.errors import MissingPackage
from fullrank.lab.probe.profile import profile
from fullrank.lab.running import Runner

try:
    from lightning import Callback
except ModuleNotFoundError:
    raise MissingPackage(
        "RankMonitor needs Lightning: pip install 'fullrank[program]'"
    ) from None


class RankMonitor(Callback):
    """Log the rank that each convolution keeps, and the fraction of neighbours it sums.

    Works with any Lightning module that contains convolutions of PyG or fullrank. The
    first training batch is kept and probed at the end of epochs. For layers whose
    coefficients can be read, ``kept/<layer>`` is logged, or with Re-SUM, which never
    forms M H, ``rank M/<layer>`` and ``sampling/<layer>``; for CombConv
    ``rank M/<layer>``; for others ``rank J/<layer>`` or ``rank J (moving)/<layer>``.

    Args:
        every_n_epochs: Number of epochs between two probes.
        call: Runs the module on a batch, by default ``module(batch)``.
        max_nodes: As in :func:`fullrank.lab.profile`.
    """

    LOGGED = ("kept", "sampling", "rank M", "rank J", "rank J (moving)")

    def __init__(
        self,
        every_n_epochs: int = 1,
        call: Runner | None = None,
        max_nodes: int = 50,
    ):
        if every_n_epochs < 1:
            raise ValueError(f"every_n_epochs must be at least 1, got {every_n_epochs}")
        self.every_n_epochs = every_n_epochs
        self.call = call
        self.max_nodes = max_nodes
        self.batch: Data | None = None

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx) -> None:
        if self.batch is None:
            self.batch = batch

    def on_train_epoch_end(self, trainer, pl_module) -> None:
        if self.batch is None or trainer.current_epoch % self.every_n_epochs:
            return
        for layer in profile(
            pl_module, self.batch, max_nodes=self.max_nodes, call=self.call
        ):
            measured = [name for name in self.LOGGED if name in layer.quantities()]
            if "kept" in measured:
                measured.remove("rank M")
            for name in measured:
                pl_module.log(f"{name}/{layer.name}", layer.mean(name))
