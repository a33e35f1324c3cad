"""Run folders as training writes them, with numbers that a test chose."""

from fullrank.data import Split
from fullrank.paper.cells import cells
from fullrank.train import Result, RunFolder, parse, single_runs
from fullrank.train.config import digest_of
from fullrank.train.environment import environment
from fullrank.train.run_folder import Identity
from goldens.configs import write_graphs

COMMIT = "0123456789abcdef"
MACHINE = environment().model_copy(update={"commit": COMMIT, "earlier_commits": ()})


def write_run(config, metric, valid, test, curve=None, data="content", train=None):
    """A finished run without its weights; ``curve`` is that of the part watched,
    ``data`` stands for the content of the data, and ``train`` is the metric on the
    training part in evaluation mode."""
    folds = None if config.split.folder is None else "folds of Zhang"
    digest = digest_of([config.determining(), data, folds])[:12]
    run = RunFolder(config.runs / f"{config.data.label}-{config.model.conv}-{digest}")
    run.path.mkdir(parents=True)
    identity = Identity(
        id=run.id, data=data, folds=folds, dataset=config.data.name, graphs=3
    )
    run.begin(identity, config, Split([0], [1], [2]), MACHINE)
    epochs = config.training.epochs
    part = "test" if config.split.kind == "gin" else "valid"
    curve = curve or [valid] * epochs
    rows = [f"{epoch},{value / 2},{value}" for epoch, value in enumerate(curve)]
    header = f"epoch,train_{metric},{part}_{metric}"
    run.metrics_file.file.write_text("\n".join([header, *rows]) + "\n")
    run.finish(
        Result(
            run=run.id,
            dataset=config.data.name,
            conv=config.model.conv,
            seed=config.seeds[0],
            fold=config.split.fold,
            metric=metric,
            epochs=epochs,
            stopped_early=False,
            best_epoch=1,
            train={metric: valid / 2},
            valid={} if config.split.kind == "gin" else {metric: valid},
            test={metric: test},
            train_eval={} if train is None else {metric: train},
            graphs={"train": 1, "valid": 1, "test": 1},
            parameters=1000 + (config.model.s or 0),
            seconds=1.0,
            seconds_per_epoch=0.5,
            peak_memory=2_000_000,
        )
    )
    return run


def runs_for(table, scale, runs, only, seeds=1, s=None):
    """The single runs of one cell, or of one s of it."""
    (cell,) = cells(table, scale, only, seeds, runs=runs)
    return single_runs(cell.candidates[s])


def write_qm9(runs, seeds=3):
    """Three targets of the small ablation on QM9, in which more aggregators and
    Re-SUM are better, with two baselines; s = 16 is best on validation."""
    base = {"ExpC*-1": 1.2, "ExpC-1": 1.0, "ExpC-4": 0.8, "ExpC-8": 0.7, "CombC": 0.75}
    base |= {"ExpC-16": 0.5, "ExpC-32": 0.6, "CombC*": 0.9}
    for target, size in (("mu", 1.0), ("gap", 0.01), ("U0", 10.0)):
        for row, value in base.items():
            for run in runs_for("ablation-qm9", "small", runs, [row, target], seeds):
                score = size * value * (1 + 0.01 * run.seeds[0])
                write_run(run, "mae", score, 1.1 * score)
        for row, value in (("GIN0*", 1.3), ("GAT-s", 1.25)):
            for run in runs_for("baselines-qm9", "small", runs, [row, target], seeds):
                score = size * value * (1 + 0.01 * run.seeds[0])
                write_run(run, "mae", score, 1.1 * score)


def write_mutag(folder, monkeypatch):
    """A small set in place of MUTAG, as if it came from a mirror; returns the
    fingerprint of its content."""
    (folder / "mirror").mkdir()
    write_graphs(folder / "mirror" / "MUTAG")
    monkeypatch.setenv("FULLRANK_ROOT", str(folder / "root"))
    monkeypatch.setenv("FULLRANK_MIRROR", str(folder / "mirror"))
    return parse({"data": {"name": "MUTAG"}}).data.load().fingerprint
