import lightning
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, global_mean_pool

from fullrank.lab import RankMonitor, profile
from fullrank.nn import CombConv, ExpandingConv


class UserModel(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.first = ExpandingConv(4, 8, num_aggregators=2)
        self.second = CombConv(8, 8)
        self.third = GCNConv(8, 1)
        self.save_hyperparameters()

    def forward(self, x, edge_index, batch):
        x = self.second(self.first(x, edge_index), edge_index)
        return global_mean_pool(self.third(x, edge_index), batch)

    def training_step(self, batch, _):
        return self(batch.x, batch.edge_index, batch.batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-2)


def graphs():
    generator = torch.Generator().manual_seed(0)
    return [
        Data(
            x=torch.randn(6, 4, generator=generator),
            edge_index=torch.randint(0, 6, (2, 14), generator=generator),
        )
        for _ in range(8)
    ]


class Collect(lightning.Callback):
    def __init__(self):
        self.seen = []

    def on_train_end(self, trainer, pl_module):
        self.seen.append(dict(trainer.callback_metrics))


def run(module, batch):
    return module(batch.x, batch.edge_index, batch.batch)


def test_it_logs_rank_and_sampling_of_each_layer_of_any_model(tmp_path):
    torch.manual_seed(0)
    monitor, collect = RankMonitor(call=run), Collect()
    trainer = lightning.Trainer(
        max_epochs=2,
        callbacks=[monitor, collect],
        default_root_dir=tmp_path,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = UserModel()
    trainer.fit(model, DataLoader(graphs(), batch_size=4))
    (logged,) = collect.seen
    assert set(logged) == {
        "rank M/first",
        "sampling/first",
        "rank M/second",
        "sampling/second",
        "rank J/third",
    }
    first, second, third = profile(model, monitor.batch, call=run)
    assert float(logged["rank M/first"]) == pytest.approx(first.mean("rank M"))
    assert float(logged["sampling/second"]) == pytest.approx(second.mean("sampling"))
    assert float(logged["rank J/third"]) == third.mean("rank J") == 1


def test_the_number_of_epochs_is_checked():
    with pytest.raises(ValueError, match="0"):
        RankMonitor(every_n_epochs=0)
