import os
import signal
import time

import psutil
import pytest

from fullrank.errors import RunError
from fullrank.interrupt import Interrupted
from fullrank.train import RunFolder, run_one, single_runs
from fullrank.train.sweep import (
    FinishedRuns,
    RunOutcome,
    _bring_home,
    run_here,
    run_in_processes,
    run_on_ray,
)
from train.samples import folder_of, small_config, write_molecules


def seeds_of(tmp_path, count, runs="runs", **sections):
    config = small_config(tmp_path, seeds=list(range(count)), **sections)
    return single_runs(config.changed(runs=tmp_path / runs))


def unfinished(configs):
    finished = FinishedRuns(configs[0].runs)
    return [config for config in configs if finished.find(config) is None]


def ignore(state):
    pass


def assert_same(one, other):
    assert one.id == other.id
    assert one.curve == other.curve
    for key in ("best_epoch", "train", "valid", "test"):
        assert getattr(one.result, key) == getattr(other.result, key)


def test_a_failed_run_is_reported_and_the_others_go_on(tmp_path):
    good = seeds_of(tmp_path, 2)
    missing = good[0].changed(data={"targets": ["nothing"]})
    outcomes = run_here([good[0], missing, good[1]], ignore)
    assert [outcome.state for outcome in outcomes] == ["done", "failed", "done"]
    assert "'nothing'" in outcomes[1].message
    assert unfinished([*good, missing]) == [missing]


def test_a_sweep_resumes_where_it_stopped(tmp_path):
    configs = seeds_of(tmp_path, 3)
    done = run_here(configs[:2], ignore)
    results = [outcome.folder / "result.json" for outcome in done]
    before = [file.stat().st_mtime_ns for file in results]
    assert unfinished(configs) == configs[2:]
    run_here(configs, ignore)
    assert not unfinished(configs)
    assert [file.stat().st_mtime_ns for file in results] == before


def test_a_run_that_was_trained_longer_is_done(tmp_path):
    (config,) = seeds_of(tmp_path, 1, schedule={"name": "constant"})
    run_here([config.changed(training={"epochs": 4})], ignore)
    assert unfinished([config]) == []
    longer = config.changed(training={"epochs": 5})
    assert unfinished([longer]) == [longer]


def test_a_run_on_data_that_changed_is_not_done(tmp_path):
    (config,) = seeds_of(tmp_path, 1)
    run_one(config)
    table = tmp_path / "molecules.csv"
    text = table.read_text()
    table.write_text(text.replace("CCO,", "CCN,"))
    assert unfinished([config]) == [config]
    table.write_text(text)
    assert unfinished([config]) == []
    table.unlink()  # what is left is the configuration
    assert unfinished([config]) == []


def children():
    """The processes that this one started, and theirs."""
    return psutil.Process().children(recursive=True)


def test_processes_give_the_same_results_and_survive_the_death_of_one(tmp_path):
    here = seeds_of(tmp_path, 3)
    there = seeds_of(tmp_path, 3, runs="elsewhere")
    done_here = run_here(here, ignore)
    killed, seen = [], set()

    def kill_one(state):
        seen.update(active.config.seeds[0] for active in state.running.values())
        for active in state.running.values():
            if not killed:  # as the system does when memory is short
                killed.append(int(active.where.rpartition(" ")[2]))
                os.kill(killed[0], signal.SIGKILL)

    done_there = run_in_processes(there, 2, kill_one)
    assert killed
    assert seen == {0, 1, 2}
    assert [outcome.state for outcome in done_there] == ["done"] * 3
    folders = {outcome.config.seeds[0]: outcome.folder for outcome in done_there}
    for outcome in done_here:
        other = folders[outcome.config.seeds[0]]
        assert_same(RunFolder(outcome.folder), RunFolder(other))


def test_a_process_that_fails_says_why(tmp_path):
    (config,) = seeds_of(tmp_path, 1)
    bad = config.changed(data={"targets": ["nothing"]})
    (outcome,) = run_in_processes([bad], 2, ignore)
    assert outcome.state == "failed"
    assert "'nothing'" in outcome.message


def test_ctrl_c_stops_every_process_and_the_sweep_resumes(tmp_path):
    configs = seeds_of(tmp_path, 3, training={"epochs": 10_000})
    pressed, before = [], set(children())

    def press(state):
        saved = [
            active
            for active in state.running.values()
            if active.folder and RunFolder(active.folder).checkpoint("last").exists()
        ]
        if not pressed and saved:
            pressed.append(time.monotonic())
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        run_in_processes(configs, 2, press)
    assert set(children()) <= before
    assert unfinished(configs) == configs
    run = next(r for r in map(folder_of, configs) if r.checkpoint("last").exists())
    epochs = len(run.curve)
    assert epochs
    config = run.config.changed(training={"epochs": epochs + 1})
    (outcome,) = run_here([config], ignore)
    assert outcome.state == "done"
    assert len(RunFolder(outcome.folder).curve) == epochs + 1


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_an_address_where_nobody_answers(tmp_path, address):
    pytest.importorskip("ray")
    with pytest.raises(RunError, match="127.0.0.1:1"):
        run_on_ray(seeds_of(tmp_path, 1), address, ignore)


def test_no_cluster_on_this_machine(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))  # where Ray notes the latest one
    with pytest.raises(RunError, match="'auto'"):
        run_on_ray(seeds_of(tmp_path, 1), "auto", ignore)


def test_what_is_not_an_address(tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(RunError, match="HOST:PORT.*'nowhere'"):
        run_on_ray(seeds_of(tmp_path, 1), "nowhere", ignore)


class KillsANode:
    """Watches a sweep and kills a node once a run on it has saved an epoch."""

    def __init__(self, cluster, node, configs):
        self.cluster = cluster
        self.node = node
        self.saved = {c.digest: folder_of(c).checkpoint("last") for c in configs}
        self.victims = []

    def __call__(self, state):
        if self.victims:
            return
        for digest, active in state.running.items():
            if self.node.node_id in active.where and self.saved[digest].exists():
                self.victims.append(digest)
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
    long = {"training": {"epochs": 60}}
    write_molecules(tmp_path / "molecules.csv", repeat=4)
    here = seeds_of(tmp_path, 3, **long)
    there = seeds_of(tmp_path, 3, runs="elsewhere", **long)
    killer = KillsANode(cluster, doomed, there)

    outcomes = run_on_ray(there, cluster.address, killer)

    assert killer.victims
    assert {outcome.state for outcome in outcomes} == {"done"}
    again = next(o for o in outcomes if o.config.digest in killer.victims)
    assert doomed.node_id not in again.where
    for config, other in zip(here, there, strict=True):
        assert_same(run_one(config), folder_of(other))


def test_a_longer_run_from_another_machine_replaces_the_shorter_one(tmp_path):
    short = small_config(tmp_path, training={"epochs": 1})
    long = short.changed(training={"epochs": 2})
    here = run_one(short)
    there = run_one(long.changed(runs=tmp_path / "there"))
    files = there.small_files()
    _bring_home(RunOutcome(long, "done", folder=here.path, files=files))
    assert here.result == there.result
