import csv
import os
import signal
from multiprocessing import active_children

import pytest

from fullrank.paper.grid import (
    RunError,
    run_here,
    run_in_processes,
    run_on_ray,
    unfinished,
)
from fullrank.train import Interrupted, finished, runs_of
from train.samples import small_config


def seeds_of(tmp_path, count, runs="runs", **sections):
    config = small_config(tmp_path, seeds=list(range(count)), **sections)
    return runs_of(config.changed(runs=tmp_path / runs))


def curves(config):
    with (config.folder / "metrics.csv").open() as stream:
        return list(csv.DictReader(stream))


def measured(config):
    result = finished(config)
    return {key: result[key] for key in ("best_epoch", "train", "valid", "test")}


def ignore(board):
    pass


def test_a_failed_run_is_reported_and_the_others_go_on(tmp_path):
    good = seeds_of(tmp_path, 2)
    (missing,) = runs_of(good[0].changed(data={"name": "MUTAGG", "targets": None}))
    outcomes = run_here([good[0], missing, good[1]], ignore)
    assert [outcome.state for outcome in outcomes] == ["done", "failed", "done"]
    assert "MUTAGG" in outcomes[1].message
    assert "MUTAG" in outcomes[1].message
    assert unfinished([*good, missing]) == [missing]


def test_a_grid_goes_on_where_it_stopped(tmp_path):
    configs = seeds_of(tmp_path, 3)
    run_here(configs[:2], ignore)
    before = [(c.folder / "result.json").stat().st_mtime_ns for c in configs[:2]]
    assert unfinished([*configs, *configs]) == configs[2:]
    run_here(unfinished(configs), ignore)
    assert not unfinished(configs)
    after = [(c.folder / "result.json").stat().st_mtime_ns for c in configs[:2]]
    assert before == after


def test_a_run_is_done_elsewhere_if_it_is_as_long_there(tmp_path):
    first, second = seeds_of(tmp_path, 2)
    epochs = first.training.epochs
    assert unfinished([first, second], {first.id: epochs}) == [second]
    assert unfinished([first], {first.id: epochs + 1}) == []
    assert unfinished([first], {first.id: epochs - 1}) == [first]


def test_a_run_that_was_trained_longer_is_done(tmp_path):
    (config,) = seeds_of(tmp_path, 1, schedule={"name": "constant"})
    longer = config.changed(training={"epochs": config.training.epochs + 1})
    assert longer.id == config.id
    run_here([longer], ignore)
    assert unfinished([config]) == []


def die_once():
    """Stands for what the system does to a process when memory is short."""
    import atexit
    from pathlib import Path

    marker = Path(os.environ["DIE_ONCE"])
    if not marker.exists():
        marker.touch()
        atexit._clear()
        os.kill(os.getpid(), signal.SIGKILL)


def test_processes_give_the_same_results_and_survive_the_death_of_one(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("DIE_ONCE", str(tmp_path / "died"))
    here = seeds_of(tmp_path, 3)
    there = seeds_of(tmp_path, 3, runs="elsewhere")
    run_here(here, ignore)
    seen = []
    outcomes = run_in_processes(
        there, 2, lambda board: seen.extend(board.running), die_once
    )
    assert (tmp_path / "died").exists()
    assert [outcome.state for outcome in outcomes] == ["done"] * 3
    assert set(seen) == {config.id for config in there}
    for one, other in zip(here, there, strict=True):
        assert one.id == other.id
        assert curves(one) == curves(other)
        assert measured(one) == measured(other)


@pytest.mark.parametrize("moment", ["start", "epoch"])
def test_ctrl_c_stops_every_process(tmp_path, moment):
    configs = seeds_of(tmp_path, 3, training={"epochs": 10_000})
    pressed = []

    def press(board):
        processes = active_children()
        begun = [c for c in configs[:2] if (c.folder / "metrics.csv").exists()]
        if not pressed and len(begun if moment == "epoch" else processes) == 2:
            pressed.append(moment)
            for process in processes:
                os.kill(process.pid, signal.SIGINT)
            if moment == "start":  # a terminal tells all of them
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted, match="the same command goes on"):
        run_in_processes(configs, 2, press)
    assert unfinished(configs) == configs
    assert not configs[2].folder.exists()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_an_address_where_nobody_answers(tmp_path, address):
    pytest.importorskip("ray")
    with pytest.raises(RunError, match="no Ray cluster answers at .*127.0.0.1:1"):
        run_on_ray(seeds_of(tmp_path, 1), address, ignore)


def test_no_cluster_on_this_machine(tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(RunError, match="no Ray cluster at 'auto': start one with"):
        run_on_ray(seeds_of(tmp_path, 1), "auto", ignore)


def test_what_is_no_address(tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(RunError, match="HOST:PORT.*'nowhere'"):
        run_on_ray(seeds_of(tmp_path, 1), "nowhere", ignore)


class KillsANode:
    """Watches a grid and kills a node once a run on it has saved an epoch."""

    def __init__(self, cluster, node, folder):
        self.cluster = cluster
        self.node = node
        self.folder = folder
        self.victims = []

    def __call__(self, board):
        if self.victims:
            return
        for run, (where, _) in board.running.items():
            saved = self.folder / run / "checkpoints" / "last.ckpt"
            if self.node.node_id in where and saved.exists():
                self.victims.append(run)
        if self.victims:
            self.cluster.remove_node(self.node, allow_graceful=False)


@pytest.fixture
def cluster():
    pytest.importorskip("ray")
    import ray
    from ray.cluster_utils import Cluster

    # Ray gives a silent node half a minute, and its workers what others leave over.
    soon = {
        "health_check_period_ms": 1000,
        "health_check_failure_threshold": 3,
        "worker_niceness": 0,
    }
    head = {"num_cpus": 1, "_system_config": soon, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.mark.slow
def test_two_ray_nodes_of_which_one_is_killed(tmp_path, cluster):
    doomed = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    long = {"training": {"epochs": 30}}
    here = seeds_of(tmp_path, 3, **long)
    there = seeds_of(tmp_path, 3, runs="elsewhere", **long)
    killer = KillsANode(cluster, doomed, tmp_path / "elsewhere")

    outcomes = run_on_ray(there, cluster.address, killer)

    assert killer.victims
    assert {outcome.state for outcome in outcomes} == {"done"}
    assert {outcome.run for outcome in outcomes} == {config.id for config in there}
    (again,) = (outcome for outcome in outcomes if outcome.run in killer.victims)
    assert doomed.node_id not in again.where
    run_here(here, ignore)
    for one, other in zip(here, there, strict=True):
        assert curves(one) == curves(other)
        assert measured(one) == measured(other)
