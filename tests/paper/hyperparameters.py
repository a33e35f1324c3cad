"""The hyperparameters that the paper prints, and the epochs of the authors' code."""

from typing import NamedTuple


class Hyperparameters(NamedTuple):
    batch_size: int
    layers: int
    hidden: int
    lr: float
    every: int
    factor: float
    dropout: float
    readout: str
    batch_norm: bool
    epochs: int


_QM9 = ["mu", "alpha", "homo", "lumo", "gap", "r2", "zpve", "U0", "U", "H", "G", "Cv"]
_BOTH = {
    "ogbg-molhiv": (64, 3, 64, 1e-4, 5, 0.7, 0.5, "mean", True, 400),
    "ogbg-molpcba": (128, 5, 512, 1e-4, 10, 0.6, 0.5, "mean", True, 400),
    "ogbg-code": (64, 4, 512, 1e-4, 5, 0.6, 0.5, "mean", True, 100),
    "COLLAB": (32, 3, 180, 1e-3, 10, 0.8, 0.5, "sum", True, 300),
    "REDDIT-BINARY": (64, 3, 256, 1e-3, 10, 0.8, 0.5, "sum", True, 300),
    "REDDIT-MULTI-12K": (64, 3, 256, 1e-3, 10, 0.8, 0.5, "sum", True, 300),
}
_PPA = {
    "ExpC": (32, 4, 256, 5e-4, 20, 0.8, 0.5, "sum", True, 600),
    "CombC": (32, 4, 256, 2e-4, 20, 0.7, 0.5, "sum", True, 600),
}
# On QM9: the width, and the targets that have five layers instead of four.
_ON_QM9 = {"ExpC": (256, "mu homo U0"), "CombC": (512, "mu homo r2 U0")}

#: By data set or target and family.
HYPERPARAMETERS = {
    (column, family): Hyperparameters(*values)
    for family in ("ExpC", "CombC")
    for column, values in {**_BOTH, "ogbg-ppa": _PPA[family]}.items()
}
for _family, (_hidden, _deep) in _ON_QM9.items():
    for _target in _QM9:
        _layers = 5 if _target in _deep.split() else 4
        HYPERPARAMETERS[f"qm9/{_target}", _family] = Hyperparameters(
            64, _layers, _hidden, 1e-4, 30, 0.85, 0.0, "sum", False, 600
        )


def hyperparameters_of(config):
    """Those of a configuration."""
    model, training, schedule = config.model, config.training, config.schedule
    assert schedule.name == "step"
    return Hyperparameters(
        training.batch_size,
        model.layers,
        model.hidden,
        config.optimizer.lr,
        schedule.every,
        schedule.factor,
        model.dropout,
        model.readout,
        model.batch_norm,
        training.epochs,
    )
